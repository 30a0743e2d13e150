#!/bin/sh
# A fake `pilothouse-sidecar`. It implements the protocol with the worker: the two
# subcommands, the lock with the process id, exit code 3, and the spool. The rest of its behaviour is the shell code in
# `behaviour` and `drain` in the data folder, which the test writes. In a container, INSIDE is its process id there.
dir=$2
data=${dir%/runs/*}

# Waits until a file exists; 30 seconds at most, so that it ends soon after a failed test.
wait_for() {
    tries=0
    while [ ! -e "$1" ] && [ $tries -lt 1500 ]; do
        sleep 0.02 9>&-
        tries=$((tries + 1))
    done
}

# Starts a process in the same group that lives until it is killed (60 seconds at most), and holds a lock of its own.
grandchild() {
    : > "$dir/grandchild.lock"
    flock "$dir/grandchild.lock" sleep 60 9>&- &
}

case $1 in
run)
    echo "$$" >> "$data/started"
    exec 9>> "$dir/lock"
    flock -n 9 || exit 3
    if [ -e "$dir/exited.json" ] || [ -e "$dir/finished" ]; then exit 3; fi
    : > "$dir/spool.db"
    echo "${INSIDE:-$$}" > "$dir/lock"
    . "$data/behaviour"
    ;;
drain)
    echo drain >> "$dir/drains"
    . "$data/drain"
    ;;
*) exit 64 ;;
esac
