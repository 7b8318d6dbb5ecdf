//! Which life of the durable our deliveries belong to (design §4, Acker).
//!
//! A late acknowledgement of an earlier life would settle a new message of the same sequence. So nothing is settled, and no
//! pull is sent, on a connection on which the durable was not seen to be the same: same `created`, and not behind what it
//! has delivered to us (a store that was rolled back to a copy has the same `created`). A server that was killed comes back
//! behind as well, by what it had not written yet: everything in hand is dropped then, and the client built anew, since
//! nothing tells the old deliveries from new ones of the same sequences. What remains is the time between the look at the
//! connection and the socket; docs/delivery-semantics.md says so.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::envelope::{Incarnation, SourceNames};
use crate::nats::client::api::{ConsumerInfo, standpoint};
use crate::nats::client::connect::Connection;
use crate::nats::error::ApiError;
use crate::nats::isolation::quarantine::Standpoint;
use crate::preflight::nanoseconds;

/// What is known of the durable on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) enum Standing {
    /// It is ours.
    Same,
    /// It is gone, or another one.
    Gone,
    /// It is ours, and behind what it has delivered to us.
    SetBack,
    /// It could not be asked.
    Unknown,
}

/// A follower that becomes the leader may need a moment to know what was delivered; only what stays behind was set back.
const LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// How often a lost connection is looked at while a question waits for it, and for how long.
const RECONNECT_LOOK: Duration = Duration::from_millis(100);
const RECONNECT_WAIT: Duration = Duration::from_secs(5);

/// How the life of a bound durable ended: [`AtomicU8`] in [`Guard::over`].
const NOT_OVER: u8 = 0;
const OVER_GONE: u8 = 1;
const OVER_SET_BACK: u8 = 2;

/// Shared by the source and the acker of one bound durable.
#[derive(Debug)]
pub(in crate::nats) struct Guard {
    connection: Connection,
    names: Arc<SourceNames>,
    incarnation: Incarnation,
    verified_connects: AtomicU64,
    highest_delivered: AtomicU64,
    over: AtomicU8,
    asking: Mutex<()>,
    /// Where the durable stood when it was asked last.
    standpoint: std::sync::Mutex<Standpoint>,
}

impl Guard {
    /// `verified_connects`: the number of connections when the durable was asked for its facts, before the answer.
    pub(in crate::nats) fn new(
        connection: Connection,
        names: Arc<SourceNames>,
        incarnation: Incarnation,
        verified_connects: u64,
        standpoint: Standpoint,
    ) -> Self {
        let verified_connects = AtomicU64::new(verified_connects);
        Self {
            connection,
            names,
            incarnation,
            verified_connects,
            highest_delivered: AtomicU64::new(0),
            over: AtomicU8::new(NOT_OVER),
            asking: Mutex::default(),
            standpoint: std::sync::Mutex::new(standpoint),
        }
    }

    pub(in crate::nats) const fn names(&self) -> &Arc<SourceNames> {
        &self.names
    }

    pub(in crate::nats) const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The life is over; nothing of it is settled any more.
    pub(in crate::nats) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) != NOT_OVER
    }

    /// Where the durable stood when this connection was verified.
    pub(in crate::nats) fn standpoint(&self) -> Standpoint {
        *self.standpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the consumer sequence of an arrival.
    pub(in crate::nats) fn note_delivered(&self, consumer_sequence: u64) {
        self.highest_delivered.fetch_max(consumer_sequence, Ordering::AcqRel);
    }

    /// The connection must be verified again, whatever it is.
    pub(in crate::nats) fn doubt(&self) {
        self.verified_connects.store(0, Ordering::Release);
    }

    /// Whether the durable was seen to be ours on the present connection. Two atomic loads.
    pub(in crate::nats) fn is_verified(&self) -> bool {
        !self.is_over()
            && self.connection.client.connection_state() == State::Connected
            && self.connection.connects() == self.verified_connects.load(Ordering::Acquire)
    }

    /// Asks the server, unless it is known already. One question at a time.
    pub(in crate::nats) async fn verify(&self) -> Standing {
        let _one_at_a_time = self.asking.lock().await;
        match self.over.load(Ordering::Acquire) {
            NOT_OVER => {}
            OVER_SET_BACK => return Standing::SetBack,
            _ => return Standing::Gone,
        }
        if self.is_verified() {
            return Standing::Same;
        }
        if !self.wait_for_connection().await {
            return Standing::Unknown;
        }
        for look in 1..=LOOKS {
            let connects = self.connection.connects();
            // Taken before the question: what arrives while the answer is under way is not in it.
            let highest = self.highest_delivered.load(Ordering::Acquire);
            match self.ask().await {
                Ok(info) if Incarnation(nanoseconds(&info.created)) != self.incarnation => {
                    return self.lose(OVER_GONE, "another one of the same name was created");
                }
                Ok(info) if info.delivered.consumer_seq >= highest => {
                    *self.standpoint.lock().unwrap_or_else(PoisonError::into_inner) = standpoint(&info);
                    self.verified_connects.store(connects, Ordering::Release);
                    return Standing::Same;
                }
                Ok(_) if look < LOOKS => sleep(BETWEEN_LOOKS).await,
                Ok(_) => {}
                Err(ApiError::ConsumerNotFound | ApiError::StreamNotFound) => {
                    return self.lose(OVER_GONE, "it does not exist");
                }
                Err(error) => {
                    info!(%error, "the durable cannot be verified yet");
                    return Standing::Unknown;
                }
            }
        }
        self.lose(OVER_SET_BACK, "it is behind what it has delivered: its store was set back")
    }

    /// A question that is asked without a connection would only wait in the client's queue.
    async fn wait_for_connection(&self) -> bool {
        let deadline = Instant::now() + RECONNECT_WAIT;
        while !self.connection.is_connected() {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(RECONNECT_LOOK).await;
        }
        true
    }

    /// CONSUMER.INFO.
    pub(in crate::nats) async fn ask(&self) -> Result<ConsumerInfo, ApiError> {
        let operation = format!("CONSUMER.INFO.{}.{}", self.names.stream, self.names.consumer);
        self.connection.api.call(&operation, &serde_json::Value::Null).await
    }

    fn lose(&self, over: u8, detail: &str) -> Standing {
        warn!(
            stream = self.names.stream,
            durable = self.names.consumer,
            detail,
            "the durable is not the one we were bound to"
        );
        self.over.store(over, Ordering::Release);
        if over == OVER_SET_BACK { Standing::SetBack } else { Standing::Gone }
    }
}
