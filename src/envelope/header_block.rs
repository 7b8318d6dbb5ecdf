//! Whether the client library can read a message, judged without it.
//!
//! The server stores and forwards the bytes of headers and subjects as a publisher sent them. Some of them end the client's
//! connection at each delivery, and one kind ends its task (field cases 1 and 3). This reads a header block exactly as
//! async-nats 0.51 does and says what that would trip over, so that such a message can be told from its neighbours. Reading
//! is total: any bytes give an answer. What is illegal is named by its place, never quoted.

use std::fmt;

use super::Headers;

/// What the client cannot read in a header block. Lines are counted from 1, the version line included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderBlockError {
    /// The block is not UTF-8 from this byte on.
    NotUtf8 {
        /// Bytes before the first illegal one.
        offset: usize,
    },
    /// The first line does not begin with `NATS/1.0`.
    NoVersionLine,
    /// What follows the version is not a status of three digits.
    IllegalStatus,
    /// A line has no colon.
    NoColon {
        /// The line.
        line: usize,
    },
    /// A name holds something other than printable ASCII: a space, a control byte, a letter of another script.
    IllegalName {
        /// The line.
        line: usize,
    },
    /// A value holds a carriage return that ends no line. This one does not end the connection but the client's task.
    CarriageReturn {
        /// The line that the value begins on.
        line: usize,
    },
}

impl fmt::Display for HeaderBlockError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 { offset } => write!(formatter, "the header block is not UTF-8 at byte {offset}"),
            Self::NoVersionLine => formatter.write_str("the header block does not begin with NATS/1.0"),
            Self::IllegalStatus => formatter.write_str("the status in the header block is malformed"),
            Self::NoColon { line } => write!(formatter, "line {line} of the header block has no colon"),
            Self::IllegalName { line } => {
                write!(formatter, "the header name on line {line} has a character that is not allowed")
            }
            Self::CarriageReturn { line } => {
                write!(formatter, "the header value on line {line} has a lone carriage return")
            }
        }
    }
}

impl std::error::Error for HeaderBlockError {}

/// What the client cannot read in a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectError {
    /// It is not UTF-8 from this byte on.
    NotUtf8 {
        /// Bytes before the first illegal one.
        offset: usize,
    },
    /// It holds white space (of any script, or a vertical tab), and the message has headers: the client takes such a subject
    /// for two words.
    WhiteSpace,
}

impl fmt::Display for SubjectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 { offset } => write!(formatter, "the subject is not UTF-8 at byte {offset}"),
            Self::WhiteSpace => formatter.write_str("the subject of a message with headers has white space"),
        }
    }
}

impl std::error::Error for SubjectError {}

impl Headers {
    /// Reads a header block as the stream stores it: `NATS/1.0`, lines of `Name: value`, an empty line. Lines keep their
    /// order; values are trimmed, and a line that begins with white space goes on with the value before it. A status that
    /// a publisher wrote behind the version is passed over.
    ///
    /// # Errors
    /// What the client would trip over.
    pub fn parse_block(block: &[u8]) -> Result<Self, HeaderBlockError> {
        let text = std::str::from_utf8(block)
            .map_err(|error| HeaderBlockError::NotUtf8 { offset: error.valid_up_to() })?;
        let mut lines = text.lines().zip(1usize..).peekable();
        let version = lines.next().and_then(|(line, _)| line.strip_prefix("NATS/1.0"));
        check_status(version.ok_or(HeaderBlockError::NoVersionLine)?)?;
        let mut headers = Self::new();
        while let Some((text, line)) = lines.next() {
            if text.is_empty() {
                continue;
            }
            let (name, value) = text.split_once(':').ok_or(HeaderBlockError::NoColon { line })?;
            if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(HeaderBlockError::IllegalName { line });
            }
            let mut value = value.trim_start().to_owned();
            while let Some((folded, _)) = lines.next_if(|(line, _)| line.starts_with(char::is_whitespace)) {
                value.push_str(folded);
            }
            value.truncate(value.trim_end().len());
            if value.contains('\r') {
                return Err(HeaderBlockError::CarriageReturn { line });
            }
            headers.append(name, value);
        }
        Ok(headers)
    }
}

/// Nothing, or three digits of which the first is not 0, and perhaps a description.
fn check_status(after_version: &str) -> Result<(), HeaderBlockError> {
    let rest = after_version.trim();
    let status = rest.split_once(' ').map_or(rest, |(status, _)| status.trim());
    let is_status =
        status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit()) && !status.starts_with('0');
    if status.is_empty() || is_status { Ok(()) } else { Err(HeaderBlockError::IllegalStatus) }
}

