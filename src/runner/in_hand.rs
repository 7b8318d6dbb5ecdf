//! Everything this process has in hand: one entry for every message from its arrival until it is settled or given back.
//!
//! The map does three jobs that need the same facts: the permits (how much is in hand), the leases (whose ack wait must be
//! extended), and the meeting of two copies of one message. Looking up and noting a second copy is one critical section,
//! since a copy that slips between them would be written twice. Every lock is short and never held across an await.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::delivery::{Budget, Lease, Received};
use crate::envelope::Identity;

/// How much may be in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Messages and bytes of batches.
    pub(super) batches: Budget,
    /// Messages and bytes that may wait for their dead letter outside of these.
    pub(super) parked: Budget,
}

/// How much is in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) batches: Budget,
    pub(super) parked: Budget,
}

#[derive(Debug)]
struct Entry {
    lease: Lease,
    since: Instant,
    extended: Instant,
    weight: usize,
    parked: bool,
    copy: Option<Received>,
}

/// What an arrival is.
#[expect(
    clippy::large_enum_variant,
    reason = "made once a message and taken apart at once; a box would cost more"
)]
#[derive(Debug)]
pub(super) enum Arrival {
    /// The only copy: go on with it.
    First(Received),
    /// Another copy is in hand; this one waits for its outcome. `replaced` = an earlier waiting copy was dropped for it.
    Copy { replaced: bool },
}

#[derive(Debug, Default)]
struct Contents {
    entries: HashMap<Identity, Entry>,
    usage: Usage,
}

#[derive(Debug)]
pub(super) struct InHand {
    contents: Mutex<Contents>,
    bounds: Bounds,
}

impl InHand {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { contents: Mutex::default(), bounds }
    }

    /// Takes a delivery in.
    pub(super) fn arrive(&self, received: Received, now: Instant) -> Arrival {
        let weight = received.envelope().weight();
        let mut contents = self.lock();
        let Contents { entries, usage } = &mut *contents;
        match entries.entry(received.identity()) {
            MapEntry::Vacant(vacant) => {
                vacant.insert(Entry {
                    lease: received.lease(),
                    since: now,
                    extended: now,
                    weight,
                    parked: false,
                    copy: None,
                });
                usage.batches.messages += 1;
                usage.batches.bytes += weight;
                Arrival::First(received)
            }
            MapEntry::Occupied(mut occupied) => {
                let entry = occupied.get_mut();
                // The newer delivery is the one the server waits for.
                entry.lease = received.lease();
                entry.extended = now;
                let replaced = entry.copy.replace(received).is_some();
                Arrival::Copy { replaced }
            }
        }
    }

    /// Whether a message with this stream sequence is in hand, whenever it was stored. Looks at every one.
    pub(super) fn holds_sequence(&self, sequence: u64) -> bool {
        self.lock().entries.keys().any(|identity| identity.sequence == sequence)
    }

    /// Lets messages go and gives back the copies that were waiting for their outcome.
    pub(super) fn leave(&self, identities: impl IntoIterator<Item = Identity>) -> Vec<Received> {
        let mut contents = self.lock();
        let mut copies = Vec::new();
        for identity in identities {
            if let Some(entry) = contents.entries.remove(&identity) {
                let share = contents.usage.share_of(&entry);
                share.messages = share.messages.saturating_sub(1);
                share.bytes = share.bytes.saturating_sub(entry.weight);
                copies.extend(entry.copy);
            }
        }
        copies
    }

    /// Moves a rejected message out of the batch permits, if the bound of parked ones allows.
    pub(super) fn park(&self, identity: Identity) -> bool {
        let mut contents = self.lock();
        let Contents { entries, usage } = &mut *contents;
        let Some(entry) = entries.get_mut(&identity) else { return false };
        let fits = usage.parked.messages < self.bounds.parked.messages
            && usage.parked.bytes.saturating_add(entry.weight) <= self.bounds.parked.bytes;
        if fits && !entry.parked {
            entry.parked = true;
            usage.batches.messages = usage.batches.messages.saturating_sub(1);
            usage.batches.bytes = usage.batches.bytes.saturating_sub(entry.weight);
            usage.parked.messages += 1;
            usage.parked.bytes += entry.weight;
        }
        entry.parked
    }

    /// Whether no further message can be parked.
    pub(super) fn is_parking_full(&self) -> bool {
        let (usage, bounds) = (self.usage().parked, self.bounds.parked);
        usage.messages >= bounds.messages || usage.bytes >= bounds.bytes
    }

    /// What is free of the batch permits.
    pub(super) fn free(&self) -> Budget {
        let usage = self.usage().batches;
        Budget {
            messages: self.bounds.batches.messages.saturating_sub(usage.messages),
            bytes: self.bounds.batches.bytes.saturating_sub(usage.bytes),
        }
    }

    /// How much is in hand.
    pub(super) fn usage(&self) -> Usage {
        self.lock().usage
    }

    /// The leases that were not extended for `period`, of messages that are not longer in hand than `cap`; they count as
    /// extended from now on.
    pub(super) fn due_leases(&self, now: Instant, period: Duration, cap: Duration) -> Vec<Lease> {
        let mut due = Vec::new();
        for entry in self.lock().entries.values_mut() {
            let waits_for_dead_letter = entry.parked;
            if now.duration_since(entry.extended) >= period
                && (waits_for_dead_letter || now.duration_since(entry.since) < cap)
            {
                entry.extended = now;
                due.push(entry.lease.clone());
            }
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage {
    const fn share_of(&mut self, entry: &Entry) -> &mut Budget {
        if entry.parked { &mut self.parked } else { &mut self.batches }
    }
}
