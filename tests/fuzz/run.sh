#!/usr/bin/env bash
# Fuzzes the parsers that read what strangers send, one target after the other, with libFuzzer on the stable compiler.
#
#   tests/fuzz/run.sh SECONDS              every target for so long
#   tests/fuzz/run.sh SECONDS TARGET…      only these
#   tests/fuzz/run.sh keep TARGET…         takes what the runs found into tests/fuzz/corpus, made small
#
# A run begins with tests/fuzz/corpus (seeds written by hand, and an archive of what earlier runs found) and never writes to it:
# what it finds is in target/fuzz/corpus. An input that breaks a
# target is printed, stored in target/fuzz/artifacts, and makes the run fail; the right outcome belongs into a unit test.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec </dev/null

case ${1:-} in
    keep) seconds=0 ;;
    '' | *[!0-9]*) printf 'usage: %s SECONDS|keep [TARGET…]\n' "$0" >&2; exit 2 ;;
    *) seconds=$1 ;;
esac
shift
host=$(rustc -vV | sed -n 's/^host: //p')
out=$PWD/target/fuzz
mapfile -t known < <(sed -n 's/^name = "\(.*\)"$/\1/p' tests/fuzz/Cargo.toml | tail -n +2)
[ $# -gt 0 ] || set -- "${known[@]}"

# Coverage is what guides libFuzzer; without it the inputs would be blind guesses.
coverage=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    --cfg=fuzzing
)
RUSTFLAGS="${coverage[*]}" cargo build --locked --manifest-path tests/fuzz/Cargo.toml --target "$host" --target-dir "$out"

failed=()
for target in "$@"; do
    program=$out/$host/debug/$target
    [ -x "$program" ] || { printf 'no such target: %s (there are: %s)\n' "$target" "${known[*]}" >&2; exit 2; }
    mkdir -p "$out/corpus/$target" "$out/artifacts/$target"
    [ -f "tests/fuzz/corpus/$target.tar.gz" ] && tar -xzf "tests/fuzz/corpus/$target.tar.gz" -C "$out/corpus/$target"
    if [ "$seconds" = 0 ]; then
        rm -rf "$out/kept" && mkdir -p "$out/kept"
        "$program" -merge=1 -max_len=2048 "$out/kept" "tests/fuzz/corpus/$target" "$out/corpus/$target" >"$out/$target.log" 2>&1
        tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$out/kept" -c . | gzip -n9 >"tests/fuzz/corpus/$target.tar.gz"
        continue
    fi
    if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=20000 -print_final_stats=1 \
        -artifact_prefix="$out/artifacts/$target/" "$out/corpus/$target" "tests/fuzz/corpus/$target" >"$out/$target.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$target.log")
        printf 'fuzz: %s held for %s s, %s inputs\n' "$target" "$seconds" "$runs"
    else
        failed+=("$target")
        tail -n 30 "$out/$target.log"
        printf 'fuzz: %s BROKE; see target/fuzz/artifacts/%s\n' "$target" "$target"
    fi
done
[ ${#failed[@]} = 0 ]
