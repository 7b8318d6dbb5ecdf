//! What the server remembers of the durable: who has what, until when, and what comes next.
//!
//! The rules are those of the real server's pull consumer with explicit ack; `tests/simulation/real_server.rs` runs the
//! same schedule on both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::ConnectionId;
use super::stream::Stream;
use crate::delivery::ConsumerFacts;
use crate::envelope::Incarnation;

/// A durable's configuration.
#[derive(Clone, Debug)]
pub struct DurableConfig {
    /// Its name.
    pub name: String,
    /// How long a delivery may stay without an answer.
    pub ack_wait: Duration,
    /// How often one message is delivered; `None` = without limit.
    pub max_deliver: Option<u64>,
    /// Unsettled deliveries above which nothing new is sent.
    pub max_ack_pending: usize,
    /// A restarted server forgets what was settled and delivered in its last 20 ms (design §7).
    pub forgetful: bool,
}

impl Default for DurableConfig {
    fn default() -> Self {
        Self {
            name: "w".into(),
            ack_wait: Duration::from_secs(30),
            max_deliver: None,
            max_ack_pending: 1000,
            forgetful: false,
        }
    }
}

/// How far behind its memory the server's disk may be.
const FLUSH_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
struct Pending {
    /// When it comes back; `None` while it waits in the redelivery queue.
    deadline: Option<Instant>,
    owner: ConnectionId,
}

#[derive(Clone, Debug, Default)]
struct Memory {
    delivered: u64,
    consumer_sequence: u64,
    pending: BTreeMap<u64, Pending>,
    deadlines: BTreeSet<(Instant, u64)>,
    redeliver: VecDeque<u64>,
    counts: BTreeMap<u64, u64>,
}

/// One open pull.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    pub(super) connection: ConnectionId,
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) expires_at: Instant,
}

/// What a waiting pull gets next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) sequence: u64,
    pub(super) count: u64,
    pub(super) consumer_sequence: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Durable {
    pub(super) config: DurableConfig,
    pub(super) incarnation: Incarnation,
    pub(super) pulls: VecDeque<Pull>,
    memory: Memory,
    disk: Memory,
    dirty_since: Option<Instant>,
}

impl Durable {
    pub(super) fn new(config: DurableConfig, incarnation: Incarnation) -> Self {
        Self {
            config,
            incarnation,
            pulls: VecDeque::new(),
            memory: Memory::default(),
            disk: Memory::default(),
            dirty_since: None,
        }
    }

    /// The memory, about to change: what has been dirty for long enough is on disk by now.
    fn change(&mut self, now: Instant) -> &mut Memory {
        if self.config.forgetful && self.dirty_since.is_none_or(|since| now >= since + FLUSH_INTERVAL) {
            self.disk = self.memory.clone();
            self.dirty_since = Some(now);
        }
        &mut self.memory
    }

    /// The server was killed and starts again: what was not flushed never was.
    pub(super) fn restart(&mut self, now: Instant) {
        self.pulls.clear();
        if self.dirty_since.is_some_and(|since| now < since + FLUSH_INTERVAL) {
            self.memory = self.disk.clone();
        }
        self.dirty_since = None;
    }

