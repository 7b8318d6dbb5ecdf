//! Reads our own letters back, for tools that show or replay them.

use std::borrow::Cow;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Part, SCHEMA};
use crate::clock::Timestamp;
use crate::envelope::Headers;

/// What a replay needs, and what tells the original.
#[derive(Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The subject of the original.
    pub subject: String,
    /// Its headers; `None` when they did not travel along. From JSON they come sorted by name. Those of a message that no
    /// client could be handed are [unread](Headers::raw_block): no client can publish them either.
    pub headers: Option<Headers>,
    /// Names of headers that have a mark in place of their values: with them it is not the original any more.
    pub redacted: Vec<String>,
    /// Its body; `None` when it did not travel along.
    pub body: Option<Bytes>,
    /// The stream that stored the original.
    pub stream: String,
    /// Its sequence there.
    pub stream_sequence: u64,
    /// When that stream stored it, if the letter tells.
    pub stored_at: Option<Timestamp>,
    /// The reason code.
    pub reason: String,
}

/// Why something is no letter of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A field or header is missing or of another kind than the schema says.
    #[error("{0} is missing or malformed")]
    Malformed(&'static str),
    /// The two parts are not the two halves of one letter.
    #[error("these are not the two parts of one letter")]
    NotOneLetter,
}

/// Reads one letter: its only part, or its two parts in any order.
///
/// # Errors
/// See [`ParseError`].
pub fn parse(parts: &[Part]) -> Result<Recovered, ParseError> {
    match parts {
        [part] if header(part, "Jetsink-Part").is_some() => Err(ParseError::NotOneLetter),
        [part] if header(part, "Jetsink-Schema").is_some() => parse_original(part),
        [part] => parse_json(&part.body),
        [one, other] if header(one, "Jetsink-Part") == Some("1/2") => parse_halves(one, other),
        [other, one] => parse_halves(one, other),
        _ => Err(ParseError::NotOneLetter),
    }
}

/// The JSON objects of the original's metadata, each in its canonical spelling; `None` when there was none or it did not
/// travel along. Of two parts the first one has them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Objects {
    /// Mission metadata.
    pub mission_metadata: Option<String>,
    /// Security labels.
    pub security_labels: Option<String>,
}

/// Reads the JSON objects of the metadata from the only part of a letter, or from the first one.
///
/// # Errors
/// The part is no letter of ours.
pub fn objects(part: &Part) -> Result<Objects, ParseError> {
    if header(part, "Jetsink-Schema").is_some() || header(part, "Jetsink-Part").is_some() {
        let text = |name| header(part, name).map(str::to_owned);
        return Ok(Objects {
            mission_metadata: text("Jetsink-Mission-Metadata"),
            security_labels: text("Jetsink-Security-Labels"),
        });
    }
    let record: ObjectFields<'_> =
        serde_json::from_slice(&part.body).map_err(|_| ParseError::Malformed("the record"))?;
    if record.schema != SCHEMA {
        return Err(ParseError::Malformed("schema"));
    }
    let text = |object: Option<&RawValue>| object.map(|object| object.get().to_owned());
    Ok(Objects {
        mission_metadata: text(record.mission_metadata),
        security_labels: text(record.security_labels),
    })
}

/// Numbers of the objects keep their spelling.
#[derive(Deserialize)]
struct ObjectFields<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    #[serde(borrow)]
    mission_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    security_labels: Option<&'a RawValue>,
}

fn parse_json(body: &[u8]) -> Result<Recovered, ParseError> {
    let record: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| ParseError::Malformed("the record"))?;
    let text = |name: &'static str| {
        record.get(name).and_then(Value::as_str).map(str::to_owned).ok_or(ParseError::Malformed(name))
    };
    if text("schema")? != SCHEMA {
        return Err(ParseError::Malformed("schema"));
    }
    let body = match record.get("payload_base64") {
        Some(_) => Some(decoded(&text("payload_base64")?, "payload_base64")?),
        None => None,
    };
    let sequence = record.get("stream_sequence").and_then(Value::as_u64);
    Ok(Recovered {
        subject: text("subject")?,
        headers: match record.get("headers_base64") {
            Some(_) => Some(Headers::unread(decoded(&text("headers_base64")?, "headers_base64")?)),
            None => record.get("headers").map(json_headers).transpose()?,
        },
        redacted: record.get("headers_redacted").map(json_names).transpose()?.unwrap_or_default(),
        body,
        stream: text("stream")?,
        stream_sequence: sequence.ok_or(ParseError::Malformed("stream_sequence"))?,
        stored_at: record.get("timestamp").and_then(Value::as_str).and_then(Timestamp::from_rfc3339),
        reason: text("reason")?,
    })
}

