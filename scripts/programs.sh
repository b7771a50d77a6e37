# Sourced by the other scripts in the project's folder: finds the programs that the project needs. POSIX sh.
# shellcheck shell=sh

# scripts/prepare installs a Node in .noetl-tools/ if the system's is missing or too old. A shell that is older than the
# installation of Rust does not have cargo in its PATH. Debian installs servers in /usr/sbin, which a normal user's PATH
# lacks. The Makefile sets the same PATH.
export PATH="$PWD/.noetl-tools/node/bin:$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin"

# at_least VERSION WANTED: true if VERSION is at least WANTED; compares "major.minor".
at_least() {
    major=${1%%.*} minor=${1#*.}
    [ "$minor" = "$1" ] && minor=0
    minor=${minor%%[!0-9]*}
    wanted_major=${2%%.*} wanted_minor=${2#*.}
    [ "$wanted_minor" = "$2" ] && wanted_minor=0
    [ "$major" -gt "$wanted_major" ] || { [ "$major" -eq "$wanted_major" ] && [ "${minor:-0}" -ge "$wanted_minor" ]; }
}

# Prints the folder of the newest PostgreSQL server programs, version 13 or newer.
postgres_bin() {
    found='' newest=0
    for server in "$(command -v postgres || true)" /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres \
        /opt/homebrew/opt/postgresql@*/bin/postgres /usr/local/opt/postgresql@*/bin/postgres \
        /Applications/Postgres.app/Contents/Versions/*/bin/postgres; do
        [ -x "$server" ] || continue
        # If it is a link to the server, initdb is in the folder of the link's target.
        [ -L "$server" ] && server=$(readlink -f "$server")
        bin=${server%/postgres}
        { [ -x "$bin/initdb" ] && [ -x "$bin/psql" ]; } || continue
        version=$("$server" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
        if [ "$version" -ge 13 ] && [ "$version" -gt "$newest" ]; then
            found=$bin newest=$version
        fi
    done
    [ -n "$found" ] && echo "$found"
}

# Prints the path of nats-server, version 2.9 or newer. The first one in PATH may be older.
nats_server() {
    for server in "$(command -v nats-server || true)" /usr/sbin/nats-server /usr/local/sbin/nats-server \
        /usr/local/bin/nats-server /opt/homebrew/bin/nats-server; do
        [ -x "$server" ] || continue
        version=$("$server" --version | sed 's/[^0-9]*//')
        at_least "$version" 2.9 && echo "$server" && return
    done
    return 1
}

# True if there is npm, and a Node that is new enough for Vite: 20.19 or a later 20, or 22.12 or later.
has_node() {
    command -v npm >/dev/null && version=$(node --version 2>/dev/null) || return 1
    case ${version#v} in
        20.*) at_least "${version#v}" 20.19 ;;
        *) at_least "${version#v}" 22.12 ;;
    esac
}

# Prints the path of a Chromium or Chrome.
chromium() {
    for browser in "${CHROMIUM_PATH:-}" /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome \
        /usr/bin/google-chrome-stable /Applications/Chromium.app/Contents/MacOS/Chromium \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" "$PWD/.noetl-tools/chromium/chromium"; do
        [ -x "$browser" ] && echo "$browser" && return
    done
    return 1
}

# Prints the path of libfaketime, which changes the time that a process sees. The tests search the same folder.
faketime_library() {
    for library in /usr/lib/*/faketime/libfaketimeMT.so.1; do
        [ -e "$library" ] && echo "$library" && return
    done
    return 1
}

# True if Python can create a virtual environment and is new enough for Schemathesis.
has_python() {
    python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# python_packages FOLDER FILE…: installs the packages of requirements files in a virtual environment if they have changed.
python_packages() {
    venv=$1 changed=''
    shift
    for file; do
        [ "$venv/installed" -nt "$file" ] || changed=yes
        set -- "$@" --requirement "$file"
        shift
    done
    [ -n "$changed" ] || return 0
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$venv/installed"
}

# Installs the npm packages of tests/third_party if they have changed.
third_party_modules() {
    (
        cd tests/third_party
        mkdir -p node_modules
        [ ! node_modules/.package-lock.json -nt package-lock.json ] || exit 0
        npm ci --loglevel error
        touch node_modules/.package-lock.json
    )
}