/// Reads a subject; with headers the client splits its line at white space of every kind, without them at spaces only.
///
/// # Errors
/// What the client would trip over.
pub fn parse_subject(subject: &[u8], has_headers: bool) -> Result<&str, SubjectError> {
    let text = std::str::from_utf8(subject)
        .map_err(|error| SubjectError::NotUtf8 { offset: error.valid_up_to() })?;
    if has_headers && text.split_whitespace().count() != 1 {
        return Err(SubjectError::WhiteSpace);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn read(block: &[u8]) -> Result<Vec<(String, Vec<u8>)>, HeaderBlockError> {
        Headers::parse_block(block)
            .map(|headers| headers.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect())
    }

    #[test]
    fn what_the_client_takes_is_read_as_the_client_reads_it() {
        type Lines<'a> = &'a [(&'a str, &'a str)];
        let table: [(&[u8], Lines<'_>); 16] = [
            (b"NATS/1.0\r\n\r\n", &[]),
            (b"NATS/1.0", &[]),
            (b"NATS/1.0\r\nA: 1\r\n\r\n", &[("A", "1")]),
            (b"NATS/1.0\r\nA:1\r\n\r\n", &[("A", "1")]),
            (b"NATS/1.0\r\nA:\r\n\r\n", &[("A", "")]),
            (b"NATS/1.0\r\n: 1\r\n\r\n", &[("", "1")]),
            (
                b"NATS/1.0\r\nB: 1\r\nA: 2\r\nB: 3\r\nb: 4\r\n\r\n",
                &[("B", "1"), ("A", "2"), ("B", "3"), ("b", "4")],
            ),
            (b"NATS/1.0\r\nA: a:b: c\r\n\r\n", &[("A", "a:b: c")]),
            (b"NATS/1.0\r\nA: one\r\n two\r\n\tthree\r\n\r\n", &[("A", "one two\tthree")]),
            (b"NATS/1.0 409 Consumer Deleted\r\nA: 1\r\n\r\n", &[("A", "1")]),
            (b"NATS/1.0 100\r\n\r\n", &[]),
            (b"NATS/1.0\nA: 1\n\n", &[("A", "1")]),
            (b"NATS/1.0\r\nA: 1\r\r\nB: \r2\r\n\r\n", &[("A", "1"), ("B", "2")]),
            (b"NATS/1.0\r\nA: \x01\x7f\r\n\r\n", &[("A", "\x01\x7f")]),
            ("NATS/1.0\r\nA: ü\r\n\r\n".as_bytes(), &[("A", "ü")]),
            (b"NATS/1.0\r\n\r\nA: 1\r\n", &[("A", "1")]),
        ];
        for (block, lines) in table {
            let lines: Vec<_> =
                lines.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
            assert_eq!(read(block), Ok(lines), "{:?}", String::from_utf8_lossy(block));
        }
    }

    #[test]
    fn what_ends_the_client_is_named_by_its_place() {
        let table: [(&[u8], HeaderBlockError); 17] = [
            (b"", HeaderBlockError::NoVersionLine),
            (b"NATS/2.0\r\n\r\n", HeaderBlockError::NoVersionLine),
            (b"nats/1.0\r\n\r\n", HeaderBlockError::NoVersionLine),
            (b"NATS/1.0x\r\n\r\n", HeaderBlockError::IllegalStatus),
            (b"NATS/1.0 1000\r\n\r\n", HeaderBlockError::IllegalStatus),
            (b"NATS/1.0 099 x\r\n\r\n", HeaderBlockError::IllegalStatus),
            (b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n", HeaderBlockError::NotUtf8 { offset: 13 }),
            (b"NATS/1.0\r\nX\xff: 1\r\n\r\n", HeaderBlockError::NotUtf8 { offset: 11 }),
            (b"NATS/1.0\r\nA: 1\r\nno colon\r\n\r\n", HeaderBlockError::NoColon { line: 3 }),
            (b"NATS/1.0\r\n folded\r\n\r\n", HeaderBlockError::NoColon { line: 2 }),
            (b"NATS/1.0\r\nA: 1\nb\r\n\r\n", HeaderBlockError::NoColon { line: 3 }),
            (b"NATS/1.0\r\nA B: 1\r\n\r\n", HeaderBlockError::IllegalName { line: 2 }),
            (b"NATS/1.0\r\nA\x01: 1\r\n\r\n", HeaderBlockError::IllegalName { line: 2 }),
            ("NATS/1.0\r\nÜ: 1\r\n\r\n".as_bytes(), HeaderBlockError::IllegalName { line: 2 }),
            (b"NATS/1.0\r\nX-A: a\rb\r\n\r\n", HeaderBlockError::CarriageReturn { line: 2 }),
            (b"NATS/1.0\r\nX-A: a\r\n \rb\r\n\r\n", HeaderBlockError::CarriageReturn { line: 2 }),
            (b"NATS/1.0\r\n\r", HeaderBlockError::NoColon { line: 2 }),
        ];
        for (block, error) in table {
            assert_eq!(read(block), Err(error), "{:?}", String::from_utf8_lossy(block));
        }
    }

    #[test]
    fn subjects() {
        assert_eq!(parse_subject(b"src.a", true), Ok("src.a"));
        assert_eq!(parse_subject(b"src.\x01", true), Ok("src.\x01"));
        assert_eq!(parse_subject("src.ü".as_bytes(), true), Ok("src.ü"));
        assert_eq!(parse_subject(b"src.\xff\xfe", true), Err(SubjectError::NotUtf8 { offset: 4 }));
        assert_eq!(parse_subject(b"src.\xff\xfe", false), Err(SubjectError::NotUtf8 { offset: 4 }));
        assert_eq!(parse_subject(b"src.a\x0bb", true), Err(SubjectError::WhiteSpace));
        assert_eq!(parse_subject(b"src.a\x0bb", false), Ok("src.a\x0bb"));
        assert_eq!(parse_subject("src.a\u{a0}b".as_bytes(), true), Err(SubjectError::WhiteSpace));
    }

    proptest! {
        #[test]
        fn reading_is_total(block in any::<Vec<u8>>()) {
            let _headers = Headers::parse_block(&block);
            let _headers = Headers::parse_block(&[b"NATS/1.0\r\nA: ", &block[..], b"\r\n\r\n"].concat());
            let _subject = parse_subject(&block, true);
            let _subject = parse_subject(&block, false);
        }

        #[test]
        fn a_block_of_plain_lines_is_read_back(lines in proptest::collection::vec(("[!-9;-~]{0,8}", "[!-~]{1,8}( [!-~]{1,8})?"), 0..8)) {
            let mut block = b"NATS/1.0\r\n".to_vec();
            for (name, value) in &lines {
                block.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
            block.extend_from_slice(b"\r\n");
            let lines: Vec<_> = lines.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
            prop_assert_eq!(read(&block), Ok(lines));
        }
    }
}
