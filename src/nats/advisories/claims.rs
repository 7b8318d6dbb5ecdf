//! What the loop has taken over from the advisory stream, and what it has settled. The acker tells, the reader asks.
//!
//! A message that is handed to the loop carries a reply subject whose bytes belong to a claim. The claim ends with the last
//! share of these bytes: then nobody has the message in hand any more. Whether it was settled by then is what the acker
//! says. So the reader knows when an advisory may be acknowledged, without a way into the loop.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::delivery::{Settled, Settlement, SettlementKind};
use crate::envelope::Identity;
use crate::nats::durable::guard::Guard;

/// Sequences that are remembered as settled by this process: each slot keeps the last one that fell into it.
const SLOTS: usize = 1 << 16;

/// Shared by the acker of a durable and the reader of its advisories.
pub(in crate::nats) struct Claims {
    /// Empty when no advisories are read.
    settled: Box<[AtomicU64]>,
    waiting: Mutex<HashMap<Identity, Vec<Arc<Ticket>>>>,
    count: AtomicUsize,
    changed: Arc<Notify>,
}

/// One advisory whose message was handed over.
#[derive(Debug)]
pub(in crate::nats) struct Ticket {
    /// The advisory's own reply subject.
    pub(in crate::nats) reply: Bytes,
    /// Of the advisory stream's durable.
    pub(in crate::nats) guard: Arc<Guard>,
    is_held: AtomicBool,
    is_settled: AtomicBool,
}

/// What settlements are about, kept while they are sent.
#[derive(Debug, Default)]
pub(in crate::nats) struct Noted {
    identities: Vec<Identity>,
    /// Shares of the reply subjects: a claim must not end before its settlement is known.
    _replies: Vec<Bytes>,
}

/// The bytes of a reply subject; their last share ends the claim.
struct Claim {
    reply: Bytes,
    ticket: Arc<Ticket>,
    changed: Arc<Notify>,
}

impl Claims {
    /// Where no advisories are read.
    pub(in crate::nats) fn none() -> Self {
        Self {
            settled: Box::default(),
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            changed: Arc::default(),
        }
    }

    /// Where they are.
    pub(in crate::nats) fn open() -> Self {
        Self { settled: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), ..Self::none() }
    }

    /// Something ended: look at your tickets.
    pub(in crate::nats) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Claims a message for an advisory; gives the reply subject that it is handed over with. An empty one settles nothing.
    pub(in crate::nats) fn claim(&self, identity: Identity, reply: Bytes, ticket: Arc<Ticket>) -> Bytes {
        let mut waiting = self.lock();
        waiting.entry(identity).or_default().push(Arc::clone(&ticket));
        self.count(&waiting);
        drop(waiting);
        Bytes::from_owner(Claim { reply, ticket, changed: Arc::clone(&self.changed) })
    }

    /// Forgets a ticket that is not waited for any more.
    pub(in crate::nats) fn forget(&self, identity: Identity, ticket: &Arc<Ticket>) {
        let mut waiting = self.lock();
        if let Some(tickets) = waiting.get_mut(&identity) {
            tickets.retain(|own| !Arc::ptr_eq(own, ticket));
            if tickets.is_empty() {
                waiting.remove(&identity);
            }
        }
        self.count(&waiting);
    }

    /// Whether this process has settled a message of this sequence lately, for the durable that is bound.
    pub(in crate::nats) fn has_settled(&self, sequence: u64) -> bool {
        self.slot(sequence).is_some_and(|slot| slot.load(Ordering::Acquire) == sequence)
    }

    /// Notes what is about to be sent.
    pub(in crate::nats) fn note(&self, settlements: &[Settlement]) -> Noted {
        if self.settled.is_empty() {
            return Noted::default();
        }
        let done = |settlement: &&Settlement| !matches!(settlement.kind(), SettlementKind::Nak { .. });
        let identities = settlements.iter().filter(done).map(Settlement::identity).collect();
        let is_waiting = self.count.load(Ordering::Acquire) > 0;
        let replies = settlements.iter().filter(|_| is_waiting).map(|own| own.reply().clone()).collect();
        Noted { identities, _replies: replies }
    }

    /// The tickets that wait for what is about to be sent.
    pub(in crate::nats) fn tickets(&self, noted: &Noted) -> Vec<(Identity, Arc<Ticket>)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let waiting = self.lock();
        let own = noted.identities.iter().filter_map(|identity| Some((identity, waiting.get(identity)?)));
        own.flat_map(|(identity, tickets)| tickets.iter().map(|ticket| (*identity, Arc::clone(ticket))))
            .collect()
    }

    /// Takes note of how it ended.
    pub(in crate::nats) fn sent(&self, mut noted: Noted, settled: &Settled) {
        match settled {
            Settled::Done => {}
            Settled::Gone => return,
            Settled::Unconfirmed(rest) => {
                let rest: HashSet<Identity> = rest.iter().map(Settlement::identity).collect();
                noted.identities.retain(|identity| !rest.contains(identity));
            }
        }
        for identity in &noted.identities {
            if let Some(slot) = self.slot(identity.sequence) {
                slot.store(identity.sequence, Ordering::Release);
            }
        }
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut waiting = self.lock();
        let tickets: Vec<_> =
            noted.identities.iter().filter_map(|identity| waiting.remove(identity)).flatten().collect();
        self.count(&waiting);
        drop(waiting);
        for ticket in &tickets {
            ticket.is_settled.store(true, Ordering::Release);
        }
        if !tickets.is_empty() {
            self.changed.notify_one();
        }
    }

    fn count(&self, waiting: &HashMap<Identity, Vec<Arc<Ticket>>>) {
        self.count.store(waiting.values().map(Vec::len).sum(), Ordering::Release);
    }

    fn slot(&self, sequence: u64) -> Option<&AtomicU64> {
        let size = u64::try_from(self.settled.len()).ok().filter(|size| *size > 0)?;
        self.settled.get(usize::try_from(sequence % size).ok()?)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, Vec<Arc<Ticket>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(in crate::nats) fn new(reply: Bytes, guard: Arc<Guard>) -> Arc<Self> {
        Arc::new(Self { reply, guard, is_held: AtomicBool::new(true), is_settled: AtomicBool::new(false) })
    }

    /// The message is settled; the acker has acknowledged the advisory.
    pub(in crate::nats) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    /// Somebody still has the message.
    pub(in crate::nats) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Acquire)
    }
}

impl AsRef<[u8]> for Claim {
    fn as_ref(&self) -> &[u8] {
        &self.reply
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.ticket.is_held.store(false, Ordering::Release);
        self.changed.notify_one();
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Claims")
            .field("waiting", &self.count.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
