//! Names on disk, built from names that publishers choose.

use std::fmt::Write as _;

use crate::envelope::Identity;
use crate::sinks::time_text::TimeText;

/// Longest name a file system takes, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 255;
/// The folder of the sink's memory. No escaped name begins with a dot, so no subject can name it.
pub(super) const STATE_FOLDER: &str = ".jetsink";
/// Longest part of the stream's name in a file name; the rest of the name needs about 80 bytes.
const MAX_STREAM_BYTES: usize = 120;

/// Escapes a name losslessly to one path component: letters and digits of any script, `-`, `_`, `=`, `+`, `@`, `,` and a
/// dot that is not the first stay; every other character becomes `%XX` for each of its bytes.
pub(super) fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, character) in name.char_indices() {
        let plain = match character {
            '-' | '_' | '=' | '+' | '@' | ',' => true,
            '.' => at > 0,
            other => other.is_alphanumeric(),
        };
        if plain {
            out.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _written = write!(out, "%{byte:02X}");
            }
        }
    }
    if out.is_empty() {
        // The empty name, which no subject has; a lone % stands for nothing else.
        out.push('%');
    }
    out
}

/// The name of a segment without its ending: stream, first sequence, and when that message was stored.
pub(super) fn stem(stream: &str, first: Identity, times: &mut TimeText, attempt: u32) -> String {
    let mut stem = stream_part(stream);
    let date: String = times.date(first.stored_at).chars().filter(|character| *character != '-').collect();
    let second = first.stored_at.0.div_euclid(1_000_000_000).rem_euclid(86_400);
    let _written = write!(
        stem,
        "-{:020}-{date}T{:02}{:02}{:02}Z",
        first.sequence,
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    if attempt > 0 {
        let _written = write!(stem, "-{attempt}");
    }
    stem
}

/// The name of the file of one message: a function of its identity, so that a second delivery finds the first.
pub(super) fn message_file(stream_part: &str, identity: Identity, ending: &str) -> String {
    format!("{stream_part}-{:020}-{}.{ending}", identity.sequence, identity.stored_at.0)
}

/// The stream's name as a part of file names; long ones are cut and told apart by a checksum.
pub(super) fn stream_part(stream: &str) -> String {
    let mut escaped = escape(stream);
    if escaped.len() > MAX_STREAM_BYTES {
        let checksum = crc32fast::hash(stream.as_bytes());
        let mut cut = MAX_STREAM_BYTES - 10;
        while !escaped.is_char_boundary(cut) {
            cut -= 1;
        }
        escaped.truncate(cut);
        let _written = write!(escaped, "~{checksum:08x}");
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::clock::Timestamp;

    fn unescape(name: &str) -> String {
        if name == "%" {
            return String::new();
        }
        let mut bytes = Vec::new();
        let mut rest = name.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            } else {
                bytes.push(byte);
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_hostile_name_is_one_harmless_component() {
        for (name, escaped) in [
            ("orders.eu.created", "orders.eu.created"),
            ("..", "%2E."),
            (".", "%2E"),
            (".jetsink", "%2Ejetsink"),
            ("../../x", "%2E.%2F..%2Fx"),
            ("/etc/x", "%2Fetc%2Fx"),
            ("a\0b", "a%00b"),
            ("%2E", "%252E"),
            ("$MQTT.x y", "%24MQTT.x%20y"),
            ("größe.数", "größe.数"),
            ("a\u{202e}b", "a%E2%80%AEb"),
            ("", "%"),
        ] {
            assert_eq!(escape(name), escaped, "{name:?}");
        }
    }

    #[test]
    fn a_segment_says_where_it_begins() {
        let first = Identity { sequence: 42, stored_at: Timestamp(1_796_078_187_322_511_484) };
        let mut times = TimeText::default();
        assert_eq!(stem("ORDERS", first, &mut times, 0), "ORDERS-00000000000000000042-20261130T223627Z");
        assert_eq!(stem("ORDERS", first, &mut times, 2), "ORDERS-00000000000000000042-20261130T223627Z-2");
        assert!(stem(&"\u{1}".repeat(300), first, &mut times, 0).len() < 180);
        assert_ne!(stream_part(&"a".repeat(300)), stream_part(&"a".repeat(301)));
        assert_eq!(
            message_file("ORDERS", first, "json"),
            "ORDERS-00000000000000000042-1796078187322511484.json"
        );
    }

    proptest! {
        #[test]
        fn escaping_is_lossless_and_safe(name in any::<String>()) {
            let escaped = escape(&name);
            prop_assert_eq!(unescape(&escaped), name);
            prop_assert!(!escaped.is_empty() && !escaped.starts_with('.'));
            prop_assert!(!escaped.contains(|c: char| c == '/' || c == '\\' || c.is_control()));
        }
    }
}
