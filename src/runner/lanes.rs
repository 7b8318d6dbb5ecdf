//! Lanes: what waits for the sink, in the order in which it must become durable (design §6, order).

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;

use super::round::{Tried, Work};
use super::settings::{DeliverySettings, Order};
use crate::delivery::{Received, SinkLimits, Turn, TurnOver, TurnQueue};

/// The lanes of this pipeline: one for `stream` and `any`, several for `subject`.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    limits: BatchLimits,
    order: Order,
    strict: bool,
}

#[derive(Clone, Copy, Debug)]
struct BatchLimits {
    records: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<Work>,
    bytes: usize,
    turns: TurnQueue,
    /// Batches whose first try has not ended.
    trying: Arc<AtomicUsize>,
    /// A strict lane waits for its first record until then.
    blocked_until: Option<Instant>,
    oldest: Option<Instant>,
}

/// A batch that is ready for the sink.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) work: Vec<Work>,
    pub(super) turn: Turn,
    pub(super) first_try: FirstTry,
}

/// Held by a batch for as long as its first try lasts: the next batch of the lane has its turn afterwards.
#[derive(Debug, Default)]
pub(super) struct FirstTry {
    _over: Option<TurnOver>,
    _trying: Option<Trying>,
}

/// Counts one batch of a lane as trying for as long as it is held.
#[derive(Debug)]
struct Trying(Arc<AtomicUsize>);

impl Trying {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Trying {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Lanes {
    pub(super) fn new(settings: &DeliverySettings, limits: SinkLimits) -> Self {
        let count = if settings.order == Order::Subject { settings.max_in_flight_batches.max(1) } else { 1 };
        Self {
            lanes: (0..count).map(|_| Lane::default()).collect(),
            limits: BatchLimits {
                records: settings.batch_size.min(limits.max_records).max(1),
                bytes: settings.batch_bytes.min(limits.max_bytes).max(1),
            },
            order: settings.order,
            strict: settings.strict,
        }
    }

    /// Appends a delivery to its lane.
    pub(super) fn push(&mut self, received: Received, now: Instant) {
        let index = self.lane_of(&received.envelope().subject);
        if let Some(lane) = self.lanes.get_mut(index) {
            lane.oldest.get_or_insert(now);
            lane.push_back(Work::New(received));
        }
    }

    /// Puts records back to the head of their lane, which waits until the last of them is due (`strict`).
    pub(super) fn push_first(&mut self, tried: Vec<Tried>) {
        for one in tried.into_iter().rev() {
            let index = self.lane_of(&one.record.envelope().subject);
            if let Some(lane) = self.lanes.get_mut(index) {
                lane.blocked_until = lane.blocked_until.max(Some(one.due));
                lane.bytes += one.record.envelope().weight();
                lane.queue.push_front(Work::Again(one));
            }
        }
    }

    /// Takes the next batch that may be tried now, of `most` records. `again` are records whose next try is due; they join
    /// it.
    pub(super) fn next_batch(
        &mut self,
        now: Instant,
        linger: std::time::Duration,
        most: usize,
        again: &mut VecDeque<Tried>,
    ) -> Option<Ready> {
        let (order, strict) = (self.order, self.strict);
        let limits = BatchLimits { records: self.limits.records.min(most), ..self.limits };
        let lane = self.lanes.iter_mut().find(|lane| lane.may_try(now, linger, order, strict, limits))?;
        let mut work = lane.take_batch(limits);
        lane.blocked_until = None;
        while work.len() < limits.records
            && let Some(tried) = again.pop_front()
        {
            work.push(Work::Again(tried));
        }
        let trying = Trying::begin(&lane.trying);
        let (turn, over) = match order {
            Order::Any => (Turn::now(), None),
            Order::Stream | Order::Subject => {
                let (turn, over) = lane.turns.take();
                (turn, Some(over))
            }
        };
        Some(Ready { work, turn, first_try: FirstTry { _over: over, _trying: Some(trying) } })
    }

