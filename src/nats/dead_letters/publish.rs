//! Publishing dead letters: every part confirmed by the expected stream, or there is no receipt.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue, Request, RequestErrorKind};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use tracing::{info, warn};

use crate::clock::Timestamp;
use crate::dead_letter::{Letter, MAX_DEPTH, Part, SizeBudget, depth, render};
use crate::delivery::{BoxFuture, DeadLetterError, DeadLetterPublisher, PublishReceipt, Rejection};
use crate::envelope::Envelope;
use crate::nats::client::api::Failure;
use crate::nats::client::connect::Connection;
use crate::nats::dead_letters::stream::{DeadLetterStream, LetterRoute};
use crate::nats::durable::bind::BoundConsumer;
use crate::nats::error::NatsError;
use crate::nats::settings::PublisherSettings;

/// Publishes the dead letters of one durable.
///
/// The stream is looked at before the first publish on every connection, and again after a publish that failed: it may have
/// become one that confirms and does not keep.
pub struct NatsPublisher {
    connection: Connection,
    route: LetterRoute,
    stream: RwLock<Arc<DeadLetterStream>>,
    /// The number of the connection on which the stream was looked at; 0 = it must be looked at.
    looked_on: AtomicU64,
    looking: Mutex<()>,
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
    domain: Option<String>,
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
    /// A publisher of the letters of this durable; `sink` is named in them.
    #[must_use]
    pub fn new(bound: &BoundConsumer, settings: PublisherSettings, sink: &'static str) -> Self {
        let stream = DeadLetterStream { name: settings.stream.clone(), ..DeadLetterStream::default() };
        Self {
            connection: bound.connection.clone(),
            route: LetterRoute::new(settings, bound),
            stream: RwLock::new(Arc::new(stream)),
            looked_on: AtomicU64::new(0),
            looking: Mutex::default(),
            source_keeps_body: bound.stream.as_ref().is_some_and(|stream| stream.keeps_settled_messages),
            sink,
        }
    }