fn json_names(value: &Value) -> Result<Vec<String>, ParseError> {
    let names = value.as_array().and_then(|names| {
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    names.ok_or(ParseError::Malformed("headers_redacted"))
}

pub(super) fn json_headers(value: &Value) -> Result<Headers, ParseError> {
    let mut headers = Headers::new();
    for (name, values) in value.as_object().ok_or(ParseError::Malformed("headers"))? {
        let values = values.as_array().map_or_else(|| std::slice::from_ref(values), Vec::as_slice);
        for value in values {
            let bytes = match (value.as_str(), value.get("base64").and_then(Value::as_str)) {
                (Some(text), _) => Bytes::copy_from_slice(text.as_bytes()),
                (None, Some(text)) => decoded(text, "headers")?,
                (None, None) => return Err(ParseError::Malformed("headers")),
            };
            headers.append(name.as_str(), bytes);
        }
    }
    Ok(headers)
}

fn parse_original(part: &Part) -> Result<Recovered, ParseError> {
    let block = header(part, "Jetsink-Original-Headers")
        .map(|text| decoded(text, "Jetsink-Original-Headers"))
        .transpose()?;
    recovered(part, &block.unwrap_or_default(), part.body.clone())
}

fn parse_halves(first: &Part, second: &Part) -> Result<Recovered, ParseError> {
    let alike = ["Jetsink-Stream", "Jetsink-Stream-Sequence", "Jetsink-Consumer", "Jetsink-Data-Bytes"]
        .into_iter()
        .all(|name| header(first, name).is_some() && header(first, name) == header(second, name));
    let halves =
        header(first, "Jetsink-Part") == Some("1/2") && header(second, "Jetsink-Part") == Some("2/2");
    let joined = first.body.len().saturating_add(second.body.len());
    if !alike
        || !halves
        || number::<usize>(first, "Jetsink-Data-Bytes")? != joined
        || number::<usize>(second, "Jetsink-Part-Offset")? != first.body.len()
    {
        return Err(ParseError::NotOneLetter);
    }
    let block_bytes = number::<usize>(first, "Jetsink-Original-Headers-Bytes")?;
    if block_bytes > joined {
        return Err(ParseError::Malformed("Jetsink-Original-Headers-Bytes"));
    }
    let mut data = BytesMut::with_capacity(joined);
    data.extend_from_slice(&first.body);
    data.extend_from_slice(&second.body);
    let block = data.split_to(block_bytes);
    recovered(first, &block, data.freeze())
}

fn recovered(part: &Part, block: &[u8], body: Bytes) -> Result<Recovered, ParseError> {
    let text = |name: &'static str| header(part, name).map(str::to_owned).ok_or(ParseError::Malformed(name));
    let subject = match header(part, "Jetsink-Subject-Base64") {
        Some(exact) => String::from_utf8(decoded(exact, "Jetsink-Subject-Base64")?.to_vec())
            .map_err(|_| ParseError::Malformed("Jetsink-Subject-Base64"))?,
        None => text("Nats-Sinks-Original-Subject")?,
    };
    let without_headers = header(part, "Jetsink-Headers-Unavailable-Reason").is_some();
    let unread = header(part, "Jetsink-Headers-Unread").is_some();
    // A body that was not wanted leaves an empty body and the size it would have.
    let without_body = header(part, "Jetsink-Payload-Unavailable-Reason").is_some()
        || number::<usize>(part, "Jetsink-Payload-Delivered-Bytes")? != body.len();
    Ok(Recovered {
        subject,
        headers: match (without_headers, unread) {
            (true, _) => None,
            (false, true) => Some(Headers::unread(Bytes::copy_from_slice(block))),
            (false, false) => Some(wire_headers(block)?),
        },
        redacted: header(part, "Jetsink-Headers-Redacted")
            .map(|names| names.split(", ").map(str::to_owned).collect())
            .unwrap_or_default(),
        body: (!without_body).then_some(body),
        stream: text("Jetsink-Stream")?,
        stream_sequence: number(part, "Jetsink-Stream-Sequence")?,
        stored_at: header(part, "Jetsink-Timestamp").and_then(Timestamp::from_rfc3339),
        reason: text("Jetsink-Reason")?,
    })
}

/// The lines of a header block; an empty block has none.
fn wire_headers(block: &[u8]) -> Result<Headers, ParseError> {
    let malformed = ParseError::Malformed("the header block");
    let mut headers = Headers::new();
    if block.is_empty() {
        return Ok(headers);
    }
    let lines =
        block.strip_prefix(b"NATS/1.0\r\n").and_then(|rest| rest.strip_suffix(b"\r\n")).ok_or(malformed)?;
    // Line breaks within names and values were taken out when the block was made.
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r\n").ok_or(malformed)?;
        let colon = line.windows(2).position(|pair| pair == b": ").ok_or(malformed)?;
        let (name, value) = line.split_at(colon);
        let name = std::str::from_utf8(name).map_err(|_| malformed)?;
        headers.append(name, Bytes::copy_from_slice(value.strip_prefix(b": ").unwrap_or_default()));
    }
    Ok(headers)
}

fn header<'a>(part: &'a Part, name: &str) -> Option<&'a str> {
    part.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

fn number<N: FromStr>(part: &Part, name: &'static str) -> Result<N, ParseError> {
    header(part, name).and_then(|text| text.parse().ok()).ok_or(ParseError::Malformed(name))
}

fn decoded(text: &str, name: &'static str) -> Result<Bytes, ParseError> {
    STANDARD.decode(text).map(Bytes::from).map_err(|_| ParseError::Malformed(name))
}

/// Shows nothing of them.
impl std::fmt::Debug for Objects {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Objects").finish_non_exhaustive()
    }
}

/// Shows where the message was, never what it says.
impl std::fmt::Debug for Recovered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Recovered")
            .field("stream", &self.stream)
            .field("stream_sequence", &self.stream_sequence)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}
