#!/bin/sh
# Stands in for `docker`: its command line as far as the worker uses it. A container is a session of its own, as a
# container's processes are not the client's children, and its mounts are where they are; the client waits for it.
# Containers are kept in a folder beside the runs, by name.
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
    kill -s "${3#SIG}" -- "-$pid"
    ;;
*) exit 64 ;;
esac