    /// Records that were tried before and wait at the head of a lane.
    pub(super) fn tried_mut(&mut self) -> impl Iterator<Item = &mut Tried> {
        self.lanes.iter_mut().flat_map(|lane| &mut lane.queue).filter_map(|work| match work {
            Work::Again(tried) => Some(tried),
            Work::New(_) => None,
        })
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.queue.is_empty())
    }

    /// Whether a strict lane waits for a record that failed.
    pub(super) fn is_blocked(&self) -> bool {
        self.lanes.iter().any(|lane| lane.blocked_until.is_some())
    }

    /// When a lane that waits may go on; later than `now`.
    pub(super) fn next_wake(&self, now: Instant, linger: std::time::Duration) -> Option<Instant> {
        let blocked = self.lanes.iter().filter_map(|lane| lane.blocked_until);
        let lingering = self
            .lanes
            .iter()
            .filter_map(|lane| lane.oldest.map(|since| since + linger))
            .filter(|_| !linger.is_zero());
        blocked.chain(lingering).filter(|wake| *wake > now).min()
    }

    /// The subject whose lane holds more than its share of `permits`, if one does.
    pub(super) fn overfull(&self, permits: usize) -> Option<&str> {
        if self.lanes.len() < 2 {
            return None;
        }
        let share = (permits / self.lanes.len()).max(1);
        let lane = self.lanes.iter().find(|lane| lane.queue.len() >= share)?;
        lane.queue.front().map(|work| match work {
            Work::New(received) => received.envelope().subject.as_str(),
            Work::Again(tried) => tried.record.envelope().subject.as_str(),
        })
    }

    /// Takes everything that waits.
    pub(super) fn take_all(&mut self) -> Vec<Work> {
        self.lanes
            .iter_mut()
            .flat_map(|lane| {
                lane.bytes = 0;
                lane.oldest = None;
                lane.blocked_until = None;
                std::mem::take(&mut lane.queue)
            })
            .collect()
    }

    fn lane_of(&self, subject: &str) -> usize {
        if self.lanes.len() < 2 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        subject.hash(&mut hasher);
        let count = u64::try_from(self.lanes.len()).unwrap_or(1);
        usize::try_from(hasher.finish() % count).unwrap_or(0)
    }
}

impl Lane {
    fn push_back(&mut self, work: Work) {
        self.bytes += work.weight();
        self.queue.push_back(work);
    }

    /// A batch is tried while another one is being made durable, so that it can be encoded meanwhile; a third one only when
    /// it is full, since until then the writer will take what is there when it is free.
    fn may_try(
        &self,
        now: Instant,
        linger: std::time::Duration,
        order: Order,
        strict: bool,
        limits: BatchLimits,
    ) -> bool {
        if self.queue.is_empty() || self.blocked_until.is_some_and(|until| until > now) {
            return false;
        }
        let trying = self.trying.load(Ordering::Acquire);
        if strict {
            return trying == 0;
        }
        let full = self.queue.len() >= limits.records || self.bytes >= limits.bytes;
        let lingered = linger.is_zero() || self.oldest.is_none_or(|since| now >= since + linger);
        full || (lingered && (trying < 2 || order == Order::Any))
    }

    fn take_batch(&mut self, limits: BatchLimits) -> Vec<Work> {
        let mut work = Vec::with_capacity(self.queue.len().min(limits.records));
        let mut bytes = 0usize;
        let mut company = usize::MAX;
        while let Some(next) = self.queue.front() {
            let weight = next.weight();
            company = company.min(next.company());
            let crowded = work.len() >= limits.records || work.len() >= company;
            if !work.is_empty() && (crowded || bytes + weight > limits.bytes) {
                break;
            }
            bytes += weight;
            work.extend(self.queue.pop_front());
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.queue.is_empty() {
            self.oldest = None;
        }
        work
    }
}
