//! What the stream keeps.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::envelope::{Headers, Identity};

/// How long a stream keeps a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Until its limits are reached.
    Limits,
    /// Until it is acknowledged.
    WorkQueue,
}

/// A stream's configuration.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Its name.
    pub name: String,
    /// How long it keeps messages.
    pub retention: Retention,
    /// Messages it keeps; the oldest goes first.
    pub max_messages: Option<usize>,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self { name: "SRC".into(), retention: Retention::Limits, max_messages: None }
    }
}

#[derive(Clone, Debug)]
pub(super) struct StoredMessage {
    pub(super) subject: String,
    pub(super) headers: Headers,
    pub(super) payload: Bytes,
    pub(super) stored_at: Timestamp,
}

impl StoredMessage {
    /// The bytes a delivery of it weighs, as [`Envelope::weight`](crate::envelope::Envelope::weight) counts them.
    pub(super) fn weight(&self) -> usize {
        self.subject.len() + self.headers.total_bytes() + self.payload.len()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) config: StreamConfig,
    messages: BTreeMap<u64, StoredMessage>,
    last_sequence: u64,
}

impl Stream {
    pub(super) const fn new(config: StreamConfig) -> Self {
        Self { config, messages: BTreeMap::new(), last_sequence: 0 }
    }

    /// Stores a message; also gives those that the limits pushed out.
    pub(super) fn store(&mut self, message: StoredMessage) -> (Identity, Vec<Identity>) {
        self.last_sequence += 1;
        let identity = Identity { sequence: self.last_sequence, stored_at: message.stored_at };
        self.messages.insert(identity.sequence, message);
        let mut removed = Vec::new();
        while self.config.max_messages.is_some_and(|most| self.messages.len() > most) {
            let Some((sequence, oldest)) = self.messages.pop_first() else { break };
            removed.push(Identity { sequence, stored_at: oldest.stored_at });
        }
        (identity, removed)
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&StoredMessage> {
        self.messages.get(&sequence)
    }

    /// The first sequence after this one that is still kept.
    pub(super) fn next_after(&self, sequence: u64) -> Option<u64> {
        self.messages.range(sequence + 1..).next().map(|(&next, _)| next)
    }

    /// How many messages after this sequence are still kept.
    pub(super) fn count_after(&self, sequence: u64) -> u64 {
        let kept = self.messages.len() as u64;
        let first = self.messages.first_key_value().map_or(0, |(&first, _)| first);
        if self.last_sequence + 1 == first + kept {
            // No gap, the common case: counting a range would make every delivery linear.
            (self.last_sequence - sequence.min(self.last_sequence)).min(kept)
        } else {
            self.messages.range(sequence + 1..).count() as u64
        }
    }

    pub(super) fn remove(&mut self, sequence: u64) -> bool {
        self.messages.remove(&sequence).is_some()
    }

    /// Removes every message; sequences go on.
    pub(super) fn purge(&mut self) -> Vec<Identity> {
        let messages = std::mem::take(&mut self.messages);
        messages
            .into_iter()
            .map(|(sequence, message)| Identity { sequence, stored_at: message.stored_at })
            .collect()
    }

    pub(super) fn identities(&self) -> impl Iterator<Item = Identity> {
        self.messages.iter().map(|(&sequence, message)| Identity { sequence, stored_at: message.stored_at })
    }
}
