//! What a message is: the names and numbers that tell one message from another.

use std::fmt;
use std::sync::Arc;

use crate::clock::Timestamp;

/// The names of the stream and the durable consumer of this process; one pair for all its deliveries.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceNames {
    /// The stream's name.
    pub stream: String,
    /// The durable consumer's name.
    pub consumer: String,
}

impl SourceNames {
    /// Both names, ready to be shared by every envelope.
    #[must_use]
    pub fn shared(stream: impl Into<String>, consumer: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { stream: stream.into(), consumer: consumer.into() })
    }
}

/// What a message *is* within its stream: a sequence alone is not enough, since streams get recreated, restored and
/// rolled back, and then an old sequence names a new message (design §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The stream sequence.
    pub sequence: u64,
    /// When the stream stored the message.
    pub stored_at: Timestamp,
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.sequence, self.stored_at.0)
    }
}

/// Which life of the durable consumer a delivery belongs to: the `created` time the server states for it.
///
/// An acknowledgement of an old incarnation would settle a new message of the same sequence (design §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub i64);
