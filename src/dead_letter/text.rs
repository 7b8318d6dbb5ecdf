//! Texts that are safe to carry: bounded, without control characters.

use sha2::{Digest, Sha256};

/// Bytes of the reason text (formats §6, Size).
pub(super) const MAX_ERROR: usize = 512;
/// Bytes of a subject in a header; the server's control line is not longer.
pub(super) const MAX_SUBJECT: usize = 4096;
/// Bytes of a name or a metadata value in a header.
pub(super) const MAX_NAME: usize = 512;
/// Bytes of the names of redacted headers; the configuration is bounded to them.
pub(super) const MAX_REDACTED: usize = 4096;
/// Bytes of all labels in a header.
pub(super) const MAX_LABELS: usize = 4096;

/// Bytes of a JSON object in a header.
pub(super) const MAX_OBJECT: usize = 8192;

/// Each run of control characters becomes one space (none at the ends); cut to `limit` bytes between characters.
pub(super) fn clean(text: &str, limit: usize) -> String {
    // Nearly every text is clean already, and a letter has a dozen of them.
    if text.len() <= limit && !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let mut cleaned = String::with_capacity(text.len().min(limit));
    let mut gap = false;
    for character in text.chars() {
        if character.is_control() {
            gap = !cleaned.is_empty();
            continue;
        }
        if cleaned.len() + usize::from(gap) + character.len_utf8() > limit {
            break;
        }
        if std::mem::take(&mut gap) {
            cleaned.push(' ');
        }
        cleaned.push(character);
    }
    cleaned
}

/// A clean text without white space at its ends, which header parsers drop.
pub(super) fn header_value(text: &str, limit: usize) -> String {
    clean(text.trim(), limit).trim().to_owned()
}

/// Lower-case hex of the SHA-256. Digit by digit: the formatter takes as long as the digest of a small payload.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        hex.push(hex_digit(byte >> 4));
        hex.push(hex_digit(byte & 0x0f));
    }
    hex
}

fn hex_digit(nibble: u8) -> char {
    char::from(if nibble < 10 { b'0' + nibble } else { b'a' + (nibble - 10) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_go_and_the_cut_is_between_characters() {
        assert_eq!(clean("\r\na\r\n\tb\u{85}", 512), "a b");
        assert_eq!(clean("a b", 3), "a b");
        assert_eq!(clean("a b", 2), "a ");
        assert_eq!(clean("a\u{7f}", 512), "a");
        assert_eq!(clean("aü", 2), "a");
        assert_eq!(clean("aü", 3), "aü");
        assert_eq!(clean("a\nb", 2), "a");
        assert_eq!(clean(&"é".repeat(4096), MAX_ERROR).len(), 512);
        assert_eq!(header_value(" \u{1} x \u{1}", 512), "x");
    }

    #[test]
    fn a_digest_is_lower_hex() {
        assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
