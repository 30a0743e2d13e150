#!/usr/bin/env bash
# Runs inside LocalStack when it is ready, and prints its services. `up --docker` waits for it.
set -euo pipefail
curl --silent localhost:4566/_localstack/info