    /// When the next ack wait or pull ends.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let ack_wait = self.memory.deadlines.first().map(|(deadline, _)| *deadline);
        let pull = self.pulls.iter().map(|pull| pull.expires_at).min();
        [ack_wait, pull].into_iter().flatten().min()
    }

    /// Ack waits that have ended by `now`: the messages queue up for redelivery. Gives those whose only delivery is spent.
    pub(super) fn lapse(&mut self, now: Instant) -> Vec<u64> {
        let mut spent = Vec::new();
        while let Some((deadline, sequence)) = self.memory.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            if self.config.max_deliver == Some(1) {
                self.forget(sequence, now);
                spent.push(sequence);
            } else {
                self.requeue(sequence, now);
            }
        }
        spent
    }

    fn requeue(&mut self, sequence: u64, now: Instant) {
        let memory = self.change(now);
        let Some(pending) = memory.pending.get_mut(&sequence) else { return };
        if let Some(deadline) = pending.deadline.take() {
            memory.deadlines.remove(&(deadline, sequence));
            memory.redeliver.push_back(sequence);
        }
    }

    /// The ack wait of one that still waits begins anew; one in the redelivery queue stays there.
    fn restart_wait(&mut self, sequence: u64, deadline: Instant, now: Instant) {
        let memory = self.change(now);
        let Some(pending) = memory.pending.get_mut(&sequence) else { return };
        let Some(before) = pending.deadline else { return };
        pending.deadline = Some(deadline);
        memory.deadlines.remove(&(before, sequence));
        memory.deadlines.insert((deadline, sequence));
    }

    /// Not before `due`, even if it is in the redelivery queue already.
    fn postpone(&mut self, sequence: u64, due: Instant, now: Instant) {
        let memory = self.change(now);
        let Some(pending) = memory.pending.get_mut(&sequence) else { return };
        match pending.deadline.replace(due) {
            Some(before) => drop(memory.deadlines.remove(&(before, sequence))),
            None => memory.redeliver.retain(|&queued| queued != sequence),
        }
        memory.deadlines.insert((due, sequence));
    }

    /// Settled for good, or given up.
    fn forget(&mut self, sequence: u64, now: Instant) -> bool {
        let memory = self.change(now);
        memory.counts.remove(&sequence);
        let Some(pending) = memory.pending.remove(&sequence) else { return false };
        match pending.deadline {
            Some(deadline) => {
                memory.deadlines.remove(&(deadline, sequence));
            }
            None => memory.redeliver.retain(|&queued| queued != sequence),
        }
        true
    }

    /// An ack or a term.
    pub(super) fn settle(&mut self, sequence: u64, now: Instant) -> bool {
        self.forget(sequence, now)
    }

    /// A nak.
    pub(super) fn nak(&mut self, sequence: u64, delay: Option<Duration>, now: Instant) {
        match delay {
            Some(delay) if delay > Duration::ZERO => self.postpone(sequence, now + delay, now),
            _ => self.requeue(sequence, now),
        }
    }

    /// In progress.
    pub(super) fn extend(&mut self, sequence: u64, now: Instant) {
        self.restart_wait(sequence, now + self.config.ack_wait, now);
    }

    /// Whether anything could be sent to a pull.
    pub(super) fn next(&mut self, stream: &Stream, now: Instant) -> Result<Option<Next>, (u64, u64)> {
        while let Some(sequence) = self.memory.redeliver.front().copied() {
            if stream.get(sequence).is_none() {
                self.forget(sequence, now);
                continue;
            }
            let count = self.memory.counts.get(&sequence).copied().unwrap_or(1) + 1;
            if self.config.max_deliver.is_some_and(|most| count > most) {
                self.forget(sequence, now);
                return Err((sequence, count - 1));
            }
            let consumer_sequence = self.memory.consumer_sequence + 1;
            return Ok(Some(Next { sequence, count, consumer_sequence }));
        }
        if self.memory.pending.len() >= self.config.max_ack_pending {
            return Ok(None);
        }
        let consumer_sequence = self.memory.consumer_sequence + 1;
        Ok(stream.next_after(self.memory.delivered).map(|sequence| Next {
            sequence,
            count: 1,
            consumer_sequence,
        }))
    }

    /// `next` has been sent.
    pub(super) fn sent(&mut self, next: Next, owner: ConnectionId, now: Instant) {
        let deadline = now + self.config.ack_wait;
        let memory = self.change(now);
        memory.consumer_sequence = next.consumer_sequence;
        if memory.redeliver.front() == Some(&next.sequence) {
            memory.redeliver.pop_front();
        } else {
            memory.delivered = memory.delivered.max(next.sequence);
        }
        memory.counts.insert(next.sequence, next.count);
        memory.pending.insert(next.sequence, Pending { deadline: Some(deadline), owner });
        memory.deadlines.insert((deadline, next.sequence));
    }

    /// The server loses patience with a delivery at once, as a new leader does that has not heard of it.
    pub(super) fn lapse_now(&mut self, sequence: u64, now: Instant) {
        self.requeue(sequence, now);
    }

    /// The stream has been purged.
    pub(super) fn forget_missing(&mut self, stream: &Stream, now: Instant) {
        let missing: Vec<u64> =
            self.memory.pending.keys().copied().filter(|&sequence| stream.get(sequence).is_none()).collect();
        for sequence in missing {
            self.forget(sequence, now);
        }
    }

    /// The highest stream sequence sent.
    pub(super) const fn delivered(&self) -> u64 {
        self.memory.delivered
    }

    /// Sequences that are unsettled.
    pub(super) fn pending(&self) -> impl Iterator<Item = u64> {
        self.memory.pending.keys().copied()
    }

    /// Unsettled deliveries whose ack wait runs, and which this connection got last.
    pub(super) fn held_by(&self, connection: ConnectionId) -> usize {
        let held = |pending: &&Pending| pending.owner == connection && pending.deadline.is_some();
        self.memory.pending.values().filter(held).count()
    }

    pub(super) fn facts(&self, stream: &Stream) -> ConsumerFacts {
        let memory = &self.memory;
        ConsumerFacts {
            incarnation: self.incarnation,
            waiting_pulls: self.pulls.len(),
            ack_pending: memory.pending.len(),
            pending: stream.count_after(memory.delivered),
            redelivered: memory
                .pending
                .keys()
                .filter(|sequence| memory.counts.get(sequence).is_some_and(|&count| count > 1))
                .count(),
            ack_floor: memory.pending.first_key_value().map_or(memory.delivered, |(&first, _)| first - 1),
            delivered: memory.delivered,
        }
    }
}
