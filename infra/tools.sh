# Pinned tools of `infra`, in a virtual environment under target/. Sourced, never run.
#
# Sets `aws` (the AWS CLI of the PATH, which may have logins, or else the pinned one) and `lint` (cfn-lint). Defines
# `generate FOLDER [PROGRAMS]`.
# shellcheck shell=bash disable=SC2034

infra="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
tools="$(dirname "$infra")/target/infra-tools"

install_tools() {
    cmp --silent "$infra/requirements.txt" "$tools/installed.txt" && return
    echo "installing the AWS CLI and cfn-lint into target/infra-tools" >&2
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$infra/requirements.txt"
    cp "$infra/requirements.txt" "$tools/installed.txt"
}

if ! aws="$(command -v aws)"; then
    install_tools
    aws="$tools/bin/aws"
fi
lint="$tools/bin/cfn-lint"

# Writes the templates and their manifest to a folder, with the program in the folder PROGRAMS or else with a debug build of it. With a
# third folder, also writes the files of the web console to it.
generate() {
    local folder="$1" programs="${2:-}" console="${3:-}" root
    root="$(dirname "$infra")"
    if [ -z "$programs" ]; then
        (cd "$root" && cargo build --quiet --package pilothouse-infra)
        programs="${CARGO_TARGET_DIR:-$root/target}/debug"
    fi
    # No template or file of an earlier version stays.
    rm -rf "$folder" ${console:+"$console"}
    "$programs/pilothouse-infra" "$folder" ${console:+"$console"}
}
