//! The dead-letter stream.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

use super::{ConnectionId, ModelServer, State};
use crate::clock::Timestamp;
use crate::delivery::{BoxFuture, DeadLetterError, DeadLetterPublisher, PublishReceipt, Rejection};
use crate::envelope::{Envelope, Identity};
use crate::reason::ReasonCode;
use crate::testing::journal::Step;

/// Deadline of one confirmation.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the stream remembers message ids.
const DEDUP_WINDOW: Duration = Duration::from_secs(120);

/// What the dead-letter stream does with a publish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadLetterConduct {
    /// Stores and confirms.
    #[default]
    Works,
    /// There is no such stream.
    Missing,
    /// It is full and refuses what is new.
    Full,
    /// It neither stores nor answers.
    Silent,
    /// It stores, and its answer is lost.
    AnswerLost,
}

/// A stored dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The message.
    pub identity: Identity,
    /// Its reason code.
    pub reason: ReasonCode,
    /// How often the message had been delivered.
    pub delivery_count: u64,
}

#[derive(Debug, Default)]
pub(super) struct DeadLetterStream {
    pub(super) conduct: DeadLetterConduct,
    pub(super) letters: Vec<DeadLetter>,
    ids: HashMap<Identity, (Instant, NonZeroU64)>,
}

impl DeadLetterStream {
    /// Stores one, unless its id is known; gives its sequence and whether it was known.
    fn store(&mut self, letter: DeadLetter, now: Instant) -> (NonZeroU64, bool) {
        if let Some((at, sequence)) = self.ids.get(&letter.identity)
            && now < *at + DEDUP_WINDOW
        {
            return (*sequence, true);
        }
        let sequence = NonZeroU64::MIN.saturating_add(self.letters.len() as u64);
        self.ids.insert(letter.identity, (now, sequence));
        self.letters.push(letter);
        (sequence, false)
    }
}

#[derive(Debug)]
pub(super) struct ModelPublisher {
    server: ModelServer,
    id: ConnectionId,
}

impl ModelPublisher {
    pub(super) const fn new(server: ModelServer, id: ConnectionId) -> Self {
        Self { server, id }
    }

    async fn confirmed(
        &self,
        envelope: &Envelope,
        rejection: &Rejection,
    ) -> Result<PublishReceipt, DeadLetterError> {
        if !self.server.carries(self.id, PUBLISH_TIMEOUT).await {
            return Err(DeadLetterError::Unconfirmed);
        }
        let letter = DeadLetter {
            identity: envelope.identity(),
            reason: rejection.reason,
            delivery_count: envelope.delivery_count,
        };
        let (conduct, latency) =
            self.server.look(|state, _| (state.dead_letters.conduct, state.network.settlement_latency));
        match conduct {
            DeadLetterConduct::Works => {
                let cuts = self.server.cuts(self.id);
                let (sequence, duplicate) =
                    self.server.with(|state, now| state.store_dead_letter(letter, now));
                tokio::time::sleep(latency * 2).await;
                if self.server.cuts(self.id) != cuts {
                    return Err(DeadLetterError::Unconfirmed);
                }
                Ok(PublishReceipt { stream: "DLQ".into(), sequence, duplicate })
            }
            DeadLetterConduct::Missing => Err(DeadLetterError::Unavailable("no responders".into())),
            DeadLetterConduct::Full => Err(DeadLetterError::Refused("maximum messages exceeded".into())),
            DeadLetterConduct::Silent => {
                tokio::time::sleep(PUBLISH_TIMEOUT).await;
                Err(DeadLetterError::Unconfirmed)
            }
            DeadLetterConduct::AnswerLost => {
                self.server.with(|state, now| state.store_dead_letter(letter, now));
                tokio::time::sleep(PUBLISH_TIMEOUT).await;
                Err(DeadLetterError::Unconfirmed)
            }
        }
    }
}

impl DeadLetterPublisher for ModelPublisher {
    fn publish<'a>(
        &'a self,
        envelope: &'a Envelope,
        rejection: &'a Rejection,
        _failed_at: Timestamp,
    ) -> BoxFuture<'a, Result<PublishReceipt, DeadLetterError>> {
        Box::pin(self.confirmed(envelope, rejection))
    }
}

impl State {
    fn store_dead_letter(&mut self, letter: DeadLetter, now: Instant) -> (NonZeroU64, bool) {
        let step = Step::DeadLettered { identity: letter.identity, reason: letter.reason };
        let (sequence, duplicate) = self.dead_letters.store(letter, now);
        if !duplicate {
            self.journal.write_at(now, step);
        }
        (sequence, duplicate)
    }
}
