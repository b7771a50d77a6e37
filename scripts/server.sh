# Sourced by the scripts that start a server, whose program is $server and whose output goes to $log. POSIX sh.
# shellcheck shell=sh

# Process of the running server.
pid=''

# Stops the running server.
stop() {
    [ -n "$pid" ] || return 0
    kill -TERM "$pid" 2>/dev/null || true
    (sleep 30 && kill -KILL "$pid") >/dev/null 2>&1 &
    wait "$pid" || true
    kill $! 2>/dev/null || true
    pid=''
}

# started FILE PATTERN: waits until the server has written its address to FILE, and sets $address to the match of PATTERN.
started() {
    address=''
    for _ in $(seq 1800); do
        address=$(sed -n "$2" "$1" 2>/dev/null || true)
        [ -z "$address" ] || return 0
        if ! kill -0 "$pid" 2>/dev/null; then
            break
        fi
        sleep 0.1
    done
    echo "${0##*/}: the server did not start:" >&2
    tail -n 20 "$log" >&2
    exit 1
}

# start_product FOLDER NAME=VALUE…: starts the product with its data in FOLDER and these settings, and sets $url to its
# address.
start_product() {
    folder=$1
    shift
    # A killed server may have left its env file.
    rm -f "$folder/env"
    env "$@" "$server" dev --data-dir "$folder" --port 0 >"$log" 2>&1 </dev/null &
    pid=$!
    started "$folder/env" 's/^NOETL_PORT=//p'
    url=http://127.0.0.1:$address/graphql
}
