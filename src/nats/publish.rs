//! Publishing dead letters: every part confirmed by the expected stream, or there is no receipt.

use std::num::NonZeroU64;
use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue, Request, RequestErrorKind};
use serde::Deserialize;
use serde_json::json;

use super::api::Failure;
use super::connect::Connection;
use super::dead_letter_stream::DeadLetterStream;
use super::settings::PublisherSettings;
use crate::clock::Timestamp;
use crate::dead_letter::{Letter, Part, SizeBudget, render};
use crate::delivery::{BoxFuture, DeadLetterError, DeadLetterPublisher, PublishReceipt, Rejection};
use crate::envelope::Envelope;

/// Publishes dead letters to one subject.
pub struct NatsPublisher {
    connection: Connection,
    settings: PublisherSettings,
    stream: DeadLetterStream,
    source_keeps_body: bool,
    sink: &'static str,
}

/// A PubAck, or the error in its place.
#[derive(Deserialize)]
struct PubAck {
    error: Option<Failure>,
    #[serde(default)]
    stream: String,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
}

#[derive(Deserialize)]
struct StoredMessage {
    message: Stored,
}

#[derive(Deserialize)]
struct Stored {
    #[serde(default)]
    hdrs: Option<String>,
}

impl NatsPublisher {
    /// A publisher; `source_keeps_body` says whether the source stream keeps messages that are settled.
    #[must_use]
    pub const fn new(
        connection: Connection,
        settings: PublisherSettings,
        stream: DeadLetterStream,
        source_keeps_body: bool,
        sink: &'static str,
    ) -> Self {
        Self { connection, settings, stream, source_keeps_body, sink }
    }

    async fn publish_all(
        &self,
        envelope: &Envelope,
        rejection: &Rejection,
        failed_at: Timestamp,
    ) -> Result<PublishReceipt, DeadLetterError> {
        let letter = Letter { envelope, rejection, failed_at, sink: Some(self.sink) };
        let server_limit = self.connection.max_payload();
        let budget = SizeBudget {
            max_payload: self.stream.max_message_bytes.map_or(server_limit, |limit| limit.min(server_limit)),
            source_keeps_body: self.source_keeps_body,
        };
        let parts = render(&letter, &self.settings.record, budget)
            .map_err(|error| DeadLetterError::TooLarge(error.to_string()))?;
        let mut receipt = Err(DeadLetterError::Unconfirmed);
        for part in parts {
            receipt = Ok(self.publish_part(part).await?);
        }
        receipt
    }

    async fn publish_part(&self, part: Part) -> Result<PublishReceipt, DeadLetterError> {
        let (headers, message_id) = self.headers(&part);
        let request = Request::new().headers(headers).payload(part.body).timeout(Some(self.settings.timeout));
        let answer = self.connection.client.send_request(self.settings.subject.clone(), request);
        // The request's own deadline begins when the client has taken it.
        let answer = tokio::time::timeout(self.settings.timeout * 2, answer)
            .await
            .map_err(|_| DeadLetterError::Unconfirmed)?;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::TimedOut => DeadLetterError::Unconfirmed,
            RequestErrorKind::NoResponders => {
                DeadLetterError::Unavailable(format!("no stream captures {}", self.settings.subject))
            }
            RequestErrorKind::MaxPayloadExceeded => {
                DeadLetterError::TooLarge("above the server's max_payload".into())
            }
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => {
                DeadLetterError::Unavailable("there is no connection".into())
            }
        })?;
        let ack: PubAck = serde_json::from_slice(&answer.payload)
            .map_err(|_| DeadLetterError::Refused("the answer is not a PubAck".into()))?;
        let receipt = self.receipt(ack)?;
        if receipt.duplicate && !self.is_ours(&receipt, &message_id).await {
            tracing::warn!(
                stream = receipt.stream,
                sequence = receipt.sequence,
                "the stream says that it has the dead letter already, yet it cannot be read there"
            );
        }
        Ok(receipt)
    }

    fn headers(&self, part: &Part) -> (HeaderMap, String) {
        let mut headers = HeaderMap::new();
        let mut message_id = String::new();
        let mut insert = |name: &str, value: &str| {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
                headers.append(name, value);
            }
        };
        for (name, value) in &part.headers {
            if name == "Nats-Msg-Id" {
                message_id.clone_from(value);
            }
            insert(name, value);
        }
        if let Some(stream) = &self.settings.stream {
            insert("Nats-Expected-Stream", stream);
        }
        (headers, message_id)
    }

    fn receipt(&self, ack: PubAck) -> Result<PublishReceipt, DeadLetterError> {
        if let Some(failure) = ack.error {
            let detail = format!("{} (error {})", failure.description, failure.err_code);
            return Err(match failure.err_code {
                10008 | 10023 | 10028 | 10047 | 10118 => DeadLetterError::Unavailable(detail),
                10054 | 10097 => DeadLetterError::TooLarge(detail),
                _ => DeadLetterError::Refused(detail),
            });
        }
        if let Some(expected) = self.stream.name.as_ref().filter(|expected| **expected != ack.stream) {
            return Err(DeadLetterError::Refused(format!(
                "stream {} confirmed, where {expected} should",
                ack.stream
            )));
        }
        let sequence = NonZeroU64::new(ack.seq)
            .ok_or_else(|| DeadLetterError::Refused("the PubAck names no sequence".into()))?;
        Ok(PublishReceipt { stream: ack.stream, sequence, duplicate: ack.duplicate })
    }

    /// Whether the message that the stream calls a duplicate is there, with our id (formats §6). Reading it may not be
    /// permitted, or it may have been purged; then the server's word is all there is.
    async fn is_ours(&self, receipt: &PublishReceipt, message_id: &str) -> bool {
        use base64::Engine as _;
        let operation = format!("STREAM.MSG.GET.{}", receipt.stream);
        let body = json!({ "seq": receipt.sequence.get() });
        let read = self.connection.api.call::<StoredMessage>(&operation, &body);
        let Ok(Ok(stored)) = tokio::time::timeout(Duration::from_secs(2), read).await else { return false };
        let headers = stored.message.hdrs.unwrap_or_default();
        let Ok(headers) = base64::engine::general_purpose::STANDARD.decode(headers) else { return false };
        let headers = String::from_utf8_lossy(&headers);
        headers
            .lines()
            .any(|line| line.strip_prefix("Nats-Msg-Id:").is_some_and(|id| id.trim() == message_id))
    }
}

impl DeadLetterPublisher for NatsPublisher {
    fn publish<'a>(
        &'a self,
        envelope: &'a Envelope,
        rejection: &'a Rejection,
        failed_at: Timestamp,
    ) -> BoxFuture<'a, Result<PublishReceipt, DeadLetterError>> {
        Box::pin(self.publish_all(envelope, rejection, failed_at))
    }
}

/// Stands where no dead-letter subject is configured: rejected messages stay on their stream.
#[derive(Clone, Copy, Debug)]
pub struct NoDeadLetters;

impl DeadLetterPublisher for NoDeadLetters {
    fn publish<'a>(
        &'a self,
        _envelope: &'a Envelope,
        _rejection: &'a Rejection,
        _failed_at: Timestamp,
    ) -> BoxFuture<'a, Result<PublishReceipt, DeadLetterError>> {
        Box::pin(std::future::ready(Err(DeadLetterError::NotConfigured)))
    }
}

impl std::fmt::Debug for NatsPublisher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("NatsPublisher")
            .field("subject", &self.settings.subject)
            .finish_non_exhaustive()
    }
}
