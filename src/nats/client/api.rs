//! JetStream API requests: JSON out, JSON in, errors by meaning.
//!
//! Requests carry only fields that the oldest and the strictest server know, and answers are read leniently.

use std::time::Duration;

use async_nats::{Client, Request, RequestErrorKind};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::nats::error::ApiError;
use crate::nats::isolation::quarantine::Standpoint;

/// Asks the JetStream API of one domain.
#[derive(Clone, Debug)]
pub(in crate::nats) struct Api {
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
pub(in crate::nats) struct Failure {
    #[serde(default)]
    pub(in crate::nats) err_code: u64,
    #[serde(default)]
    pub(in crate::nats) description: String,
}

impl Api {
    pub(in crate::nats) fn new(client: Client, domain: Option<&str>, timeout: Duration) -> Self {
        let prefix = domain.map_or_else(|| "$JS.API".to_owned(), |domain| format!("$JS.{domain}.API"));
        Self { client, prefix, timeout }
    }

    /// Asks the domain of the server that we are connected to, with less patience; `None` when that is what this one does.
    pub(in crate::nats) fn of_this_server(&self) -> Option<Self> {
        let own = Self::new(self.client.clone(), None, self.timeout.min(Duration::from_secs(1)));
        (own.prefix != self.prefix).then_some(own)
    }

    /// Deadline of one request.
    pub(in crate::nats) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The full subject of an API operation.
    pub(in crate::nats) fn subject(&self, operation: &str) -> String {
        format!("{}.{operation}", self.prefix)
    }

    /// Sends one request and reads its answer.
    pub(in crate::nats) async fn call<T: DeserializeOwned>(
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
    pub(in crate::nats) async fn ask(
        &self,
        operation: &str,
        body: &serde_json::Value,
    ) -> Result<Bytes, ApiError> {
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
pub(in crate::nats) struct ConsumerInfo {
    pub(in crate::nats) created: String,
    pub(in crate::nats) config: ConsumerConfig,
    pub(in crate::nats) delivered: Position,
    pub(in crate::nats) ack_floor: Position,
    #[serde(default)]
    pub(in crate::nats) num_ack_pending: usize,
    #[serde(default)]
    pub(in crate::nats) num_redelivered: usize,
    #[serde(default)]
    pub(in crate::nats) num_waiting: usize,
    #[serde(default)]
    pub(in crate::nats) num_pending: u64,
}

impl ConsumerInfo {
    /// Where the durable stands.
    pub(in crate::nats) const fn standpoint(&self) -> Standpoint {
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
pub(in crate::nats) struct Position {
    #[serde(default)]
    pub(in crate::nats) consumer_seq: u64,
    #[serde(default)]
    pub(in crate::nats) stream_seq: u64,
}

/// The configuration of a durable as the server states it. Durations in nanoseconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::nats) struct ConsumerConfig {
    pub(in crate::nats) deliver_subject: Option<String>,
    pub(in crate::nats) deliver_policy: String,
    pub(in crate::nats) opt_start_seq: Option<u64>,
    pub(in crate::nats) ack_policy: String,
    pub(in crate::nats) ack_wait: u64,
    pub(in crate::nats) max_deliver: i64,
    pub(in crate::nats) max_ack_pending: i64,
    pub(in crate::nats) max_waiting: u64,
    pub(in crate::nats) max_batch: u64,
    pub(in crate::nats) max_expires: u64,
    pub(in crate::nats) max_bytes: u64,
    pub(in crate::nats) backoff: Vec<u64>,
    pub(in crate::nats) filter_subject: String,
    pub(in crate::nats) filter_subjects: Vec<String>,
    pub(in crate::nats) headers_only: bool,
    pub(in crate::nats) inactive_threshold: u64,
    pub(in crate::nats) num_replicas: usize,
    pub(in crate::nats) priority_groups: Vec<String>,
}

/// `STREAM.INFO`, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::nats) struct StreamInfo {
    pub(in crate::nats) created: String,
    pub(in crate::nats) config: StreamConfig,
}

/// The configuration of a stream.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::nats) struct StreamConfig {
    pub(in crate::nats) name: String,
    pub(in crate::nats) subjects: Vec<String>,
    pub(in crate::nats) retention: String,
    pub(in crate::nats) discard: String,
    pub(in crate::nats) duplicate_window: u64,
    pub(in crate::nats) max_msgs: i64,
    pub(in crate::nats) max_bytes: i64,
    pub(in crate::nats) max_msg_size: i64,
    pub(in crate::nats) max_msgs_per_subject: i64,
    pub(in crate::nats) discard_new_per_subject: bool,
    pub(in crate::nats) max_age: u64,
    pub(in crate::nats) mirror: Option<StreamSource>,
    pub(in crate::nats) sources: Vec<StreamSource>,
    pub(in crate::nats) no_ack: bool,
    pub(in crate::nats) sealed: bool,
    pub(in crate::nats) allow_msg_ttl: bool,
    pub(in crate::nats) subject_delete_marker_ttl: u64,
}

/// Where a stream takes its messages from, beside its subjects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::nats) struct StreamSource {
    pub(in crate::nats) name: String,
    pub(in crate::nats) filter_subject: String,
    pub(in crate::nats) external: Option<serde_json::Value>,
}

/// Nanoseconds since 1970 of an RFC 3339 time of the server; 0 when it cannot be read, which equals no real time.
pub(in crate::nats) fn nanoseconds(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().ok().and_then(|at| i64::try_from(at.as_nanosecond()).ok()).unwrap_or(0)
}
