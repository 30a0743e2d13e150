#!/bin/sh
# A fake `docker` with the options that the worker uses. A container is a process session of its own, because a
# container's processes are not children of the client; mounts keep their paths. The client waits for the container.
# Containers are recorded by name in a folder beside the runs.
case $1 in
--version) echo "engine 1" && exit ;;
run)
    shift
    echo "$*" >> "$(dirname "$0")/said"
    while [ $# -gt 0 ]; do
        case $1 in
        --name) name=$2 && shift 2 ;;
        --label | --user | --mount | --env | --workdir) shift 2 ;;
        --*) shift ;;
        *) break ;;
        esac
    done
    image=$1 dir=$3
    [ "$image" = the-image ] || { echo "no such image: $image" >&2 && exit 125; }
    containers="$(dirname "$0")/containers"
    mkdir -p "$containers"
    setsid sh -c 'echo $$ > "$1.new" && mv "$1.new" "$1" && INSIDE=1 exec "$2" run "$3"' - \
        "$containers/$name" "$(dirname "$0")/sidecar" "$dir" &
    container=$!
    echo $$ > "$containers/$name.client"
    trap '' TERM
    wait $container
    exit $?
    ;;
kill)
    pid=$(cat "$(dirname "$0")/containers/$4" 2>/dev/null) || { echo "no such container: $4" >&2 && exit 1; }
    echo "$4" >> "$(dirname "$0")/killed"
    kill -s "${3#SIG}" -- "-$pid"
    ;;
*) exit 64 ;;
esac
