//! Letters of the ancestor, as far as a replay needs them: the same JSON object with fewer fields (formats §6).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::parse::json_headers;
use super::{Form, ParseError, Part, Recovered, parse, summarise};
use crate::clock::Timestamp;
use crate::envelope::Headers;

/// Reads a letter of ours or of the ancestor: its only part, or its two parts in any order.
///
/// # Errors
/// See [`ParseError`].
pub fn recover(parts: &[Part]) -> Result<Recovered, ParseError> {
    match parts {
        [only] if is_ancestor(only) => parse_ancestor(&only.body),
        parts => parse(parts),
    }
}

fn is_ancestor(part: &Part) -> bool {
    let mut headers = Headers::new();
    for (name, value) in &part.headers {
        headers.append(name.as_str(), value.clone());
    }
    summarise(&headers, &part.body).is_some_and(|summary| summary.form == Form::Ancestor)
}

fn parse_ancestor(body: &[u8]) -> Result<Recovered, ParseError> {
    let record: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| ParseError::Malformed("the record"))?;
    let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
    let body = match text("payload_base64") {
        Some(text) => {
            let decoded = STANDARD.decode(text).map_err(|_| ParseError::Malformed("payload_base64"))?;
            Some(Bytes::from(decoded))
        }
        None => None,
    };
    Ok(Recovered {
        subject: text("subject").ok_or(ParseError::Malformed("subject"))?,
        headers: record.get("headers").map(json_headers).transpose()?,
        redacted: Vec::new(),
        body,
        stream: text("stream").unwrap_or_default(),
        stream_sequence: record.get("stream_sequence").and_then(Value::as_u64).unwrap_or_default(),
        stored_at: text("timestamp").as_deref().and_then(Timestamp::from_rfc3339),
        reason: text("error_type").unwrap_or_default(),
    })
}
