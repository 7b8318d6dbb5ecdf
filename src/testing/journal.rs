//! What came about in a test, in order: the only thing the invariants read.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::delivery::SettlementKind;
use crate::envelope::{Identity, Incarnation};
use crate::reason::ReasonCode;

/// One thing that came about.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The stream stored a message.
    Stored {
        /// The message.
        identity: Identity,
    },
    /// The stream lost a message by the operator's or its own doing: purge, limits, roll back.
    Removed {
        /// The message.
        identity: Identity,
    },
    /// The server sent a delivery.
    Delivered {
        /// The message.
        identity: Identity,
        /// The reply subject, which names the delivery.
        reply: Bytes,
        /// The consumer's life.
        incarnation: Incarnation,
        /// How often the message was delivered, this one included.
        count: u64,
        /// Which daemon it was sent to.
        daemon: u32,
    },
    /// A daemon sent a settlement, whether or not it arrived.
    Settled {
        /// The message.
        identity: Identity,
        /// The reply subject of the delivery.
        reply: Bytes,
        /// The consumer's life.
        incarnation: Incarnation,
        /// What was said.
        kind: SettlementKind,
        /// Who said it.
        daemon: u32,
    },
    /// The server spent the last delivery of a message (`max_deliver`).
    Exhausted {
        /// The message.
        identity: Identity,
        /// Deliveries.
        count: u64,
    },
    /// A sink answered a write.
    Wrote {
        /// The stream sequences of its records, in order.
        sequences: Vec<u64>,
        /// How many of them the sink reported as durable.
        committed: usize,
    },
    /// A sink stored a record.
    Committed {
        /// The message.
        identity: Identity,
    },
    /// The dead-letter stream stored a dead letter.
    DeadLettered {
        /// The message.
        identity: Identity,
        /// Its reason code.
        reason: ReasonCode,
    },
    /// A daemon was started.
    Started {
        /// Which.
        daemon: u32,
        /// How many deliveries it may have in hand, its parked rejections included.
        in_hand_limit: usize,
    },
    /// A daemon is no more; what it had in hand is nobody's.
    Ended {
        /// Which.
        daemon: u32,
    },
    /// How many deliveries the server counts as being with a daemon.
    InHand {
        /// Which.
        daemon: u32,
        /// Unsettled deliveries whose ack wait runs.
        deliveries: usize,
    },
    /// Whether a daemon says that it is ready.
    Readiness {
        /// Which.
        daemon: u32,
        /// What it says.
        ready: bool,
        /// Messages the durable has still to deliver or to see settled.
        backlog: u64,
    },
    /// Something for the reader of the trace.
    Note(String),
}

/// One step and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Since the journal was opened.
    pub at: Duration,
    /// What came about.
    pub step: Step,
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:>12.6} ", self.at.as_secs_f64())?;
        match &self.step {
            Step::Stored { identity } => write!(formatter, "stored        {}", identity.sequence),
            Step::Removed { identity } => write!(formatter, "removed       {}", identity.sequence),
            Step::Delivered { identity, count, daemon, .. } => {
                write!(formatter, "delivered     {} ×{count} to daemon {daemon}", identity.sequence)
            }
            Step::Settled { identity, kind, daemon, .. } => {
                write!(formatter, "settled       {} {kind:?} by daemon {daemon}", identity.sequence)
            }
            Step::Exhausted { identity, count } => {
                write!(formatter, "exhausted     {} ×{count}", identity.sequence)
            }
            Step::Wrote { sequences, committed } => {
                write!(formatter, "wrote         {committed} of {} {sequences:?}", sequences.len())
            }
            Step::Committed { identity } => write!(formatter, "committed     {}", identity.sequence),
            Step::DeadLettered { identity, reason } => {
                write!(formatter, "dead letter   {} {reason}", identity.sequence)
            }
            Step::Started { daemon, in_hand_limit } => {
                write!(formatter, "started       daemon {daemon}, at most {in_hand_limit} in hand")
            }
            Step::Ended { daemon } => write!(formatter, "ended         daemon {daemon}"),
            Step::InHand { daemon, deliveries } => {
                write!(formatter, "in hand       {deliveries} with daemon {daemon}")
            }
            Step::Readiness { daemon, ready, backlog } => {
                write!(formatter, "readiness     daemon {daemon}: {ready}, backlog {backlog}")
            }
            Step::Note(text) => write!(formatter, "note          {text}"),
        }
    }
}

/// The steps of one test, shared by everything that takes part.
#[derive(Clone, Debug)]
pub struct Journal {
    start: Instant,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Journal {
    /// An empty journal; its time starts now.
    #[must_use]
    pub fn open() -> Self {
        Self { start: Instant::now(), entries: Arc::new(Mutex::new(Vec::new())) }
    }

    /// Writes down what came about now.
    pub fn write(&self, step: Step) {
        self.write_at(Instant::now(), step);
    }

    /// Writes down what came about at `instant`.
    pub fn write_at(&self, instant: Instant, step: Step) {
        let at = instant.saturating_duration_since(self.start);
        self.lock().push(Entry { at, step });
    }

    /// Writes a line for the reader of the trace.
    pub fn note(&self, text: impl Into<String>) {
        self.write(Step::Note(text.into()));
    }

    /// Everything so far.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// Looks at everything so far without a copy.
    pub fn read<T>(&self, look: impl FnOnce(&[Entry]) -> T) -> T {
        look(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
