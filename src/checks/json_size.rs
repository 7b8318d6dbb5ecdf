//! How many bytes a text or a payload takes as JSON, without writing it.

use serde::de::IgnoredAny;

/// Bytes around a payload that stands in an envelope (formats §7): names, digest and size.
pub(super) const PAYLOAD_ENVELOPE: usize = 256;
/// No byte takes more than this as JSON: `\u00xx`.
pub(super) const WORST_CASE: usize = 6;

/// A string with its quotes, in the longest spelling that a sink gives it; bytes that are no UTF-8 stand as
/// `{"base64":"…"}`.
pub(super) fn string_bytes(bytes: &[u8]) -> usize {
    if std::str::from_utf8(bytes).is_ok() {
        escaped_bytes(bytes).saturating_add(2)
    } else {
        base64_bytes(bytes.len()).saturating_add(13)
    }
}

/// A payload as `json_or_envelope` writes it: JSON as it is, other text escaped, other bytes in base64.
pub(super) fn payload_bytes(payload: &[u8]) -> usize {
    if std::str::from_utf8(payload).is_err() {
        base64_bytes(payload.len()).saturating_add(PAYLOAD_ENVELOPE)
    } else if serde_json::from_slice::<IgnoredAny>(payload).is_ok() {
        payload.len()
    } else {
        escaped_bytes(payload).saturating_add(PAYLOAD_ENVELOPE)
    }
}

/// A JSON text without the white space between its tokens; spelling and escapes as they came. What is no JSON is counted
/// the same way.
pub(super) fn compact_bytes(json: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        if in_string || !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            count += 1;
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    count
}

/// An object in its canonical spelling, as a record holds it: U+0085, U+2028 and U+2029 stand as escapes.
pub(super) fn object_bytes(text: &str) -> usize {
    let longer = |character| match character {
        '\u{85}' => 4,
        '\u{2028}' | '\u{2029}' => 3,
        _ => 0,
    };
    let more: usize = if text.is_ascii() { 0 } else { text.chars().map(longer).sum() };
    text.len().saturating_add(more)
}

fn escaped_bytes(text: &[u8]) -> usize {
    let mut rest = text;
    let mut count = 0_usize;
    loop {
        let (bytes, tail) = match rest {
            [] => return count,
            [b'"' | b'\\' | b'\n' | b'\r' | b'\t', tail @ ..] => (2, tail),
            // U+0085, U+2028 and U+2029, which some readers take for the end of a line, are written as escapes.
            [0x00..=0x1f, tail @ ..] | [0xc2, 0x85, tail @ ..] | [0xe2, 0x80, 0xa8 | 0xa9, tail @ ..] => {
                (WORST_CASE, tail)
            }
            [_, tail @ ..] => (1, tail),
        };
        count += bytes;
        rest = tail;
    }
}

const fn base64_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use serde_json::Value;

    use super::*;

    proptest! {
        #[test]
        fn a_string_is_counted_as_it_is_written(text in any::<String>()) {
            // The sinks have no short escape for backspace and form feed, and escape what looks like the end of a line.
            let longer = |character: char| match character {
                '\u{8}' | '\u{c}' | '\u{85}' => 4,
                '\u{2028}' | '\u{2029}' => 3,
                _ => 0,
            };
            let written = serde_json::to_string(&text).unwrap().len() + text.chars().map(longer).sum::<usize>();
            prop_assert_eq!(string_bytes(text.as_bytes()), written);
        }
    }

    #[test]
    fn compact_json_has_no_white_space_between_tokens() {
        let pretty = "{ \"a b\" : [ 1 ,\t\"x \\\" y\" ] ,\r\n\"\\\\\" : 2 }";
        let compact = serde_json::from_str::<Value>(pretty).unwrap().to_string();
        assert_eq!(compact_bytes(pretty.as_bytes()), compact.len());
        assert_eq!(compact_bytes(compact.as_bytes()), compact.len());
        assert_eq!(compact_bytes(b"{ not json"), 8);
    }

    #[test]
    fn a_payload_is_counted_in_the_form_it_would_have() {
        assert_eq!(payload_bytes(b"{\"a\": 1}"), 8);
        assert_eq!(payload_bytes(b"line\n"), 6 + PAYLOAD_ENVELOPE);
        assert_eq!(payload_bytes(&[0xff; 30]), 40 + PAYLOAD_ENVELOPE);
    }
}
