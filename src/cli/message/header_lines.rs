//! Headers as people write them: lines `Name: value`, a table, or a list of pairs.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::MessageError;
use crate::envelope::Headers;

/// Splits `Name: value`. Blanks around the value are no part of it, as NATS itself has it.
pub(super) fn split_line(line: &str) -> Result<(&str, &str), MessageError> {
    let (name, value) = line.split_once(':').ok_or(MessageError::Header("has no colon"))?;
    check_name(name)?;
    Ok((name, value))
}

/// Appends one line that a client could send.
pub(super) fn append_line(headers: &mut Headers, name: &str, value: &str) -> Result<(), MessageError> {
    check_name(name)?;
    if value.contains(['\r', '\n']) {
        return Err(MessageError::Header("has a line break in its value"));
    }
    headers.append(name, Bytes::copy_from_slice(value.trim().as_bytes()));
    Ok(())
}

fn check_name(name: &str) -> Result<(), MessageError> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b':';
    if !name.is_empty() && name.bytes().all(plain) {
        Ok(())
    } else {
        Err(MessageError::Header("has a name that is not printable ASCII without blanks"))
    }
}

/// Headers in a document. A table (`{"Name": "value"}`, several values as a list, bytes as `{"base64": "…"}`), a list of lines
/// (`["Name: value"]`) or a list of pairs (`[["Name", "value"]]`); lists keep the order of lines with the same name.
#[derive(Clone, Default)]
pub(in crate::cli) struct HeaderLines(pub(in crate::cli) Headers);

/// The value or the values of one name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Bytes { base64: String },
    Several(Vec<Self>),
}

/// One member of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Member {
    Line(String),
    Pair(String, Values),
}

impl<'de> Deserialize<'de> for HeaderLines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Headers;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("headers: a table of names, or a list of lines `Name: value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::new();
        while let Some((name, values)) = map.next_entry::<String, Values>()? {
            append(&mut headers, &name, &values).map_err(A::Error::custom)?;
        }
        Ok(headers)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::new();
        while let Some(member) = list.next_element::<Member>()? {
            let appended = match &member {
                Member::Line(line) => {
                    split_line(line).and_then(|(name, value)| append_line(&mut headers, name, value))
                }
                Member::Pair(name, values) => append(&mut headers, name, values),
            };
            appended.map_err(A::Error::custom)?;
        }
        Ok(headers)
    }
}

fn append(headers: &mut Headers, name: &str, values: &Values) -> Result<(), MessageError> {
    match values {
        Values::One(value) => append_line(headers, name, value),
        Values::Several(values) => values.iter().try_for_each(|value| append(headers, name, value)),
        Values::Bytes { base64 } => {
            check_name(name)?;
            let bytes =
                STANDARD.decode(base64).map_err(|_| MessageError::Header("has a value that is no base64"))?;
            headers.append(name, bytes);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
        let lines: HeaderLines = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Ok(lines.0.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect())
    }

    #[test]
    fn a_table_a_list_of_lines_and_a_list_of_pairs() {
        let line = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        assert_eq!(
            read(r#"{"A": " 1 ", "B": ["2", "3"]}"#).unwrap(),
            [line("A", "1"), line("B", "2"), line("B", "3")]
        );
        assert_eq!(read(r#"["A: x: y", "a:1"]"#).unwrap(), [line("A", "x: y"), line("a", "1")]);
        assert_eq!(read(r#"[["A", "1"], ["B", ["2", "3"]]]"#).unwrap().len(), 3);
        assert_eq!(read(r#"{"A": {"base64": "/w=="}}"#).unwrap(), [("A".to_owned(), vec![0xff])]);
    }

    #[test]
    fn what_no_client_could_send_is_refused_and_not_quoted() {
        for json in [
            r#"["CANARY"]"#,
            r#"["A B: CANARY"]"#,
            r#"{"A": "CANARY\r\nB: 1"}"#,
            r#"{"": "CANARY"}"#,
            r#"{"A": {"base64": "CANARY!"}}"#,
        ] {
            let error = read(json).unwrap_err();
            assert!(!error.contains("CANARY"), "{error}");
        }
    }
}
