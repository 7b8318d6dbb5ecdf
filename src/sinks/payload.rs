//! What is stored of a message, and how a payload stands in a record (formats §7).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::disposition::Refusal;
use crate::envelope::{Body, Envelope};
use crate::json::{self, StrictReader};
use crate::reason::ReasonCode;

/// What is stored of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Facts and payload, one JSON object.
    Full,
    /// The payload.
    Payload,
}

/// How payloads stand in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadMode {
    /// Strict JSON as it is, anything else in an envelope.
    JsonOrEnvelope,
    /// Strict JSON as it is, anything else refused.
    JsonOnly,
    /// Always an envelope: text where it is UTF-8, else bytes.
    TextEnvelope,
    /// Always an envelope of bytes.
    BytesEnvelope,
}

/// Writes payloads as JSON values on one line.
#[derive(Debug)]
pub(crate) struct PayloadWriter {
    mode: PayloadMode,
    reader: StrictReader,
    text: String,
}

impl PayloadWriter {
    pub(crate) fn new(mode: PayloadMode) -> Self {
        Self { mode, reader: StrictReader::default(), text: String::new() }
    }

    /// Appends the payload of the envelope; `null` when the body was left out by the server.
    ///
    /// # Errors
    /// A refusal if the mode asks for JSON and it is none; nothing has been appended.
    pub(crate) fn write(&mut self, envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if envelope.body != Body::Present {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        let payload = &envelope.payload;
        match self.mode {
            PayloadMode::JsonOrEnvelope => match self.reader.read(payload) {
                Some(value) => value.write_on_one_line(out),
                None => self.write_envelope(payload, true, out),
            },
            PayloadMode::JsonOnly => self.reader.read(payload).ok_or_else(not_json)?.write_on_one_line(out),
            PayloadMode::TextEnvelope => self.write_envelope(payload, true, out),
            PayloadMode::BytesEnvelope => self.write_envelope(payload, false, out),
        }
        Ok(())
    }

    /// Appends the payload as it came where the mode leaves it so: for a file that holds nothing else.
    ///
    /// # Errors
    /// As [`PayloadWriter::write`].
    pub(crate) fn write_alone(&mut self, envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match self.mode {
            PayloadMode::JsonOrEnvelope => out.extend_from_slice(&envelope.payload),
            PayloadMode::JsonOnly => {
                if envelope.body == Body::Present && self.reader.read(&envelope.payload).is_none() {
                    return Err(not_json());
                }
                out.extend_from_slice(&envelope.payload);
            }
            PayloadMode::TextEnvelope | PayloadMode::BytesEnvelope => self.write(envelope, out)?,
        }
        Ok(())
    }

    fn write_envelope(&mut self, payload: &[u8], text_allowed: bool, out: &mut Vec<u8>) {
        let text = if text_allowed { std::str::from_utf8(payload).ok() } else { None };
        let (encoding, format) = if text.is_some() { ("utf-8", "text") } else { ("base64", "bytes") };
        out.extend_from_slice(b"{\"_nats_sinks\":{\"payload_encoding\":\"");
        out.extend_from_slice(encoding.as_bytes());
        out.extend_from_slice(b"\",\"payload_envelope_version\":1,\"payload_format\":\"");
        out.extend_from_slice(format.as_bytes());
        out.extend_from_slice(b"\",\"sha256\":\"");
        json::write_hex(&Sha256::digest(payload), out);
        out.extend_from_slice(b"\",\"size_bytes\":");
        json::write_number(u64::try_from(payload.len()).unwrap_or(u64::MAX), out);
        out.extend_from_slice(b"},\"payload\":");
        match text {
            Some(text) => json::write_string(text, out),
            None => {
                out.push(b'"');
                write_base64(payload, &mut self.text, out);
                out.push(b'"');
            }
        }
        out.push(b'}');
    }
}

/// Appends standard base64; `text` is room to work in.
pub(super) fn write_base64(bytes: &[u8], text: &mut String, out: &mut Vec<u8>) {
    text.clear();
    STANDARD.encode_string(bytes, text);
    out.extend_from_slice(text.as_bytes());
}

fn not_json() -> Refusal {
    Refusal {
        reason: ReasonCode::PayloadNotJson,
        detail: "payload_mode is json_only and the payload is not strict JSON".into(),
    }
}
