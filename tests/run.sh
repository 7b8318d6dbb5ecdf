#!/usr/bin/env bash
# The test command: brings the tools, then runs every test there is. Exit 0 only if all of them passed and no process is left.
#
#   tests/run.sh            everything; about half an hour on two cores
#   tests/run.sh NAME…      the stages of these names only: tools tests crash-points fuzz
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

LIMIT=60m
# Some tests mount a small file system. Who is not root gets the right to do so in a namespace of their own.
mounter=()
[ "$(id -u)" != 0 ] && unshare -rm true 2>/dev/null && mounter=(unshare -rm)
failed=()
session=

banner() { printf '\n=== %s (%s) ===\n' "$1" "$(date -u +%H:%M:%SZ)"; }

# Ids of the processes of a session, by /proc: field 6 of stat, counted behind the name in brackets.
members() {
    local stat rest
    for stat in /proc/[0-9]*/stat; do
        rest=$(sed 's/.*) //' "$stat" 2>/dev/null) || continue
        # shellcheck disable=SC2086
        set -- $rest
        [ "${4:-}" = "$session" ] && [ "${1:-}" != Z ] && basename "$(dirname "$stat")"
    done
}

# Runs a command in a session of its own, and ends whatever it leaves behind: that is a failure of its own.
alone() {
    local status left pid
    setsid ${mounter[@]+"${mounter[@]}"} timeout --signal=TERM --kill-after=30s "$LIMIT" "$@" &
    session=$!
    wait "$session"
    status=$?
    [ "$status" = 124 ] && printf 'not done within %s\n' "$LIMIT"
    left=$(members)
    for pid in $left; do
        printf 'left behind: %s %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
        kill -KILL "$pid" 2>/dev/null
        status=1
    done
    session=
    return "$status"
}

interrupted() {
    [ -n "$session" ] && for pid in $(members); do kill -KILL "$pid" 2>/dev/null; done
    exit 130
}
trap interrupted INT TERM

stage() {
    local name=$1 began=$SECONDS
    shift
    banner "$name"
    if "$@"; then printf '=== %s passed in %d s ===\n' "$name" $((SECONDS - began))
    else failed+=("$name"); printf '=== %s FAILED after %d s ===\n' "$name" $((SECONDS - began)); fi
}

[ $# -gt 0 ] || set -- tools tests crash-points fuzz
for name in "$@"; do
    case $name in
        tools) stage tools tests/tools.sh ;;
        # Unit, property, compile-fail, simulation, tidy and documentation tests; then those with real servers. These wait more
        # than they compute: four at once take half the time of two, on two cores too.
        tests)
            stage tests alone cargo test --no-fail-fast --lib --bins --test simulation --test compile_fail --test tidy
            stage documentation alone cargo test --doc
            RUST_TEST_THREADS=${RUST_TEST_THREADS:-4} stage servers \
                alone cargo test --no-fail-fast --test integration --test stress ;;
        # The daemon built with its crash points, killed again and again at each.
        crash-points) stage crash-points alone cargo test --features failpoints --test failpoints ;;
        # A look at each target; `tests/fuzz/run.sh 60` is the real run.
        fuzz) stage fuzz alone tests/fuzz/run.sh 3 ;;
        *) printf 'no such stage: %s\n' "$name" >&2; exit 2 ;;
    esac
done

if [ ${#failed[@]} -gt 0 ]; then
    banner "FAILED: ${failed[*]}"
    exit 1
fi
banner "all passed in $SECONDS s"
