//! The `Nats-Msg-Id` of a dead letter.

use std::fmt::Write as _;

use crate::envelope::Identity;

/// Which part of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartNumber {
    /// The letter is one message.
    Whole,
    /// The first of two, of a letter whose data has this many bytes.
    First(usize),
    /// The second of two, of a letter whose data has this many bytes.
    Second(usize),
}

/// The id under which the dead-letter stream recognises a repeat: built from the message's identity, its stream and the
/// durable, so that a repeat after a crash is one stored letter, while two durables, two messages with one id of their own,
/// a recreated stream or a replay never share one (field case 25). Two parts split at half of their data, so the size in
/// the id keeps parts of different splits apart.
///
/// Printable ASCII; other bytes of the names, dots and wildcards are written `%XX`.
#[must_use]
pub fn message_id(identity: Identity, stream: &str, durable: &str, part: PartNumber) -> String {
    let mut id = String::from("jetsink.dlq.");
    push_escaped(&mut id, stream);
    id.push('.');
    push_escaped(&mut id, durable);
    id.push('.');
    id.push_str(&identity.sequence.to_string());
    id.push('.');
    id.push_str(&identity.stored_at.0.to_string());
    match part {
        PartNumber::Whole => {}
        PartNumber::First(size) => id.push_str(&format!(".1of2.{size}")),
        PartNumber::Second(size) => id.push_str(&format!(".2of2.{size}")),
    }
    id
}

/// Writes a name as one token of a subject: printable ASCII without dots and wildcards, other bytes as `%XX`.
pub(super) fn push_escaped(id: &mut String, name: &str) {
    for byte in name.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'.' | b'%' | b'*' | b'>') {
            id.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _written = write!(id, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    #[test]
    fn an_id_tells_stream_durable_message_and_part() {
        let identity = Identity { sequence: 7, stored_at: Timestamp(9) };
        assert_eq!(message_id(identity, "ORDERS", "sink", PartNumber::Whole), "jetsink.dlq.ORDERS.sink.7.9");
        assert_eq!(
            message_id(identity, "ORDERS", "sink", PartNumber::Second(5)),
            "jetsink.dlq.ORDERS.sink.7.9.2of2.5"
        );
    }

    #[test]
    fn everything_that_tells_messages_apart_tells_ids_apart() {
        let id = |sequence, stored_at, stream, durable, part| {
            message_id(Identity { sequence, stored_at: Timestamp(stored_at) }, stream, durable, part)
        };
        let ids = [
            id(1, 1, "A", "b", PartNumber::Whole),
            id(11, 1, "A", "b", PartNumber::Whole),
            id(1, 2, "A", "b", PartNumber::Whole),
            id(1, 1, "A.b", "", PartNumber::Whole),
            id(1, 1, "", "A.b", PartNumber::Whole),
            id(1, 1, "A", "c", PartNumber::Whole),
            id(1, 1, "A", "ü", PartNumber::Whole),
            id(1, 1, "A", "b", PartNumber::First(3)),
            id(1, 1, "A", "b", PartNumber::First(4)),
            id(1, 1, "A", "b", PartNumber::Second(3)),
        ];
        for (index, id) in ids.iter().enumerate() {
            assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
            assert_eq!(ids.iter().position(|other| other == id), Some(index));
        }
    }
}
