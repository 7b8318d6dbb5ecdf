//! A strict, fast reading of JSON payloads (formats §7).
//!
//! A payload is read once and then copied as it is: numbers keep their spelling and keys their order. *Strict* means RFC
//! 8259 and more: no key twice in one object (also not in two spellings), no lone surrogate, no nesting deeper than
//! [`MAX_DEPTH`]: what a common reader would refuse or misread must not spoil the line it stands in.

use std::borrow::Cow;

/// Deepest nesting of a payload: one below the 127 that common readers allow, since a full record adds a level.
pub const MAX_DEPTH: usize = 126;

/// Up to so many keys of an object are compared pair by pair, which needs no memory.
const FEW_KEYS: usize = 32;

/// A payload that is one strict JSON value.
#[derive(Debug, PartialEq, Eq)]
pub struct StrictJson<'a> {
    /// The value without the white space around it.
    text: &'a str,
    /// It holds bytes that some reader takes for the end of a line.
    has_line_breaks: bool,
}

impl StrictJson<'_> {
    /// Appends the value as part of one line. Line breaks between tokens become spaces; U+0085, U+2028 and U+2029, which
    /// can only stand inside strings, become escapes. Nothing else changes.
    pub fn write_on_one_line(&self, out: &mut Vec<u8>) {
        if !self.has_line_breaks {
            out.extend_from_slice(self.text.as_bytes());
            return;
        }
        for character in self.text.chars() {
            match character {
                '\n' | '\r' => out.push(b' '),
                other => push_unless_break(other, out),
            }
        }
    }
}

fn push_unless_break(character: char, out: &mut Vec<u8>) {
    match character {
        '\u{85}' => out.extend_from_slice(b"\\u0085"),
        '\u{2028}' => out.extend_from_slice(b"\\u2028"),
        '\u{2029}' => out.extend_from_slice(b"\\u2029"),
        other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Reads payloads; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub struct StrictReader {
    keys: Vec<Key>,
    objects: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    /// Differs for most keys that differ, and is the same for two spellings of one key.
    fingerprint: u64,
    start: usize,
    end: usize,
    escaped: bool,
}

impl StrictReader {
    /// The payload as strict JSON, or `None`.
    pub fn read<'a>(&mut self, payload: &'a [u8]) -> Option<StrictJson<'a>> {
        let first = payload.iter().find(|byte| !is_space(**byte))?;
        if !matches!(first, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') {
            return None;
        }
        let text = std::str::from_utf8(payload).ok()?;
        self.keys.clear();
        self.objects.clear();
        let mut scan = Scan { bytes: payload, at: 0, nesting: 0, depth: 0, line_breaks: false };
        scan.document(self)?;
        let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
        let has_line_breaks = (scan.line_breaks && trimmed.contains(['\n', '\r']))
            || (!text.is_ascii() && trimmed.contains(['\u{85}', '\u{2028}', '\u{2029}']));
        Some(StrictJson { text: trimmed, has_line_breaks })
    }

    /// Ends the innermost object; `None` when it holds a key twice.
    fn end_object(&mut self, bytes: &[u8]) -> Option<()> {
        let from = self.objects.pop()?;
        let keys = self.keys.get(from..)?;
        let distinct =
            if keys.len() <= FEW_KEYS { few_distinct(keys, bytes) } else { many_distinct(keys, bytes) };
        self.keys.truncate(from);
        distinct.then_some(())
    }
}

fn few_distinct(keys: &[Key], bytes: &[u8]) -> bool {
    let mut rest = keys;
    while let Some((key, others)) = rest.split_first() {
        let same = |other: &&Key| other.fingerprint == key.fingerprint;
        if others.iter().filter(same).any(|other| key.text(bytes) == other.text(bytes)) {
            return false;
        }
        rest = others;
    }
    true
}

fn many_distinct(keys: &[Key], bytes: &[u8]) -> bool {
    let mut texts: Vec<Cow<'_, [u8]>> = keys.iter().map(|key| key.text(bytes)).collect();
    texts.sort_unstable();
    texts.windows(2).all(|pair| pair.first() != pair.last())
}

