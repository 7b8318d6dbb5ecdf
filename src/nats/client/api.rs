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
pub(in crate::nats) use crate::preflight::{ConsumerFacts as ConsumerInfo, StreamFacts as StreamInfo};

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

/// Where the durable stands.
pub(in crate::nats) fn standpoint(info: &ConsumerInfo) -> Standpoint {
    Standpoint {
        ack_floor: info.ack_floor.stream_seq,
        delivered: info.delivered.stream_seq,
        deliveries: info.delivered.consumer_seq,
        ack_pending: in_memory(info.num_ack_pending),
    }
}

/// A number of messages that somebody has in hand.
pub(in crate::nats) fn in_memory(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
