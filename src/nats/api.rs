//! JetStream API requests: JSON out, JSON in, errors by meaning.
//!
//! Requests carry only fields that the oldest and the strictest server know, and answers are read leniently.

use std::time::Duration;

use async_nats::{Client, Request, RequestErrorKind};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::error::ApiError;
use super::quarantine::Standpoint;

/// Asks the JetStream API of one domain.
#[derive(Clone, Debug)]
pub(super) struct Api {
    client: Client,
    prefix: String,
    timeout: Duration,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer<T> {
    Failed { error: Failure },
    Good(T),
}

#[derive(Deserialize)]
pub(super) struct Failure {
    #[serde(default)]
    pub(super) err_code: u64,
    #[serde(default)]
    pub(super) description: String,
}

impl Api {
    pub(super) fn new(client: Client, domain: Option<&str>, timeout: Duration) -> Self {
        let prefix = domain.map_or_else(|| "$JS.API".to_owned(), |domain| format!("$JS.{domain}.API"));
        Self { client, prefix, timeout }
    }

    /// Deadline of one request.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The full subject of an API operation.
    pub(super) fn subject(&self, operation: &str) -> String {
        format!("{}.{operation}", self.prefix)
    }

    /// Sends one request and reads its answer.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        operation: &str,
        body: &serde_json::Value,
    ) -> Result<T, ApiError> {
        let answer = self.ask(operation, body).await?;
        match serde_json::from_slice(&answer) {
            Ok(Answer::Good(good)) => Ok(good),
            Ok(Answer::Failed { error }) => Err(error.into()),
            Err(source) => Err(ApiError::Malformed { subject: self.subject(operation), source }),
        }
    }

    /// Sends one request and gives its answer as it came.
    pub(super) async fn ask(&self, operation: &str, body: &serde_json::Value) -> Result<Bytes, ApiError> {
        let subject = self.subject(operation);
        let payload = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::new().payload(payload).timeout(Some(self.timeout));
        // The request's own deadline begins when the client has taken it.
        match timeout(self.timeout * 2, self.client.send_request(subject.clone(), request)).await {
            Ok(Ok(answer)) => Ok(answer.payload),
            Err(_) => Err(ApiError::TimedOut { subject }),
            Ok(Err(error)) => Err(match error.kind() {
                RequestErrorKind::NoResponders => ApiError::NoResponders { subject },
                RequestErrorKind::Other => ApiError::Dead,
                RequestErrorKind::TimedOut
                | RequestErrorKind::InvalidSubject
                | RequestErrorKind::MaxPayloadExceeded => ApiError::TimedOut { subject },
            }),
        }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure.err_code {
            10014 => Self::ConsumerNotFound,
            10148 => Self::ConsumerExists,
            10059 => Self::StreamNotFound,
            10037 => Self::MessageNotFound,
            code => Self::Server { code, description: failure.description },
        }
    }
}

/// `CONSUMER.INFO`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ConsumerInfo {
    pub(super) created: String,
    pub(super) config: ConsumerConfig,
    pub(super) delivered: Position,
    pub(super) ack_floor: Position,
    #[serde(default)]
    pub(super) num_ack_pending: usize,
    #[serde(default)]
    pub(super) num_redelivered: usize,
    #[serde(default)]
    pub(super) num_waiting: usize,
    #[serde(default)]
    pub(super) num_pending: u64,
}

impl ConsumerInfo {
    /// Where the durable stands.
    pub(super) const fn standpoint(&self) -> Standpoint {
        Standpoint {
            ack_floor: self.ack_floor.stream_seq,
            delivered: self.delivered.stream_seq,
            deliveries: self.delivered.consumer_seq,
            ack_pending: self.num_ack_pending,
        }
    }
}

/// A pair of sequences.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Position {
    #[serde(default)]
    pub(super) consumer_seq: u64,
    #[serde(default)]
    pub(super) stream_seq: u64,
}

/// The configuration of a durable as the server states it. Durations in nanoseconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConsumerConfig {
    pub(super) deliver_subject: Option<String>,
    pub(super) deliver_policy: String,
    pub(super) opt_start_seq: Option<u64>,
    pub(super) ack_policy: String,
    pub(super) ack_wait: u64,
    pub(super) max_deliver: i64,
    pub(super) max_ack_pending: i64,
    pub(super) max_waiting: u64,
    pub(super) max_batch: u64,
    pub(super) max_expires: u64,
    pub(super) max_bytes: u64,
    pub(super) backoff: Vec<u64>,
    pub(super) filter_subject: String,
    pub(super) filter_subjects: Vec<String>,
    pub(super) headers_only: bool,
    pub(super) inactive_threshold: u64,
    pub(super) num_replicas: usize,
    pub(super) priority_groups: Vec<String>,
}

/// `STREAM.INFO`, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct StreamInfo {
    pub(super) created: String,
    pub(super) config: StreamConfig,
}

/// The configuration of a stream.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamConfig {
    pub(super) name: String,
    pub(super) subjects: Vec<String>,
    pub(super) retention: String,
    pub(super) discard: String,
    pub(super) duplicate_window: u64,
    pub(super) max_msgs: i64,
    pub(super) max_bytes: i64,
    pub(super) max_msg_size: i64,
    pub(super) max_msgs_per_subject: i64,
    pub(super) discard_new_per_subject: bool,
    pub(super) max_age: u64,
    pub(super) mirror: Option<StreamSource>,
    pub(super) sources: Vec<StreamSource>,
    pub(super) no_ack: bool,
    pub(super) sealed: bool,
    pub(super) allow_msg_ttl: bool,
    pub(super) subject_delete_marker_ttl: u64,
}

/// Where a stream takes its messages from, beside its subjects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamSource {
    pub(super) name: String,
    pub(super) filter_subject: String,
    pub(super) external: Option<serde_json::Value>,
}

/// Nanoseconds since 1970 of an RFC 3339 time of the server; 0 when it cannot be read, which equals no real time.
pub(super) fn nanoseconds(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().ok().and_then(|at| i64::try_from(at.as_nanosecond()).ok()).unwrap_or(0)
}
