"""The other side of the quickstart: makes streams, publishes orders and looks at what became of them.

It speaks the NATS protocol over one socket and needs nothing but Python's standard library.

    orders.py PORT prepare            streams ORDERS and ORDERS_DLQ, and the orders
    orders.py PORT wait               until everything is settled
    orders.py PORT report DIRECTORY   first lines, dead letters, the durable's state; exit 1 if an order is missing
"""

import base64
import glob
import json
import os
import socket
import sys
import time

ORDERS = 400
OVERSIZED_EVERY = 25
DEADLINE = 60.0


class Connection:
    """One connection; answers come to one inbox, in the order of arrival."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.reader = self.socket.makefile("rb")
        self.inbox = "_INBOX.quickstart%d" % os.getpid()
        hello = {"verbose": False, "pedantic": False, "headers": True, "lang": "python", "version": "1", "protocol": 1}
        self.send(b"CONNECT " + json.dumps(hello).encode() + b"\r\nSUB " + self.inbox.encode() + b" 1\r\nPING\r\n")
        while self.line() != b"PONG":
            pass

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        while True:
            line = self.reader.readline()
            if not line:
                raise SystemExit("the server closed the connection")
            line = line.rstrip(b"\r\n")
            if line.startswith(b"-ERR"):
                raise SystemExit("the server refused: " + line.decode())
            if line != b"PING":
                return line
            self.send(b"PONG\r\n")

    def ask(self, subject, body):
        """Publishes with a place for the answer."""
        self.send(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), self.inbox.encode(), len(body), body))

    def answer(self):
        """The next answer, as JSON."""
        while True:
            words = self.line().split(b" ")
            if words[0] not in (b"MSG", b"HMSG"):
                continue
            total, head = int(words[-1]), int(words[-2]) if words[0] == b"HMSG" else 0
            data = self.reader.read(total + 2)[:total]
            if not data[head:]:
                raise SystemExit("no answer: " + data.decode(errors="replace").strip())
            answer = json.loads(data[head:])
            if "error" in answer:
                raise SystemExit("the server refused: " + json.dumps(answer["error"]))
            return answer

    def api(self, subject, **body):
        self.ask("$JS.API." + subject, json.dumps(body).encode() if body else b"")
        return self.answer()


def order(number):
    """An order; every so often one whose note is larger than the size policy allows."""
    note = "please ring twice" if (number + 1) % OVERSIZED_EVERY else "very long " * 200
    body = {"order": number, "customer": "c-%03d" % (number % 37), "total": "%d.%02d" % (number * 7 % 500, number % 100)}
    return "orders.%s" % ("new", "paid", "sent")[number % 3], json.dumps(dict(body, note=note)).encode()


def prepare(connection):
    for name, subjects in (("ORDERS", ["orders.>"]), ("ORDERS_DLQ", ["dlq.orders.>"])):
        connection.api("STREAM.CREATE." + name, name=name, subjects=subjects, retention="limits", storage="file",
                       num_replicas=1, discard="new" if name.endswith("DLQ") else "old")
    for number in range(ORDERS):
        connection.ask(*order(number))
    stored = [connection.answer()["seq"] for _ in range(ORDERS)]
    oversized = ORDERS // OVERSIZED_EVERY
    print("%d orders are in the stream ORDERS, %d of them too large for the size policy" % (len(stored), oversized))


def wait(connection):
    end = time.monotonic() + DEADLINE
    while True:
        info = connection.api("CONSUMER.INFO.ORDERS.archive")
        if info["num_pending"] == info["num_ack_pending"] == 0 and info["delivered"]["stream_seq"] >= ORDERS:
            return
        if time.monotonic() > end:
            raise SystemExit("not everything was settled within %d s: %s" % (DEADLINE, json.dumps(info)))
        time.sleep(0.1)


def dead_letters(connection):
    state = connection.api("STREAM.INFO.ORDERS_DLQ")["state"]
    for sequence in range(state["first_seq"], state["last_seq"] + 1) if state["messages"] else ():
        message = connection.api("STREAM.MSG.GET.ORDERS_DLQ", seq=sequence)["message"]
        yield json.loads(base64.b64decode(message["data"]))


def report(connection, directory):
    files = sorted(glob.glob(os.path.join(directory, "**", "*.ndjson*"), recursive=True))
    records = []
    for path in files:
        with open(path, "rb") as file:
            records += [(line, json.loads(line)) for line in file]
    print("\nThe file sink wrote %d records into %s; the first:" % (len(records), ", ".join(map(os.path.basename, files))))
    for line, _ in records[:3]:
        print("  " + line.decode().rstrip())

    letters = list(dead_letters(connection))
    print("\nThe stream ORDERS_DLQ holds %d dead letters; the first:" % len(letters))
    for letter in letters[:3]:
        facts = {name: letter[name] for name in ("stream_sequence", "subject", "reason", "stage", "error")}
        print("  " + json.dumps(facts))

    info = connection.api("CONSUMER.INFO.ORDERS.archive")
    print("\nThe durable's state at the server:")
    print("  pending %(num_pending)d, not acknowledged %(num_ack_pending)d, redelivered %(num_redelivered)d" % info,
          "acknowledged up to sequence %d" % info["ack_floor"]["stream_seq"], sep=", ")

    found = sorted([record["stream_sequence"] for _, record in records] + [one["stream_sequence"] for one in letters])
    oversized = [number + 1 for number in range(ORDERS) if (number + 1) % OVERSIZED_EVERY == 0]
    if found != list(range(1, ORDERS + 1)):
        raise SystemExit("\nNot every order is accounted for exactly once: %s" % found)
    if sorted(one["stream_sequence"] for one in letters) != oversized or info["ack_floor"]["stream_seq"] != ORDERS:
        raise SystemExit("\nThe dead letters or the acknowledgements are not what they should be")
    print("\nAll %d orders are accounted for: %d in the files, %d in the dead-letter stream, each once."
          % (ORDERS, len(records), len(letters)))


def main():
    port, task, rest = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    {"prepare": prepare, "wait": wait, "report": report}[task](Connection(port), *rest)


if __name__ == "__main__":
    main()