    /// Looks at the dead-letter stream, unless it was looked at on the present connection and has confirmed since. What is
    /// new is logged.
    ///
    /// # Errors
    /// See [`verify_dead_letter_stream`](crate::nats::verify_dead_letter_stream).
    pub async fn look(&self) -> Result<(), NatsError> {
        let _one_at_a_time = self.looking.lock().await;
        if self.has_looked() {
            return Ok(());
        }
        // Counted before the look: a connection made meanwhile needs another one.
        let connects = self.connection.connects();
        let seen = Arc::new(self.route.verify(&self.connection).await?);
        self.looked_on.store(connects, Ordering::Release);
        let before = {
            let mut stream = self.stream.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *stream, Arc::clone(&seen))
        };
        if before.limits != seen.limits {
            info!(stream = seen.name, limits = seen.limits, "dead letters go to this stream");
        }
        for warning in seen.warnings.iter().filter(|warning| !before.warnings.contains(warning)) {
            warn!("{warning}");
        }
        Ok(())
    }

    fn has_looked(&self) -> bool {
        self.looked_on.load(Ordering::Acquire) == self.connection.connects()
    }

    fn stream(&self) -> Arc<DeadLetterStream> {
        Arc::clone(&self.stream.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn publish_all(
        &self,
        envelope: &Envelope,
        rejection: &Rejection,
        failed_at: Timestamp,
    ) -> Result<PublishReceipt, DeadLetterError> {
        let depth = depth(envelope);
        if depth >= MAX_DEPTH {
            return Err(DeadLetterError::ComesBack(depth));
        }
        if !self.has_looked() {
            self.look().await.map_err(|error| match error {
                NatsError::DeadLetterStream(detail) => DeadLetterError::Refused(detail),
                NatsError::Missing(detail) => DeadLetterError::Unavailable(detail),
                NatsError::Secret(_)
                | NatsError::Settings(_)
                | NatsError::Connect(_)
                | NatsError::Api(_)
                | NatsError::Drift { .. } => DeadLetterError::Unavailable(error.to_string()),
            })?;
        }
        let stream = self.stream();
        let server_limit = self.connection.max_payload();
        let budget = SizeBudget {
            max_payload: stream.max_message_bytes.map_or(server_limit, |limit| limit.min(server_limit)),
            source_keeps_body: self.source_keeps_body,
        };
        let letter = Letter { envelope, rejection, failed_at, sink: Some(self.sink) };
        let parts = render(&letter, &self.route.settings.record, budget)
            .map_err(|error| DeadLetterError::TooLarge(error.to_string()))?;
        let subject = self.route.subject.of(rejection);
        let mut receipt = Err(DeadLetterError::Unconfirmed);
        for part in parts {
            receipt = self.publish_part(&subject, part, &stream).await;
            if receipt.is_err() {
                // Whoever may not look has nothing to gain from another look.
                if stream.limits.is_some() {
                    self.looked_on.store(0, Ordering::Release);
                }
                break;
            }
        }
        receipt
    }

    async fn publish_part(
        &self,
        subject: &str,
        part: Part,
        stream: &DeadLetterStream,
    ) -> Result<PublishReceipt, DeadLetterError> {
        let (headers, message_id) = self.headers(&part);
        let timeout = self.route.settings.timeout;
        let request = Request::new().headers(headers).payload(part.body).timeout(Some(timeout));
        let answer = self.connection.client.send_request(subject.to_owned(), request);
        // The request's own deadline begins when the client has taken it.
        let answer =
            tokio::time::timeout(timeout * 2, answer).await.map_err(|_| DeadLetterError::Unconfirmed)?;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::TimedOut => DeadLetterError::Unconfirmed,
            RequestErrorKind::NoResponders => {
                DeadLetterError::Unavailable(format!("no stream captures {subject}"))
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
        let receipt = receipt(ack, stream)?;
        if receipt.duplicate && !self.is_ours(&receipt, &message_id).await {
            warn!(
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
        if let Some(stream) = &self.route.settings.stream {
            insert("Nats-Expected-Stream", stream);
        }
        (headers, message_id)
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

/// The receipt that a PubAck is, if it comes from the expected stream.
fn receipt(ack: PubAck, expected: &DeadLetterStream) -> Result<PublishReceipt, DeadLetterError> {
    if let Some(failure) = ack.error {
        let detail = format!("{} (error {})", failure.description, failure.err_code);
        return Err(match failure.err_code {
            10008 | 10023 | 10028 | 10047 | 10118 => DeadLetterError::Unavailable(detail),
            10054 | 10097 => DeadLetterError::TooLarge(detail),
            _ => DeadLetterError::Refused(detail),
        });
    }
    // Over a leaf connection a stream of another domain may capture the subject too, and be the first to answer.
    if let (Some(expected), Some(domain)) = (&expected.domain, &ack.domain)
        && expected != domain
    {
        return Err(DeadLetterError::Refused(format!(
            "stream {} of domain {domain} confirmed, where one of domain {expected} should: both capture the subject",
            ack.stream
        )));
    }
    if let Some(expected) = expected.name.as_ref().filter(|expected| **expected != ack.stream) {
        return Err(DeadLetterError::Refused(format!(
            "stream {} confirmed, where {expected} should",
            ack.stream
        )));
    }
    let sequence = NonZeroU64::new(ack.seq)
        .ok_or_else(|| DeadLetterError::Refused("the PubAck names no sequence".into()))?;
    Ok(PublishReceipt { stream: ack.stream, sequence, duplicate: ack.duplicate })
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
            .field("subject", &self.route.settings.subject)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_of_the_expected_stream_in_the_expected_domain() {
        let hub = DeadLetterStream {
            name: Some("DLQ".into()),
            domain: Some("hub".into()),
            ..DeadLetterStream::default()
        };
        let of =
            |text: &str, expected: &DeadLetterStream| receipt(serde_json::from_str(text).unwrap(), expected);
        for text in [r#"{"stream":"DLQ","seq":7,"domain":"hub"}"#, r#"{"stream":"DLQ","seq":7}"#] {
            assert_eq!(of(text, &hub).unwrap().sequence.get(), 7);
        }
        for text in [
            r#"{"stream":"DLQ","seq":7,"domain":"leaf"}"#,
            r#"{"stream":"OTHER","seq":7,"domain":"hub"}"#,
            r#"{"stream":"DLQ","seq":0,"domain":"hub"}"#,
        ] {
            assert!(of(text, &hub).is_err(), "{text}");
        }
        assert!(of(r#"{"stream":"DLQ","seq":7,"domain":"leaf"}"#, &DeadLetterStream::default()).is_ok());
    }
}
