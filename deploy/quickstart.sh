#!/usr/bin/env bash
# jetsink in two minutes: a NATS server of its own on loopback, a stream of orders, the daemon, and what became of each order.
#
#   deploy/quickstart.sh          needs cargo and python3; a nats-server is found or fetched
#   deploy/quickstart.sh --keep   leaves the folder with files, configuration and logs
#
# Exit 0 only if every order is accounted for. Nothing is installed and nothing keeps running.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
keep=
[ "${1:-}" = --keep ] && keep=yes
exec </dev/null

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

for tool in cargo python3; do
    command -v "$tool" >/dev/null || fail "$tool is needed and not there"
done

folder=$(mktemp -d "${TMPDIR:-/tmp}/jetsink-quickstart.XXXXXX")
server_pid= daemon_pid=
finish() {
    local status=$?
    trap - EXIT INT TERM
    set +e
    for pid in $daemon_pid $server_pid; do
        kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    if [ "$status" != 0 ]; then
        for log in daemon server; do
            [ -s "$folder/$log.log" ] && printf -- '--- last lines of %s.log ---\n' "$log" >&2 && tail -n 20 "$folder/$log.log" >&2
        done
    fi
    if [ -n "$keep" ]; then printf 'Kept: %s\n' "$folder"; else rm -rf "$folder"; fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Waits for a condition, at most $1 seconds.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}
ended() { ! kill -0 "$1" 2>/dev/null; }

say "1. Build jetsink"
cargo build --release --locked --manifest-path "$top/Cargo.toml" --message-format json-render-diagnostics >"$folder/build.json"
jetsink=$(python3 - "$folder/build.json" <<'PYTHON'
import json, sys
built = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
print([one["executable"] for one in built if one.get("executable") and one["target"]["name"] == "jetsink"][-1])
PYTHON
)
"$jetsink" --version
jetsink=${jetsink#"$PWD/"}

say "2. Start a nats-server on loopback, with JetStream in $folder"
server=$(command -v nats-server || true)
[ -n "$server" ] || { "$top/tests/tools.sh" nats-server && server=$top/target/tools/nats-server; }
cat >"$folder/server.conf" <<CONF
listen: "127.0.0.1:-1"
ports_file_dir: "$folder"
jetstream { store_dir: "$folder/store" }
CONF
"$server" -c "$folder/server.conf" >"$folder/server.log" 2>&1 &
server_pid=$!
ports=$folder/$(basename "$server")_$server_pid.ports
within 20 test -s "$ports" || fail "the server did not start"
port=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["nats"][0].rsplit(":", 1)[1])' "$ports")
echo "$("$server" --version) listens on 127.0.0.1:$port"

say "3. Make the streams and publish orders"
python3 "$top/deploy/quickstart/orders.py" "$port" prepare

say "4. Run jetsink until everything is settled"
cat >"$folder/jetsink.toml" <<CONF
[nats]
servers = ["nats://127.0.0.1:$port"]

[consumer]
stream = "ORDERS"
durable = "archive"
mode = "create_if_missing"

[size_policy]
max_payload_bytes = "1 KiB"

[dead_letter]
subject = "dlq.orders.archive"
stream = "ORDERS_DLQ"

[sink]
type = "file"

[sink.file]
directory = "$folder/orders"
CONF
sed 's/^/  /' "$folder/jetsink.toml"
"$jetsink" run -c "$folder/jetsink.toml" 2>"$folder/daemon.log" &
daemon_pid=$!
bound() { ended "$daemon_pid" || python3 "$top/deploy/quickstart/orders.py" "$port" wait 2>"$folder/wait.log"; }
within 60 bound || fail "not everything was settled: $(cat "$folder/wait.log")"
kill -TERM "$daemon_pid" 2>/dev/null || fail "jetsink ended by itself"
within 40 ended "$daemon_pid" || fail "jetsink did not stop within 40 s"
status=0
wait "$daemon_pid" || status=$?
daemon_pid=
[ "$status" = 0 ] || fail "jetsink ended with $status"
echo "Settled; jetsink was stopped with SIGTERM and ended with 0."

say "5. Look at what became of the orders"
python3 "$top/deploy/quickstart/orders.py" "$port" report "$folder/orders"

say "What to try next"
cat <<TEXT
  deploy/quickstart.sh --keep                  keeps the configuration, the segments and the logs to look at
  $jetsink check -c FILE         checks a configuration without touching a server
  $jetsink show-config -c FILE   shows every setting and where its value came from
  config/jetsink.toml                          every key with its meaning and its default
  docs/delivery-semantics.md                   what is promised, and what happens under failure
TEXT
