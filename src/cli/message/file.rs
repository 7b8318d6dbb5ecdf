//! A whole message in one JSON file.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use super::{HeaderLines, Message, MessageError, check_subject, read_bytes};
use crate::clock::{Clock as _, SystemClock, Timestamp};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    subject: String,
    #[serde(default)]
    headers: HeaderLines,
    #[serde(default)]
    payload: Option<String>,
    #[serde(default)]
    payload_base64: Option<String>,
    #[serde(default)]
    stored_at: Option<String>,
}

/// Reads the file, `-` for standard input.
pub(super) fn read(path: &Path) -> Result<Message, MessageError> {
    let bytes = read_bytes(path)?;
    let malformed = |what: String| MessageError::Malformed { path: path.to_path_buf(), what };
    let document: Document =
        serde_json::from_slice(&bytes).map_err(|error| malformed(without_values(&error)))?;
    check_subject(&document.subject)?;
    let payload = match (document.payload, document.payload_base64) {
        (Some(text), None) => Bytes::from(text),
        (None, Some(text)) => {
            Bytes::from(STANDARD.decode(text).map_err(|_| malformed("payload_base64 is no base64".into()))?)
        }
        (None, None) => Bytes::new(),
        (Some(_), Some(_)) => return Err(malformed("payload and payload_base64 are both there".into())),
    };
    let stored_at = document
        .stored_at
        .map(|text| {
            Timestamp::from_rfc3339(&text).ok_or_else(|| malformed("stored_at is no RFC 3339 time".into()))
        })
        .transpose()?;
    Ok(Message {
        subject: document.subject,
        headers: document.headers.0,
        payload,
        stored_at: stored_at.unwrap_or_else(|| SystemClock.now()),
        stream_sequence: 0,
    })
}

/// Where the text goes wrong. What the reader says itself may quote a value.
fn without_values(error: &serde_json::Error) -> String {
    let what = if error.is_data() { "it is no message of this form" } else { "it is not valid JSON" };
    format!("line {}: {what}; it takes subject, headers, payload or payload_base64, stored_at", error.line())
}
