//! Messages of a work queue that nobody can read any more, told by arithmetic: without a stream of advisories.
//!
//! What is stored and neither to be delivered nor delivered and unsettled was given up on. Stream and consumer are asked one
//! after the other, so the numbers only count and alarm. They settle a message only where they leave no doubt: nothing was
//! unsettled at two looks, and the message is at or below what the durable has delivered at both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use crate::envelope::Identity;
use crate::nats::advisories::advisory::{Advisory, Kind};
use crate::nats::advisories::desk::Hand;
use crate::nats::advisories::given_up::given_up;
use crate::nats::advisories::setup::Place;
use crate::nats::client::api::ConsumerInfo;
use crate::nats::client::connect::Connection;
use crate::nats::error::ApiError;
use crate::nats::isolation::search::rebuilt_reply;
use crate::preflight::nanoseconds;

/// Messages looked at, and handed over, between two looks at the numbers.
const MOST_AT_ONCE: usize = 256;
/// A message that was handed over is not looked at again for this long.
const PATIENCE: Duration = Duration::from_secs(600);
/// Looks that must agree before it is said.
const LOOKS: usize = 2;

/// Counts them, and hands them over where that is allowed.
#[derive(Debug)]
pub struct ExhaustedWatch {
    pub(in crate::nats) connection: Connection,
    pub(in crate::nats) place: Place,
    pub(in crate::nats) hand: Arc<Hand>,
    /// Subjects that the durable filters; empty = all.
    pub(in crate::nats) filters: Vec<String>,
    pub(in crate::nats) max_deliver: Option<u64>,
    pub(in crate::nats) interval: Duration,
}

#[derive(Debug, Deserialize)]
struct StreamNow {
    state: State,
    /// How many subjects there are, where they come in pages.
    #[serde(default)]
    total: usize,
}

#[derive(Debug, Deserialize)]
struct State {
    #[serde(default)]
    messages: u64,
    #[serde(default)]
    subjects: Option<BTreeMap<String, u64>>,
}

/// One look.
#[derive(Clone, Copy, Debug)]
struct Look {
    count: u64,
    /// Everything up to this sequence was delivered, and nothing is unsettled.
    quiet_up_to: Option<u64>,
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    counts: Vec<u64>,
    said: u64,
    quiet_up_to: Option<u64>,
    handed: BTreeMap<Identity, Instant>,
}

impl ExhaustedWatch {
    /// Looks again and again until it is dropped. Does nothing on streams that are no work queue.
    pub async fn run(self) {
        if !self.hand.is_work_queue {
            return std::future::pending().await;
        }
        let mut seen = Seen::default();
        loop {
            sleep(self.interval).await;
            match self.look().await {
                Ok(Some(look)) => {
                    self.tell(&mut seen, look);
                    if self.hand.remove_exhausted && !self.hand.door.is_closed() {
                        self.sweep(&mut seen, look).await;
                    }
                    seen.quiet_up_to = look.quiet_up_to;
                }
                // Not to be counted: too many subjects.
                Ok(None) => seen.quiet_up_to = None,
                Err(error) => {
                    debug!(%error, "exhausted messages cannot be counted");
                    seen.quiet_up_to = None;
                }
            }
        }
    }

    /// The stream between two looks at the durable: what was published or settled in between can make either of them wrong,
    /// and the smaller number is taken.
    async fn look(&self) -> Result<Option<Look>, ApiError> {
        let before = self.hand.guard.ask().await?;
        let Some(stored) = self.stored().await? else { return Ok(None) };
        let after = self.hand.guard.ask().await?;
        let is_ours = [&before, &after]
            .iter()
            .all(|info| nanoseconds(&info.created) == self.hand.guard.incarnation().0);
        let is_quiet = is_ours && before.num_ack_pending == 0 && after.num_ack_pending == 0;
        Ok(Some(Look {
            count: stored.saturating_sub(before.open().max(after.open())),
            quiet_up_to: is_quiet.then_some(before.delivered.stream_seq),
        }))
    }