impl Key {
    fn new(bytes: &[u8], start: usize, end: usize, escaped: bool) -> Self {
        let mut key = Self { fingerprint: 0, start, end, escaped };
        key.fingerprint = fingerprint(&key.text(bytes));
        key
    }

    fn text<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let raw = bytes.get(self.start..self.end).unwrap_or_default();
        if self.escaped { Cow::Owned(unescaped(raw)) } else { Cow::Borrowed(raw) }
    }
}

#[inline]
fn fingerprint(text: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        return u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(29);
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    text.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The text of a key that holds escapes; they are known to be valid.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let Some((kind, tail)) = rest.split_first() else { break };
        rest = tail;
        match kind {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let unit = rest.get(..4).and_then(hex_unit).unwrap_or_default();
                rest = rest.get(4..).unwrap_or_default();
                let mut code = u32::from(unit);
                if (0xD800..0xDC00).contains(&unit) {
                    let low = rest.get(2..6).and_then(hex_unit).unwrap_or_default();
                    rest = rest.get(6..).unwrap_or_default();
                    code = 0x1_0000 + ((code & 0x3FF) << 10) + (u32::from(low) & 0x3FF);
                }
                let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => out.push(*other),
        }
    }
    out
}

fn hex_unit(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0_u16, |unit, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(value).ok()?)
    })
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// One pass over a payload. Containers are bits of `nesting`, so there is no recursion.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    nesting: u128,
    depth: usize,
    line_breaks: bool,
}

impl Scan<'_> {
    fn document(&mut self, reader: &mut StrictReader) -> Option<()> {
        loop {
            match self.token()? {
                b'{' => {
                    self.open(true)?;
                    reader.objects.push(reader.keys.len());
                    if self.peek_token()? == b'}' {
                        self.at += 1;
                        self.close(reader)?;
                    } else {
                        self.key(reader)?;
                        continue;
                    }
                }
                b'[' => {
                    self.open(false)?;
                    if self.peek_token()? != b']' {
                        continue;
                    }
                    self.at += 1;
                    self.close(reader)?;
                }
                b'"' => {
                    self.string()?;
                }
                b't' => self.literal(b"rue")?,
                b'f' => self.literal(b"alse")?,
                b'n' => self.literal(b"ull")?,
                first @ (b'-' | b'0'..=b'9') => self.number(first)?,
                _ => return None,
            }
            if self.after_value(reader)? {
                return Some(());
            }
        }
    }

    /// Goes on behind a value; true at the end of the document.
    fn after_value(&mut self, reader: &mut StrictReader) -> Option<bool> {
        loop {
            if self.depth == 0 {
                self.skip_space();
                return (self.at == self.bytes.len()).then_some(true);
            }
            let in_object = self.nesting & 1 == 1;
            match self.token()? {
                b',' => {
                    if in_object {
                        self.key(reader)?;
                    }
                    return Some(false);
                }
                b'}' if in_object => self.close(reader)?,
                b']' if !in_object => self.close(reader)?,
                _ => return None,
            }
        }
    }

    fn open(&mut self, object: bool) -> Option<()> {
        self.depth += 1;
        self.nesting = self.nesting << 1 | u128::from(object);
        (self.depth <= MAX_DEPTH).then_some(())
    }

    fn close(&mut self, reader: &mut StrictReader) -> Option<()> {
        if self.nesting & 1 == 1 {
            reader.end_object(self.bytes)?;
        }
        self.nesting >>= 1;
        self.depth -= 1;
        Some(())
    }

    fn key(&mut self, reader: &mut StrictReader) -> Option<()> {
        if self.token()? != b'"' {
            return None;
        }
        let start = self.at;
        let escaped = self.string()?;
        reader.keys.push(Key::new(self.bytes, start, self.at - 1, escaped));
        (self.token()? == b':').then_some(())
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        if self.peek().is_some_and(|byte| byte > b' ') {
            return;
        }
        while let Some(byte) = self.peek().filter(|byte| is_space(*byte)) {
            self.line_breaks |= byte == b'\n' || byte == b'\r';
            self.at += 1;
        }
    }

    #[inline]
    fn peek_token(&mut self) -> Option<u8> {
        self.skip_space();
        self.peek()
    }

    #[inline]
    fn token(&mut self) -> Option<u8> {
        let byte = self.peek_token()?;
        self.at += 1;
        Some(byte)
    }

    fn literal(&mut self, rest: &[u8]) -> Option<()> {
        let end = self.at + rest.len();
        let same = self.bytes.get(self.at..end)? == rest;
        self.at = end;
        same.then_some(())
    }

    fn number(&mut self, first: u8) -> Option<()> {
        let lead = if first == b'-' {
            let digit = self.peek()?;
            self.at += 1;
            digit
        } else {
            first
        };
        match lead {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Some(())
    }

    #[inline]
    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Option<()> {
        let before = self.at;
        self.digits();
        (self.at > before).then_some(())
    }

    /// Reads behind the opening quote up to and with the closing one; true when there was an escape.
    fn string(&mut self) -> Option<bool> {
        let mut escaped = false;
        loop {
            self.at += plain_bytes(self.bytes.get(self.at..)?);
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'"' => return Some(escaped),
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        let kind = self.peek()?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => match self.unit()? {
                0xD800..=0xDBFF => {
                    self.literal(b"\\u")?;
                    (0xDC00..=0xDFFF).contains(&self.unit()?).then_some(())
                }
                0xDC00..=0xDFFF => None,
                _ => Some(()),
            },
            _ => None,
        }
    }

    fn unit(&mut self) -> Option<u16> {
        let unit = hex_unit(self.bytes.get(self.at..self.at + 4)?)?;
        self.at += 4;
        Some(unit)
    }
}

