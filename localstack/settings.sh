# What the scripts of the local cloud share. Sourced, never run.
# shellcheck shell=bash

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"
home="$root/target/localcloud"
# Where cargo puts programs.
built="${CARGO_TARGET_DIR:-$root/target}"
venv="$home/venv"
port="${PILOTHOUSE_CLOUD_PORT:-4566}"
url="http://127.0.0.1:$port"
pid_file="$home/$port.pid"
log_file="$home/$port.log"
worker_file="$home/$port.worker.pid"
worker_log="$home/$port.worker.log"

# What every client of the local cloud needs, functions included: those inherit the server's environment.
export AWS_ENDPOINT_URL="$url"
export AWS_ACCESS_KEY_ID="${AWS_ACCESS_KEY_ID:-test}"
export AWS_SECRET_ACCESS_KEY="${AWS_SECRET_ACCESS_KEY:-test}"
export AWS_DEFAULT_REGION="${PILOTHOUSE_CLOUD_REGION:-eu-central-1}"
export AWS_REGION="$AWS_DEFAULT_REGION"
export AWS_EC2_METADATA_DISABLED=true
unset AWS_PROFILE AWS_SESSION_TOKEN

healthy() {
    curl --silent --fail --max-time 2 --output /dev/null "$url/_ministack/health" ||
        curl --silent --fail --max-time 2 --output /dev/null "$url/_localstack/health"
}

# Whether the local cloud that runs evaluates IAM policies (`up --auth`).
evaluates_policies() {
    curl --silent --fail --max-time 2 "$url/_ministack/health" | grep --quiet '"auth": "enabled"'
}

# The process whose id a file holds, if it still is the one that runs what is said.
running() {
    local file="$1" what="$2" pid
    pid="$(cat "$file" 2>/dev/null)" || return 1
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep --quiet --fixed-strings "$what" || return 1
    echo "$pid"
}

# The process that `up` started.
running_pid() { running "$pid_file" "$here/launch.py"; }
# The worker that `demo` started.
running_worker() { running "$worker_file" "$built/debug/pilothouse"; }

# Asks a process to end, and ends it when it has not within a number of seconds.
stop() {
    local pid="$1" seconds="$2"
    kill "$pid"
    for _ in $(seq $((seconds * 10))); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$pid"
}
