//! A message as a stream stores it, read without a consumer.

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::clock::Timestamp;
use crate::envelope::Headers;
use crate::preflight::nanoseconds;

/// One stored message.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamMessage {
    /// Its sequence in the stream.
    pub sequence: u64,
    /// When the stream stored it.
    pub stored_at: Timestamp,
    /// Its subject.
    pub subject: String,
    /// Its headers. Lines that are none (a line break where none may be) are left out.
    pub headers: Headers,
    /// Its body.
    pub body: Bytes,
}

/// What a server adds to a message that it reads out of a stream.
const ADDED: [&str; 6] = [
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Sequence",
    "Nats-Time-Stamp",
    "Nats-Num-Pending",
    "Nats-Last-Sequence",
];

impl StreamMessage {
    /// From an answer of `DIRECT.GET`: the body as it is, the facts in headers behind the message's own.
    pub(in crate::nats) fn from_direct(map: &HeaderMap, body: Bytes) -> Option<(Self, Option<u64>)> {
        let added = |name: &str| map.get_all(name).last().map(|value| value.as_str().trim());
        let mut headers = Headers::new();
        let mut lines: Vec<_> = map.iter().collect();
        lines.sort_by(|left, right| (left.0.as_ref() as &str).cmp(right.0.as_ref()));
        for (name, values) in lines {
            // The server's own value is the last one; what stands before it is the publisher's.
            let own = values.len() - usize::from(ADDED.contains(&(name.as_ref() as &str)));
            for value in values.iter().take(own) {
                headers.append(name.to_string(), Bytes::copy_from_slice(value.as_str().as_bytes()));
            }
        }
        let message = Self {
            sequence: added("Nats-Sequence")?.parse().ok()?,
            stored_at: Timestamp(nanoseconds(added("Nats-Time-Stamp")?)),
            subject: added("Nats-Subject")?.to_owned(),
            headers,
            body,
        };
        Some((message, added("Nats-Num-Pending").and_then(|pending| pending.parse().ok())))
    }

    /// From an answer of `STREAM.MSG.GET`, which carries the header block as it was stored.
    pub(in crate::nats) fn from_block(
        sequence: u64,
        subject: String,
        block: &[u8],
        body: Bytes,
        time: &str,
    ) -> Option<Self> {
        let mut headers = Headers::new();
        for line in block.split(|byte| *byte == b'\n').skip(1) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = line.split_at(colon);
            let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
            headers.append(String::from_utf8_lossy(name).into_owned(), Bytes::copy_from_slice(value));
        }
        Some(Self { sequence, stored_at: Timestamp(nanoseconds(time)), subject, headers, body })
    }

    /// The first value of a header, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Bytes in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.subject.len() + self.headers.total_bytes() + self.body.len()
    }
}

/// Shows where the message is, never what it says.
impl std::fmt::Debug for StreamMessage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StreamMessage")
            .field("sequence", &self.sequence)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-11-30T22:36:27.322511484Z";

    #[test]
    fn a_header_block_is_read_as_it_was_stored() {
        let block = b"NATS/1.0\r\nB: 1\r\nA:  2 \r\nB: \xff\r\nbroken\r\n\r\n";
        let message = StreamMessage::from_block(7, "a".into(), block, "x".into(), TIME).unwrap();
        let lines: Vec<_> = message.headers.iter().map(|(name, value)| (name, value.as_ref())).collect();
        assert_eq!(lines, [("B", &b"1"[..]), ("A", b"2"), ("B", b"\xff")]);
        assert_eq!(message.stored_at.rfc3339(), TIME);
        assert_eq!(message.header("A"), Some("2"));
    }

    #[test]
    fn what_the_server_adds_is_not_the_publishers() {
        let mut map = HeaderMap::new();
        for (name, value) in [
            ("Nats-Stream", "FORGED"),
            ("A", "b"),
            ("Nats-Stream", "DLQ"),
            ("Nats-Subject", "dlq"),
            ("Nats-Sequence", "7"),
            ("Nats-Time-Stamp", TIME),
            ("Nats-Num-Pending", "3"),
        ] {
            map.append(name, value);
        }
        let (message, pending) = StreamMessage::from_direct(&map, "x".into()).unwrap();
        assert_eq!((message.sequence, message.subject.as_str(), pending), (7, "dlq", Some(3)));
        assert_eq!(message.header("Nats-Stream"), Some("FORGED"));
        assert_eq!(message.header("Nats-Sequence"), None);
        assert_eq!(message.headers.len(), 2);
    }
}
