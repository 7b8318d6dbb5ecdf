//! The ports: what the states of a delivery call, and what the runner asks of the outside world (design §4).

use std::fmt;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::time::Duration;

use super::batch::{WriteBatch, WriteReport};
use super::received::Received;
use super::rejected::Rejection;
use super::settlement::{Lease, Settlement};
use super::turn::Turn;
use crate::clock::Timestamp;
use crate::disposition::Fault;
use crate::envelope::{Envelope, Identity, Incarnation, SharedMetadata};

/// A boxed future: one allocation per batch is nothing.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How much more may come into our hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Messages.
    pub messages: usize,
    /// Bytes of body, headers and subject.
    pub bytes: usize,
}

/// Where deliveries come from.
pub trait Source: Send {
    /// Waits for deliveries and gives what is there. `budget` is what is free beyond everything in hand; what open pulls may
    /// still bring counts against it inside. With an empty budget no pull goes out, yet what open pulls still bring is
    /// received. An empty answer means "nothing now", also that the last open pull has just ended.
    ///
    /// Cancel-safe: a dropped future loses no delivery.
    fn pull(&mut self, budget: Budget) -> BoxFuture<'_, Result<Vec<Received>, SourceError>>;

    /// How many pulls are open: 0 means that the server can send us nothing more.
    fn open_pulls(&self) -> usize;
}

/// Why nothing came.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// It may work next time; the source itself keeps the floor of its backoff.
    #[error("pulling does not work now: {detail}")]
    Again {
        /// What the server said.
        detail: String,
    },
    /// The stream or the durable is gone, or is another one of the same name.
    #[error("the stream or its durable is gone: {detail}")]
    Gone {
        /// What was found.
        detail: String,
    },
    /// The connection is dead and will not come back by itself.
    #[error("the connection is dead: {detail}")]
    Disconnected {
        /// What was seen.
        detail: String,
    },
    /// The server refuses what the configuration asks for.
    #[error("the server refuses: {detail}")]
    Refused {
        /// What it refuses, and what to change.
        detail: String,
    },
}

/// What the server says about the durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerFacts {
    /// Its life.
    pub incarnation: Incarnation,
    /// Pulls waiting on it, ours included.
    pub waiting_pulls: usize,
    /// Deliveries not settled.
    pub ack_pending: usize,
    /// Messages not delivered yet.
    pub pending: u64,
    /// Deliveries not settled that were delivered more than once.
    pub redelivered: usize,
    /// Everything up to this stream sequence is settled.
    pub ack_floor: u64,
    /// The highest stream sequence delivered.
    pub delivered: u64,
}

/// Tells about the durable.
pub trait ConsumerWatch: Send + Sync {
    /// Asks the server (CONSUMER.INFO), with a deadline.
    fn facts(&self) -> BoxFuture<'_, Result<ConsumerFacts, SourceError>>;
}

/// The checks before the sink: pure and synchronous, no I/O, no clock.
pub trait Gate: Send + Sync {
    /// Judges one envelope.
    fn judge(&self, envelope: &Envelope) -> Judgement;

    /// Whether a judgement takes so long (a public-key signature) that batches of them belong on the blocking pool.
    fn is_heavy(&self) -> bool {
        false
    }
}

/// A gate's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Yes or no.
    pub verdict: Verdict,
    /// What was read of the message, as far as it could be read.
    pub metadata: SharedMetadata,
}

/// Yes or no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every check passed.
    Permitted,
    /// Every check that can reject passed; the policy, which only warns (`pre_sink_policy.mode`), would have said no.
    PermittedWithWarning(Box<Rejection>),
    /// One said no.
    Rejected(Rejection),
}

impl From<Verdict> for Judgement {
    /// Of a message without metadata.
    fn from(verdict: Verdict) -> Self {
        Self { verdict, metadata: SharedMetadata::NONE }
    }
}

/// What a sink can take in one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkLimits {
    /// Records.
    pub max_records: usize,
    /// Bytes of envelopes.
    pub max_bytes: usize,
}

/// What a sink does with a message that is delivered twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// One record.
    EffectivelyOnce,
    /// One record or more.
    AtLeastOnce,
}

