#!/usr/bin/env bash
# Runs inside LocalStack when it is ready: says so, and what it can do. `up --docker` waits for it.
set -euo pipefail
curl --silent localhost:4566/_localstack/info