/// How many bytes stand before the first quote, backslash or control character; eight are looked at in one go.
#[inline]
fn plain_bytes(bytes: &[u8]) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, _) = bytes.as_chunks::<8>();
    let mut plain = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (LOW * 0x22);
        let backslash = word ^ (LOW * 0x5C);
        let found = (quote.wrapping_sub(LOW) & !quote)
            | (backslash.wrapping_sub(LOW) & !backslash)
            | (word.wrapping_sub(LOW * 0x20) & !word);
        let found = found & HIGH;
        if found != 0 {
            // Lower bytes decide: a borrow can only spoil bytes above the first hit.
            return plain + usize::try_from(found.trailing_zeros() / 8).unwrap_or(0);
        }
        plain += 8;
    }
    let tail = bytes.get(plain..).unwrap_or_default();
    plain + tail.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F)).unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop_assert_eq, proptest};

    use super::*;

    fn one_line(payload: &[u8]) -> Option<String> {
        StrictReader::default().read(payload).map(|json| {
            let mut out = Vec::new();
            json.write_on_one_line(&mut out);
            String::from_utf8(out).unwrap()
        })
    }

    #[test]
    fn numbers_keep_their_spelling() {
        for text in ["18446744073709551615", "1e400000", "-0", "1.10", "1E+2", &"9".repeat(50)] {
            let payload = format!("{{\"n\":{text}}}");
            assert_eq!(one_line(payload.as_bytes()), Some(payload));
        }
        for text in ["01", "+1", "1.", ".5", "1e", "NaN", "Infinity", "-", "0x1", "1_0"] {
            assert_eq!(one_line(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_readers_would_refuse_is_no_strict_json() {
        for text in [
            "",
            " ",
            "{",
            "{}}",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "'a'",
            "\"a",
            "\"\\x\"",
            "\"\t\"",
            "nul",
            "truee",
            "1 2",
            "\u{feff}1",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"\\u0061\":2}",
            "\"\\ud83d\"",
            "\"\\ude00\"",
            "\"\\ud83dx\"",
            "[}",
            "{\"a\" 1}",
            "{\"a\":{\"b\":1,\"b\":1}}",
        ] {
            assert_eq!(one_line(text.as_bytes()), None, "{text}");
        }
        assert_eq!(one_line(b"\"\xff\""), None);
        let many: Vec<_> = (0..50).map(|key| format!("\"k{key}\":0")).collect();
        let object = format!("{{{}}}", many.join(","));
        assert_eq!(one_line(object.as_bytes()), Some(object.clone()));
        assert_eq!(one_line(object.replace("k49", "k0").as_bytes()), None);
        assert!(one_line(b"{\"a\":{\"a\":1},\"b\":[{\"a\":1},{\"a\":1}]}").is_some());
        assert!(one_line(b"\"\\ud83d\\ude00\"").is_some());
    }

    #[test]
    fn depth_is_bounded() {
        for (depth, valid) in [
            (1, true),
            (MAX_DEPTH, true),
            (MAX_DEPTH + 1, false),
            (128, false),
            (200, false),
            (100_000, false),
        ] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(one_line(text.as_bytes()).is_some(), valid, "{depth}");
        }
    }

    #[test]
    fn line_breaks_go_and_nothing_else_changes() {
        assert_eq!(one_line(b"\n{\r\n\"a\":\n1 }\n").unwrap(), "{  \"a\": 1 }");
        assert_eq!(
            one_line("\"\u{2028}\u{2029}\u{85}\u{e9}\"".as_bytes()).unwrap(),
            "\"\\u2028\\u2029\\u0085\u{e9}\""
        );
    }

    #[test]
    fn plain_bytes_stops_at_every_special_byte() {
        for special in (0..=0x1F).chain([b'"', b'\\']) {
            for position in 0..20 {
                let mut bytes = vec![0xC3_u8; 24];
                bytes[position] = special;
                assert_eq!(plain_bytes(&bytes), position, "{special} at {position}");
            }
        }
        assert_eq!(plain_bytes(&[0x7F; 19]), 19);
    }

    /// Reads any JSON and says whether a key stands twice in one object: what serde_json alone does not see.
    struct Distinct(bool);

    impl<'de> serde::Deserialize<'de> for Distinct {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Distinct;
                fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    formatter.write_str("JSON")
                }
                fn visit_bool<E>(self, _: bool) -> Result<Distinct, E> {
                    Ok(Distinct(true))
                }
                fn visit_i64<E>(self, _: i64) -> Result<Distinct, E> {
                    Ok(Distinct(true))
                }
                fn visit_u64<E>(self, _: u64) -> Result<Distinct, E> {
                    Ok(Distinct(true))
                }
                fn visit_f64<E>(self, _: f64) -> Result<Distinct, E> {
                    Ok(Distinct(true))
                }
                fn visit_str<E>(self, _: &str) -> Result<Distinct, E> {
                    Ok(Distinct(true))
                }
                fn visit_unit<E>(self) -> Result<Distinct, E> {
                    Ok(Distinct(true))
                }
                fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Distinct, A::Error> {
                    let mut distinct = true;
                    while let Some(inner) = seq.next_element::<Distinct>()? {
                        distinct &= inner.0;
                    }
                    Ok(Distinct(distinct))
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Distinct, A::Error> {
                    let mut keys = std::collections::HashSet::new();
                    let mut distinct = true;
                    while let Some((key, inner)) = map.next_entry::<String, Distinct>()? {
                        distinct &= keys.insert(key) & inner.0;
                    }
                    Ok(Distinct(distinct))
                }
            }
            deserializer.deserialize_any(Visitor)
        }
    }

    fn nearly_json() -> impl Strategy<Value = String> {
        proptest::collection::vec(
            proptest::sample::select(vec![
                "{",
                "}",
                "[",
                "]",
                ",",
                ":",
                "\"a\"",
                "\"b\"",
                "\"\\u0061\"",
                "1",
                "-0.5e3",
                "true",
                "null",
                " ",
                "\n",
                "{\"a\":1}",
                "[1,2]",
                "\"\\ud83d\"",
                "\"a\":",
                "\"b\":",
                "{\"a\":1,\"a\":2}",
            ]),
            0..12,
        )
        .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(text in nearly_json()) {
            let expected = serde_json::from_str::<Distinct>(&text).is_ok_and(|distinct| distinct.0);
            prop_assert_eq!(one_line(text.as_bytes()).is_some(), expected, "{}", text);
        }
    }
}
