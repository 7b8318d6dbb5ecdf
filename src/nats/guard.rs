//! Which life of the durable our deliveries belong to (design §4, Acker).
//!
//! A late acknowledgement of an earlier life would settle a new message of the same sequence. So nothing is settled, and no
//! pull is sent, on a connection on which the durable was not seen to be the same: same `created`, and not behind what it
//! has delivered to us (a store that was rolled back to a copy has the same `created`). What remains is the time between the
//! look at the connection and the socket; docs/delivery-semantics.md says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_nats::connection::State;
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::api::{ConsumerInfo, nanoseconds};
use super::connect::Connection;
use super::error::ApiError;
use crate::envelope::{Incarnation, SourceNames};

/// What is known of the durable on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is ours.
    Same,
    /// It is gone, or another one.
    Gone,
    /// It could not be asked.
    Unknown,
}

/// Shared by the source and the acker of one bound durable.
#[derive(Debug)]
pub(super) struct Guard {
    connection: Connection,
    names: Arc<SourceNames>,
    incarnation: Incarnation,
    verified_connects: AtomicU64,
    highest_delivered: AtomicU64,
    gone: AtomicBool,
    asking: Mutex<()>,
}

impl Guard {
    pub(super) fn new(connection: Connection, names: Arc<SourceNames>, incarnation: Incarnation) -> Self {
        let verified_connects = AtomicU64::new(connection.connects());
        Self {
            connection,
            names,
            incarnation,
            verified_connects,
            highest_delivered: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            asking: Mutex::default(),
        }
    }

    pub(super) const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The life is over; nothing of it is settled any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Notes the consumer sequence of an arrival.
    pub(super) fn note_delivered(&self, consumer_sequence: u64) {
        self.highest_delivered.fetch_max(consumer_sequence, Ordering::AcqRel);
    }

    /// The connection must be verified again, whatever it is.
    pub(super) fn doubt(&self) {
        self.verified_connects.store(0, Ordering::Release);
    }

    /// Whether the durable was seen to be ours on the present connection. Two atomic loads.
    pub(super) fn is_verified(&self) -> bool {
        !self.is_gone()
            && self.connection.client.connection_state() == State::Connected
            && self.connection.connects() == self.verified_connects.load(Ordering::Acquire)
    }

    /// Asks the server, unless it is known already. One question at a time.
    pub(super) async fn verify(&self) -> Standing {
        let _one_at_a_time = self.asking.lock().await;
        if self.is_gone() {
            return Standing::Gone;
        }
        if self.is_verified() {
            return Standing::Same;
        }
        let connects = self.connection.connects();
        match self.ask().await {
            Ok(info) => self.compare(&info, connects),
            Err(ApiError::ConsumerNotFound | ApiError::StreamNotFound) => self.lose("it does not exist"),
            Err(error) => {
                info!(%error, "the durable cannot be verified yet");
                Standing::Unknown
            }
        }
    }

    /// CONSUMER.INFO.
    pub(super) async fn ask(&self) -> Result<ConsumerInfo, ApiError> {
        let operation = format!("CONSUMER.INFO.{}.{}", self.names.stream, self.names.consumer);
        self.connection.api.call(&operation, &serde_json::Value::Null).await
    }

    fn compare(&self, info: &ConsumerInfo, connects: u64) -> Standing {
        if Incarnation(nanoseconds(&info.created)) != self.incarnation {
            return self.lose("another one of the same name was created");
        }
        if info.delivered.consumer_seq < self.highest_delivered.load(Ordering::Acquire) {
            return self.lose("it is behind what it has delivered: its store was set back");
        }
        self.verified_connects.store(connects, Ordering::Release);
        Standing::Same
    }

    fn lose(&self, detail: &str) -> Standing {
        warn!(
            stream = self.names.stream,
            durable = self.names.consumer,
            detail,
            "the durable is not the one we were bound to"
        );
        self.gone.store(true, Ordering::Release);
        Standing::Gone
    }
}