/// Where records become durable.
pub trait Sink: Send + Sync {
    /// Its kind, for logs and dead letters.
    fn name(&self) -> &'static str;

    /// What one write may hold.
    fn limits(&self) -> SinkLimits;

    /// What a second delivery becomes.
    fn guarantee(&self) -> Guarantee;

    /// Encodes the records, awaits `turn`, makes them durable, and answers record by record. A slot left untouched is
    /// transient. *Durable* = a power cut right after the return loses nothing. May be called for several batches at once,
    /// and may be dropped before it ends: then the outcome is unknown and the records come again.
    fn write<'a>(&'a self, batch: &'a WriteBatch, turn: Turn) -> BoxFuture<'a, WriteReport>;

    /// Tries whether what failed last would work now, without storing a record.
    ///
    /// # Errors
    /// The fault that is still there.
    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>>;

    /// Whether the record of this message is durable already, as far as the sink remembers; `false` when it has no memory.
    fn remembers(&self, _identity: Identity) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Learns that everything up to this stream sequence is settled, so what is remembered of it may age out.
    fn note_ack_floor(&self, _sequence: u64) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Finishes what is open. Called once, after the last write; not waited for longer than `deadline`.
    ///
    /// # Errors
    /// What could not be finished; every record that was reported durable stays durable.
    fn close(&self, deadline: Duration) -> BoxFuture<'_, Result<(), Fault>>;
}

/// Publishes dead letters.
pub trait DeadLetterPublisher: Send + Sync {
    /// Publishes one and awaits the stream's confirmation.
    ///
    /// # Errors
    /// See [`DeadLetterError`]; the dead letter may have been stored all the same, and a repeat has the same message id.
    fn publish<'a>(
        &'a self,
        envelope: &'a Envelope,
        rejection: &'a Rejection,
        failed_at: Timestamp,
    ) -> BoxFuture<'a, Result<PublishReceipt, DeadLetterError>>;
}

/// The confirmation of the expected stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishReceipt {
    /// The stream that keeps the dead letter.
    pub stream: String,
    /// Its sequence there.
    pub sequence: NonZeroU64,
    /// The stream had it already.
    pub duplicate: bool,
}

/// Why there is no confirmation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeadLetterError {
    /// `dead_letter.subject` is not set.
    #[error("no dead-letter subject is configured")]
    NotConfigured,
    /// No stream captures the subject, or the server cannot be reached.
    #[error("the dead-letter stream is not available: {0}")]
    Unavailable(String),
    /// The stream said no: full, sealed, wrong stream.
    #[error("the dead-letter stream refuses: {0}")]
    Refused(String),
    /// No answer in time.
    #[error("the dead-letter stream did not confirm in time")]
    Unconfirmed,
    /// The message is a dead letter of this very durable, several times over: letters come back to it.
    #[error(
        "the message is a dead letter of this durable already, {0} deep: dead letters come back to it; stop what feeds them \
         into its stream"
    )]
    ComesBack(u32),
    /// It fits in no permitted form (formats §6, Size).
    #[error("the dead letter does not fit: {0}")]
    TooLarge(String),
}

/// How much of a settlement is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirm {
    /// Nothing: for naks.
    Nothing,
    /// The last one is a request; its answer means that the server has handled them all.
    Last,
    /// Every one is a request.
    Every,
}

/// What became of settlements.
#[derive(Debug)]
#[must_use]
pub enum Settled {
    /// Sent, and confirmed as far as was asked.
    Done,
    /// These are not confirmed; sending them again is harmless.
    Unconfirmed(Vec<Settlement>),
    /// They belong to an earlier life of the durable, or the durable is gone: dropped, nothing was sent.
    Gone,
}

/// Tells the server.
pub trait Acker: Send + Sync {
    /// Sends the settlements in order. A confirmation is awaited for one second at most.
    fn settle(&self, settlements: Vec<Settlement>, confirm: Confirm) -> BoxFuture<'_, Settled>;

    /// Starts the ack wait of these deliveries anew (in progress).
    fn extend(&self, leases: Vec<Lease>) -> BoxFuture<'_, ()>;
}

impl fmt::Debug for dyn Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Source")
    }
}

impl fmt::Debug for dyn Sink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
