//! Header values that must not come into a dead letter, whose readers are not those of the source stream.
//!
//! The name stays and the value becomes a mark; the letter names what was replaced, so that a replay knows that it would not
//! publish the original. What the gate read of a header (priority, labels, message id) is a fact of its own and stays.

use std::borrow::Cow;

use bytes::Bytes;

use super::settings::Redaction;
use crate::envelope::Headers;

/// Stands in place of a value.
pub const REDACTED: &str = "[redacted by jetsink]";

impl Redaction {
    /// Whether the value of this header is replaced.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// What a letter carries of a header.
    pub(super) fn value<'a>(&self, name: &str, value: &'a Bytes) -> Cow<'a, Bytes> {
        if self.covers(name) {
            Cow::Owned(Bytes::from_static(REDACTED.as_bytes()))
        } else {
            Cow::Borrowed(value)
        }
    }

    /// Which of the names occur, as they are configured: their number does not depend on the message.
    pub(super) fn found_in(&self, headers: &Headers) -> Vec<&str> {
        let occurs = |own: &&String| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(own));
        self.names.iter().filter(occurs).map(String::as_str).collect()
    }

    /// Redacts a header block that nobody could take apart, and says which names were found.
    ///
    /// A name stands at the beginning of a line, and a lone CR or LF may begin one: what is illegal in the block must not
    /// hide a secret. Its value ends with the line, and with the lines after it that begin with white space. Everything
    /// else stays, byte by byte.
    #[must_use]
    pub fn of_block(&self, block: &[u8]) -> (Vec<u8>, Vec<&str>) {
        let mut kept = Vec::with_capacity(block.len());
        let mut found: Vec<&str> = Vec::new();
        let mut in_value = false;
        for line in block.split_inclusive(|byte| *byte == b'\n') {
            if in_value && line.first().is_some_and(|first| matches!(first, b' ' | b'\t')) {
                continue;
            }
            in_value = false;
            for piece in line.split_inclusive(|byte| *byte == b'\r') {
                let name = self.name_of(piece);
                kept.extend_from_slice(name.map_or(piece, |(head, _)| head));
                let Some((_, name)) = name else { continue };
                if !found.contains(&name) {
                    found.push(name);
                }
                in_value = true;
                kept.extend_from_slice(REDACTED.as_bytes());
                kept.extend_from_slice(line_end(line));
                break;
            }
        }
        (kept, found)
    }

    /// The redacted name that a line begins with, and the line up to its value.
    fn name_of<'line>(&self, line: &'line [u8]) -> Option<(&'line [u8], &str)> {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (head, value) = line.split_at_checked(colon.saturating_add(1))?;
        let name = head.strip_suffix(b":")?.trim_ascii();
        let own = self.names.iter().find(|own| own.as_bytes().eq_ignore_ascii_case(name))?;
        let space = value.len().saturating_sub(value.trim_ascii_start().len()).min(1);
        let head = line.get(..head.len().saturating_add(space)).unwrap_or(head);
        Some((head.trim_ascii_end_of_line(), own))
    }
}

/// The characters that end a line.
fn line_end(line: &[u8]) -> &[u8] {
    let text = line.trim_ascii_end_of_line();
    line.get(text.len()..).unwrap_or_default()
}

trait EndOfLine {
    /// Without the CR and LF at the end.
    fn trim_ascii_end_of_line(&self) -> &Self;
}

impl EndOfLine for [u8] {
    fn trim_ascii_end_of_line(&self) -> &Self {
        let mut rest = self;
        while let [before @ .., b'\r' | b'\n'] = rest {
            rest = before;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn of_block(block: &[u8]) -> (String, Vec<String>) {
        let redaction = Redaction::default();
        let (kept, found) = redaction.of_block(block);
        (String::from_utf8_lossy(&kept).into_owned(), found.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn a_block_that_cannot_be_read_keeps_everything_but_the_secrets() {
        let mark = REDACTED;
        let table: [(&[u8], String, &[&str]); 9] = [
            (b"NATS/1.0\r\nA: 1\r\n\r\n", "NATS/1.0\r\nA: 1\r\n\r\n".into(), &[]),
            (
                b"NATS/1.0\r\ncOOkie: s=1\r\nA: \x01\r\n\r\n",
                format!("NATS/1.0\r\ncOOkie: {mark}\r\nA: \x01\r\n\r\n"),
                &["Cookie"],
            ),
            (b"X-Api-Key:abc\r\n", format!("X-Api-Key:{mark}\r\n"), &["X-Api-Key"]),
            (b"Cookie:", format!("Cookie:{mark}"), &["Cookie"]),
            (b"Cookie: a\rb\r\nA: 1\r\n", format!("Cookie: {mark}\r\nA: 1\r\n"), &["Cookie"]),
            (b"A: a\rCookie: b\nB: 1\n", format!("A: a\rCookie: {mark}\nB: 1\n"), &["Cookie"]),
            (
                b"Authorization: Basic\r\n abc\r\n\tdef\r\nB: 1\r\n def\r\n",
                format!("Authorization: {mark}\r\nB: 1\r\n def\r\n"),
                &["Authorization"],
            ),
            (b"Cookie : s\r\nnone\r\n", format!("Cookie : {mark}\r\nnone\r\n"), &["Cookie"]),
            (
                b"Cookie: 1\r\nSet-Cookie: 2\r\nCookie: 3\r\n",
                format!("Cookie: {mark}\r\nSet-Cookie: {mark}\r\nCookie: {mark}\r\n"),
                &["Cookie", "Set-Cookie"],
            ),
        ];
        for (block, kept, found) in table {
            let found = found.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(of_block(block), (kept, found), "{:?}", String::from_utf8_lossy(block));
        }
    }

    proptest! {
        #[test]
        fn whatever_the_block_no_secret_is_left(
            before in any::<Vec<u8>>(), after in any::<Vec<u8>>(), end in "\r\n|\r|\n",
        ) {
            let line = format!("{end}Cookie: se\rcret{end}");
            let block = [&before[..], line.as_bytes(), &after[..]].concat();
            let redaction = Redaction::default();
            let (kept, found) = redaction.of_block(&block);
            prop_assert!(!String::from_utf8_lossy(&kept).contains("se\rcret"));
            prop_assert!(found.contains(&"Cookie"));
        }

        #[test]
        fn without_names_nothing_changes(block in any::<Vec<u8>>()) {
            let redaction = Redaction::new([""; 0]);
            let (kept, found) = redaction.of_block(&block);
            prop_assert_eq!(kept, block);
            prop_assert!(found.is_empty());
        }
    }
}
