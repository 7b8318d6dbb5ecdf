//! Messages as their stream stores them, read one by one: `STREAM.MSG.GET`.
//!
//! The answer is JSON with headers and body in base64, so a message that no client can be handed is read all the same. Only
//! the subject stands there as text, in which the server writes U+FFFD for what is not UTF-8.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::envelope::{Body, Envelope, Headers, SharedMetadata, SourceNames};
use crate::nats::client::api::{Api, Failure};
use crate::nats::client::connect::Connection;
use crate::nats::error::ApiError;
use crate::preflight::nanoseconds;

/// One message of a stream.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its subject. U+FFFD stands for bytes that are not UTF-8, see [`StreamReader::is_subject_exact`].
    pub subject: String,
    /// The header block as the publisher sent it, legal or not; empty without headers.
    pub raw_headers: Bytes,
    /// The body.
    pub payload: Bytes,
    /// Its sequence.
    pub sequence: u64,
    /// When the stream stored it; 0 when the server's time cannot be read.
    pub stored_at: Timestamp,
}

/// Reads the messages of one stream by sequence. Needs the permission to publish to `$JS.API.STREAM.MSG.GET.<stream>`.
#[derive(Clone, Debug)]
pub struct StreamReader {
    api: Api,
    stream: Arc<str>,
}

/// The answer; the texts are borrowed, since a body may be large.
#[derive(Deserialize)]
struct Answer<'a> {
    error: Option<Failure>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default)]
    subject: String,
    #[serde(default)]
    seq: u64,
    #[serde(borrow, default)]
    hdrs: Option<&'a str>,
    #[serde(borrow, default)]
    data: Option<&'a str>,
    #[serde(default)]
    time: String,
}

impl StoredMessage {
    /// The facts of the message, as if it had been delivered that often. `read` makes headers of its block, if it has one.
    pub(in crate::nats) fn into_envelope(
        self,
        source: &Arc<SourceNames>,
        delivery_count: u64,
        read: impl FnOnce(Bytes) -> Headers,
    ) -> Envelope {
        let headers = match self.raw_headers {
            block if block.is_empty() => Headers::new(),
            block => read(block),
        };
        Envelope {
            subject: self.subject,
            headers,
            payload: self.payload,
            body: Body::Present,
            source: Arc::clone(source),
            stream_sequence: self.sequence,
            consumer_sequence: 0,
            delivery_count,
            stored_at: self.stored_at,
            pending: 0,
            metadata: SharedMetadata::NONE,
        }
    }
}

impl StreamReader {
    /// A reader of this stream.
    #[must_use]
    pub fn new(connection: &Connection, stream: &str) -> Self {
        Self { api: connection.api.clone(), stream: stream.into() }
    }

    /// The message with this sequence.
    ///
    /// # Errors
    /// [`ApiError::MessageNotFound`] when it was deleted, or never was; else what the server or the client says. Without
    /// the permission no answer comes: [`ApiError::TimedOut`].
    pub async fn get(&self, sequence: u64) -> Result<StoredMessage, ApiError> {
        self.ask(&json!({ "seq": sequence })).await
    }

    /// The first message with this sequence or a higher one whose subject matches the filter (`>` = every one).
    ///
    /// # Errors
    /// [`ApiError::MessageNotFound`] when there is none; else as [`get`](Self::get).
    pub async fn next(&self, sequence: u64, filter: &str) -> Result<StoredMessage, ApiError> {
        self.ask(&json!({ "seq": sequence, "next_by_subj": filter })).await
    }

    /// Whether the subject of a message is its very bytes. Only one with U+FFFD in it leads to a question: the server finds
    /// the message by that subject, or it has other bytes.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn is_subject_exact(&self, message: &StoredMessage) -> Result<bool, ApiError> {
        if !message.subject.contains(char::REPLACEMENT_CHARACTER) {
            return Ok(true);
        }
        match self.next(message.sequence, &message.subject).await {
            Ok(found) => Ok(found.sequence == message.sequence),
            Err(ApiError::MessageNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The error of a question that was not answered in time.
    pub(in crate::nats) fn no_answer(&self) -> ApiError {
        ApiError::TimedOut { subject: self.api.subject(&format!("STREAM.MSG.GET.{}", self.stream)) }
    }

    async fn ask(&self, body: &Value) -> Result<StoredMessage, ApiError> {
        let operation = format!("STREAM.MSG.GET.{}", self.stream);
        let answer = self.api.ask(&operation, body).await?;
        let malformed = |source| ApiError::Malformed { subject: self.api.subject(&operation), source };
        let answer: Answer<'_> = serde_json::from_slice(&answer).map_err(malformed)?;
        match answer {
            Answer { error: Some(failure), .. } => Err(failure.into()),
            Answer { message: Some(message), .. } => read(message).map_err(malformed),
            Answer { message: None, .. } => Err(ApiError::MessageNotFound),
        }
    }
}

fn read(message: Message<'_>) -> Result<StoredMessage, serde_json::Error> {
    let decoded = |text: Option<&str>| {
        let bytes = STANDARD.decode(text.unwrap_or_default());
        bytes.map(Bytes::from).map_err(<serde_json::Error as serde::de::Error>::custom)
    };
    Ok(StoredMessage {
        raw_headers: decoded(message.hdrs)?,
        payload: decoded(message.data)?,
        subject: message.subject,
        sequence: message.seq,
        stored_at: Timestamp(nanoseconds(&message.time)),
    })
}

/// Shows where the message is, never what it says.
impl fmt::Debug for StoredMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StoredMessage")
            .field("sequence", &self.sequence)
            .field("raw_headers_bytes", &self.raw_headers.len())
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> StoredMessage {
        let answer: Answer<'_> = serde_json::from_str(text).unwrap();
        read(answer.message.unwrap()).unwrap()
    }

    #[test]
    fn an_answer_is_read() {
        let message = answer(
            r#"{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"src.a","seq":7,
                "hdrs":"TkFUUy8xLjANClg6IP/+DQoNCg==","data":"aGk=","time":"2026-12-01T00:00:00.000000009Z"}}"#,
        );
        assert_eq!(message.raw_headers, &b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n"[..]);
        assert_eq!((message.payload.as_ref(), message.sequence), (&b"hi"[..], 7));
        assert_eq!(message.stored_at.0 % 1_000_000_000, 9);
    }

    #[test]
    fn what_is_missing_is_empty() {
        let message = answer(r#"{"message":{"subject":"s","seq":1,"time":"x"}}"#);
        assert!(message.raw_headers.is_empty() && message.payload.is_empty());
        assert_eq!(message.stored_at.0, 0);
    }

    #[test]
    fn debug_shows_no_content() {
        let message =
            answer(r#"{"message":{"subject":"CANARY","seq":1,"data":"Q0FOQVJZ","hdrs":"Q0FOQVJZ"}}"#);
        assert!(!format!("{message:?}").contains("CANARY"));
    }
}