    /// How many messages that the durable filters are stored.
    async fn stored(&self) -> Result<Option<u64>, ApiError> {
        let operation = format!("STREAM.INFO.{}", self.hand.names.stream);
        if self.filters.is_empty() {
            let now: StreamNow = self.connection.api.call(&operation, &Value::Null).await?;
            return Ok(Some(now.state.messages));
        }
        let mut stored = 0u64;
        for filter in &self.filters {
            let body = json!({ "subjects_filter": filter });
            let now: StreamNow = self.connection.api.call(&operation, &body).await?;
            let subjects = now.state.subjects.unwrap_or_default();
            if now.total > subjects.len() {
                return Ok(None);
            }
            stored = subjects.values().fold(stored, |sum, count| sum.saturating_add(*count));
        }
        Ok(Some(stored))
    }

    fn tell(&self, seen: &mut Seen, look: Look) {
        if seen.counts.len() == LOOKS {
            seen.counts.remove(0);
        }
        seen.counts.push(look.count);
        let count = seen.counts.iter().copied().min().unwrap_or_default();
        if seen.counts.len() < LOOKS {
            return;
        }
        self.hand.observer.exhausted(count);
        if count != seen.said {
            seen.said = count;
            let stream = self.hand.names.stream.as_str();
            if count > 0 {
                warn!(
                    stream,
                    count,
                    "the work queue keeps messages that the durable delivers no more: they count against the stream's limits \
                     until their dead letters are written"
                );
            } else {
                info!(stream, "the work queue keeps no message that the durable delivers no more");
            }
        }
    }

    /// Hands over what was given up on for sure.
    async fn sweep(&self, seen: &mut Seen, look: Look) {
        let (Some(before), Some(now)) = (seen.quiet_up_to, look.quiet_up_to) else { return };
        if look.count == 0 || !self.advisories_are_done().await {
            return;
        }
        seen.handed.retain(|_, at| at.elapsed() < PATIENCE);
        let everything = [">".to_owned()];
        let filters = if self.filters.is_empty() { &everything[..] } else { &self.filters };
        for filter in filters {
            if let Err(error) = self.sweep_subjects(seen, filter, before.min(now)).await {
                debug!(%error, "exhausted messages cannot be read");
            }
        }
    }

    /// Whether no advisory waits to be read, by any daemon: one that comes after its message was swept looks like a loss.
    async fn advisories_are_done(&self) -> bool {
        let Ok(stream) = self.place.find(&self.connection).await else { return false };
        let Some(stream) = stream else { return true };
        let operation = format!("CONSUMER.INFO.{stream}.{}", self.place.durable());
        match self.connection.api.call::<ConsumerInfo>(&operation, &Value::Null).await {
            Ok(info) => info.open() == 0,
            Err(error) => matches!(error, ApiError::StreamNotFound),
        }
    }

    async fn sweep_subjects(&self, seen: &mut Seen, filter: &str, up_to: u64) -> Result<(), ApiError> {
        let mut from = 1;
        for _ in 0..MOST_AT_ONCE {
            let message = match self.hand.reader.next(from, filter).await {
                Ok(message) if message.sequence <= up_to => message,
                Ok(_) | Err(ApiError::MessageNotFound) => return Ok(()),
                Err(error) => return Err(error),
            };
            from = message.sequence.saturating_add(1);
            let identity = Identity { sequence: message.sequence, stored_at: message.stored_at };
            if self.hand.claims.has_settled(message.sequence) || seen.handed.contains_key(&identity) {
                continue;
            }
            let advisory = Advisory {
                kind: Kind::Stuck,
                stream_sequence: message.sequence,
                deliveries: self.max_deliver.unwrap_or(1),
                at: message.stored_at,
            };
            let reply = rebuilt_reply(&self.hand.names, message.sequence);
            let incarnation = self.hand.guard.incarnation();
            let received = given_up(&advisory, message, &self.hand.names, incarnation, reply);
            if self.hand.door.send(received).await.is_err() {
                return Ok(());
            }
            seen.handed.insert(identity, Instant::now());
        }
        Ok(())
    }
}
