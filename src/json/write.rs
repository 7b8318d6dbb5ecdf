//! JSON strings and numbers written out.

/// Appends a JSON string, quotes included. Nothing that some reader takes for the end of a line is left in it.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F | 0xC2 | 0xE2));
        let (safe, special) = rest.split_at(plain.unwrap_or(rest.len()));
        out.extend_from_slice(safe);
        rest = match special {
            [] => break,
            [b'"', tail @ ..] => escape(b"\\\"", tail, out),
            [b'\\', tail @ ..] => escape(b"\\\\", tail, out),
            [b'\n', tail @ ..] => escape(b"\\n", tail, out),
            [b'\r', tail @ ..] => escape(b"\\r", tail, out),
            [b'\t', tail @ ..] => escape(b"\\t", tail, out),
            [0xC2, 0x85, tail @ ..] => escape(b"\\u0085", tail, out),
            [0xE2, 0x80, 0xA8, tail @ ..] => escape(b"\\u2028", tail, out),
            [0xE2, 0x80, 0xA9, tail @ ..] => escape(b"\\u2029", tail, out),
            [control @ 0..=0x1F, tail @ ..] => {
                out.extend_from_slice(b"\\u00");
                write_hex(&[*control], out);
                tail
            }
            [other, tail @ ..] => escape(&[*other], tail, out),
        };
    }
    out.push(b'"');
}

/// Appends a JSON text that has no line break between its tokens; nothing that some reader takes for the end of a line is
/// left in its strings.
pub fn write_on_one_line(json: &str, out: &mut Vec<u8>) {
    let mut rest = json.as_bytes();
    while let Some(plain) = rest.iter().position(|byte| matches!(byte, 0xC2 | 0xE2)) {
        let (safe, special) = rest.split_at(plain);
        out.extend_from_slice(safe);
        rest = match special {
            [0xC2, 0x85, tail @ ..] => escape(b"\\u0085", tail, out),
            [0xE2, 0x80, 0xA8, tail @ ..] => escape(b"\\u2028", tail, out),
            [0xE2, 0x80, 0xA9, tail @ ..] => escape(b"\\u2029", tail, out),
            [other, tail @ ..] => escape(&[*other], tail, out),
            [] => break,
        };
    }
    out.extend_from_slice(rest);
}

fn escape<'a>(text: &[u8], tail: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    out.extend_from_slice(text);
    tail
}

/// Appends lower-case hexadecimal digits.
pub fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            out.push(if half < 10 { b'0' + half } else { b'a' + half - 10 });
        }
    }
}

/// Appends a decimal number.
pub fn write_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut used = 0;
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(20 - used..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn strings_read_back(text in any::<String>()) {
            let mut out = Vec::new();
            write_string(&text, &mut out);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
            let line = String::from_utf8(out).unwrap();
            prop_assert_eq!(line.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']), false);
        }

        #[test]
        fn a_json_text_stays_on_one_line(text in "[a\u{85}\u{a0}\u{2026}\u{2028}\u{2029}]{0,20}") {
            let json = serde_json::to_string(&text).unwrap();
            let mut out = Vec::new();
            write_on_one_line(&json, &mut out);
            let line = String::from_utf8(out).unwrap();
            prop_assert_eq!(line.contains(['\u{85}', '\u{2028}', '\u{2029}']), false);
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }

        #[test]
        fn numbers_read_back(number in any::<u64>()) {
            let mut out = Vec::new();
            write_number(number, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
