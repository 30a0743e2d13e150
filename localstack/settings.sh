# Shared settings and functions of the local cloud's scripts. Sourced, never run.
# shellcheck shell=bash

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"
home="$root/target/localcloud"
# The target folder of cargo.
built="${CARGO_TARGET_DIR:-$root/target}"
venv="$home/venv"
port="${PILOTHOUSE_CLOUD_PORT:-4566}"
url="http://127.0.0.1:$port"
pid_file="$home/$port.pid"
log_file="$home/$port.log"
worker_file="$home/$port.worker.pid"
worker_log="$home/$port.worker.log"

# Needed by every client of the local cloud, including functions, which inherit the server's environment.
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

# Whether the running local cloud evaluates IAM policies (`up --auth`).
evaluates_policies() {
    curl --silent --fail --max-time 2 "$url/_ministack/health" | grep --quiet '"auth": "enabled"'
}

# Prints the process id in a file, if that process still runs the given command.
running() {
    local file="$1" what="$2" pid
    pid="$(cat "$file" 2>/dev/null)" || return 1
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep --quiet --fixed-strings "$what" || return 1
    echo "$pid"
}

# The server that `up` started.
running_pid() { running "$pid_file" "$here/launch.py"; }
# The worker that `demo` started.
running_worker() { running "$worker_file" "$built/debug/pilothouse"; }

# Whether a program is missing, or older than a source file in one of the given folders.
stale() {
    local program="$built/debug/$1"
    shift
    [ -x "$program" ] || return 0
    [ -n "$(cd "$root" && find Cargo.toml Cargo.lock "$@" -name tests -prune -o -type f -newer "$program" -print -quit)" ]
}

# Builds the programs of the local cloud with one cargo command, unless they are up to date. Programs of a test build have other
# features of their dependencies, and are used all the same: cargo would compile most dependencies a second time.
build_programs() {
    if stale pilothouse cli functions shared || stale pilothouse-sidecar sidecar shared || stale bootstrap functions shared ||
        stale pilothouse-infra infra/src infra/console console/embed console/public console/src functions shared; then
        echo "· building the programs"
        (cd "$root" && cargo build --quiet --locked \
            --package pilothouse-cli --package pilothouse-sidecar --package pilothouse-bootstrap --package pilothouse-infra)
    fi
}

# Terminates a process, and kills it if it does not end within a number of seconds.
stop() {
    local pid="$1" seconds="$2"
    kill "$pid"
    for _ in $(seq $((seconds * 10))); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    # The process may have ended since the last check.
    kill -KILL "$pid" 2>/dev/null || ! kill -0 "$pid" 2>/dev/null
}
