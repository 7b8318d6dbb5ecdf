//! Rejections on their way into the dead-letter stream.
//!
//! Publishes are pipelined while the stream confirms. While it does not, one rejection at a time tries with growing delays
//! and the others wait under their leases: no ack, no term, no nak, so nothing is spent and nothing is lost (design §5).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use super::core::Core;
use super::settle::settle;
use crate::delivery::{DeadLetterError, DeadLetterProof, DeadLettered, Received, Rejected};
use crate::envelope::Identity;
use crate::telemetry::{NotReady, PublishFailure};

/// Publishes under way at once.
const PIPELINE: usize = 256;
/// Groups of settlements under way at once. What is confirmed meanwhile makes up the next group: in a storm groups are large,
/// and each costs one confirmation.
const SETTLING: usize = 4;
/// Between tries of a dead letter that has a problem of its own (it does not fit, or there is no subject).
const OWN_PROBLEM_DELAY: Duration = Duration::from_secs(30);

/// The door: rejections are handed in here. Their number is bounded by the permits and the parking bounds.
#[derive(Debug, Default)]
pub(super) struct Parking {
    incoming: Mutex<VecDeque<Incoming>>,
    arrived: Notify,
    /// Copies of messages whose way ended without a proof; they go on as fresh deliveries.
    orphans: Mutex<Vec<Received>>,
    /// Rejections that wait while nothing is confirmed: an orderly stop does not wait for them.
    stalled: AtomicUsize,
}

/// A rejection that is handed in.
#[derive(Debug)]
struct Incoming {
    rejected: Rejected,
    /// The breaker keeps it back.
    withheld: bool,
}

impl Parking {
    /// Takes a rejection over.
    pub(super) fn take(&self, core: &Core, rejected: Rejected) {
        let rejection = rejected.rejection();
        core.metrics.messages_rejected.increment((rejection.stage, rejection.reason));
        let was_open = core.breaker.is_open();
        let withheld = core.breaker.note_rejected(rejection.stage);
        self.incoming
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(Incoming { rejected, withheld });
        self.arrived.notify_one();
        if !was_open && core.breaker.is_open() {
            core.changed.notify_one();
        }
    }

    /// The breaker has closed: what was withheld goes on.
    pub(super) fn let_go(&self) {
        self.arrived.notify_one();
    }

    /// How many rejections wait for a dead-letter stream that does not confirm.
    pub(super) fn stalled(&self) -> usize {
        self.stalled.load(Ordering::Acquire)
    }

    /// Copies that must go their own way.
    pub(super) fn take_orphans(&self) -> Vec<Received> {
        std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn drain_incoming(&self) -> VecDeque<Incoming> {
        std::mem::take(&mut *self.incoming.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Published = Result<DeadLettered, (Box<Rejected>, DeadLetterError)>;

/// The task that publishes. Never ends.
pub(super) async fn publish_dead_letters(core: Arc<Core>, parking: Arc<Parking>) {
    let mut desk = Desk {
        core,
        parking,
        waiting: VecDeque::new(),
        own_problem: VecDeque::new(),
        withheld: VecDeque::new(),
        unparked: 0,
        confirmed: Vec::new(),
        said_full: false,
        failures: 0,
        next_try: Instant::now(),
    };
    let mut publishing: FuturesUnordered<BoxFuture<'static, Published>> = FuturesUnordered::new();
    let mut settling: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    loop {
        desk.take_in();
        desk.start(&mut publishing);
        if !desk.confirmed.is_empty() && settling.len() < SETTLING {
            let confirmed = std::mem::take(&mut desk.confirmed);
            let (core, parking) = (Arc::clone(&desk.core), Arc::clone(&desk.parking));
            settling.push(Box::pin(settle_originals(core, parking, confirmed)));
        }
        let wake = desk.wake(publishing.is_empty());
        tokio::select! {
            // In this order, so that a simulated run is the same every time.
            biased;
            Some(published) = publishing.next() => {
                desk.note(published, &mut publishing);
            }
            Some(()) = settling.next() => desk.park_again(),
            () = desk.parking.arrived.notified() => {}
            () = sleep_until(wake.unwrap_or_else(far_away)), if wake.is_some() => {}
        }
    }
}

fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(86_400)
}

/// A rejection that waits. It leaves the batch permits if there is room among the parked ones; else it keeps its permit
/// and pulling stops until there is room.
struct Waiting {
    rejected: Rejected,
    parked: bool,
}

struct Desk {
    core: Arc<Core>,
    parking: Arc<Parking>,
    waiting: VecDeque<Waiting>,
    own_problem: VecDeque<(Instant, Waiting)>,
    /// What the breaker keeps back.
    withheld: VecDeque<Waiting>,
    /// How many of those that wait, withheld ones apart, hold a batch permit.
    unparked: usize,
    /// Confirmed letters whose originals wait for their settlement.
    confirmed: Vec<DeadLettered>,
    /// As many rejections wait as may, and it was said.
    said_full: bool,
    /// Failures in a row; 0 = the stream confirms.
    failures: u32,
    next_try: Instant,
}

impl Desk {
    fn take_in(&mut self) {
        let incoming = self.parking.drain_incoming();
        let let_go = !self.withheld.is_empty() && !self.core.breaker.is_open();
        if incoming.is_empty() && !let_go {
            return;
        }
        for Incoming { rejected, withheld } in incoming {
            let waiting = self.park(rejected);
            if withheld {
                self.withheld.push_back(waiting);
            } else {
                self.wait(waiting);
            }
        }
        if !self.core.breaker.is_open() {
            for waiting in std::mem::take(&mut self.withheld) {
                self.wait(waiting);
            }
        }
        self.core.metrics.withheld_messages.set(self.withheld.len());
        self.note_unparked();
    }

    fn wait(&mut self, waiting: Waiting) {
        self.unparked += usize::from(!waiting.parked);
        self.waiting.push_back(waiting);
    }

    fn park(&self, mut rejected: Rejected) -> Waiting {
        let parked = self.core.in_hand.park(rejected.identity());
        if parked {
            rejected.detach_payload();
        }
        Waiting { rejected, parked }
    }

    fn start(&mut self, publishing: &mut FuturesUnordered<BoxFuture<'static, Published>>) {
        let now = Instant::now();
        while self.own_problem.front().is_some_and(|(due, _)| *due <= now) {
            self.waiting.extend(self.own_problem.pop_front().map(|(_, waiting)| waiting));
        }
        let pipeline = if self.failures == 0 { PIPELINE } else { usize::from(self.next_try <= now) };
        while publishing.len() < pipeline {
            let Some(Waiting { rejected, parked }) = self.waiting.pop_front() else { break };
            self.unparked = self.unparked.saturating_sub(usize::from(!parked));
            let core = Arc::clone(&self.core);
            publishing.push(Box::pin(async move {
                let failed_at = core.ports.clock.now();
                rejected.dead_letter(&*core.ports.publisher, failed_at).await
            }));
        }
    }

    fn wake(&self, idle: bool) -> Option<Instant> {
        let own = self.own_problem.front().map(|(due, _)| *due);
        let retry = (idle && self.failures > 0 && !self.waiting.is_empty()).then_some(self.next_try);
        own.into_iter().chain(retry).min()
    }

    /// Takes note of one outcome and of all that are there as well.
    fn note(&mut self, first: Published, publishing: &mut FuturesUnordered<BoxFuture<'static, Published>>) {
        use futures_util::FutureExt as _;
        let mut confirmed = Vec::new();
        let mut next = Some(first);
        while let Some(published) = next {
            match published {
                Ok(dead_lettered) => confirmed.push(dead_lettered),
                Err((rejected, error)) => self.failed(*rejected, &error),
            }
            next = publishing.next().now_or_never().flatten();
        }
        if !confirmed.is_empty() {
            self.succeeded(&confirmed);
            self.confirmed.append(&mut confirmed);
        }
    }

    fn succeeded(&mut self, confirmed: &[DeadLettered]) {
        self.core.metrics.dead_letters_published.add(confirmed.len());
        let duplicates = confirmed.iter().filter(|letter| letter.receipt().duplicate).count();
        self.core.metrics.dead_letters_duplicate.add(duplicates);
        self.failures = 0;
        if self.own_problem.is_empty() {
            self.core.health.clear(NotReady::DeadLetterUnavailable);
        }
    }

    fn failed(&mut self, rejected: Rejected, error: &DeadLetterError) {
        let now = Instant::now();
        let sequence = rejected.identity().sequence;
        let (kind, reason, is_own) = match error {
            DeadLetterError::NotConfigured => {
                (PublishFailure::NotConfigured, NotReady::DeadLetterNotConfigured, true)
            }
            DeadLetterError::TooLarge(_) => (PublishFailure::TooLarge, NotReady::DeadLetterUnavailable, true),
            DeadLetterError::ComesBack(_) => {
                (PublishFailure::ComesBack, NotReady::DeadLetterUnavailable, true)
            }
            DeadLetterError::Unavailable(_) => {
                (PublishFailure::Unavailable, NotReady::DeadLetterUnavailable, false)
            }
            DeadLetterError::Refused(_) => (PublishFailure::Refused, NotReady::DeadLetterUnavailable, false),
            DeadLetterError::Unconfirmed => {
                (PublishFailure::Unconfirmed, NotReady::DeadLetterUnavailable, false)
            }
        };
        self.core.metrics.dead_letter_publish_failures.increment(kind);
        let full = if self.said_full { "; as many rejections wait as may: pulling stops" } else { "" };
        self.core.health.not_ready(reason, format!("dead_letter_publish_failed: {error}{full}"));
        if is_own {
            error!(stream_sequence = sequence, %error, "dead_letter_publish_failed: the message stays on its stream");
            let waiting = self.park(rejected);
            self.unparked += usize::from(!waiting.parked);
            self.own_problem.push_back((now + OWN_PROBLEM_DELAY, waiting));
        } else {
            self.failures = self.failures.saturating_add(1);
            self.next_try = now + self.core.delay(self.failures);
            warn!(stream_sequence = sequence, %error, failures = self.failures, "dead_letter_publish_failed");
            let waiting = self.park(rejected);
            self.wait(waiting);
        }
        self.note_unparked();
    }

    /// Room came free: rejections that still hold a permit move over.
    fn park_again(&mut self) {
        let core = &self.core;
        let waiting = self.waiting.iter_mut().chain(self.own_problem.iter_mut().map(|(_, waiting)| waiting));
        if self.unparked > 0 && !core.in_hand.is_parking_full() {
            for waiting in waiting.filter(|waiting| !waiting.parked) {
                waiting.parked = core.in_hand.park(waiting.rejected.identity());
                self.unparked -= usize::from(waiting.parked);
                if core.in_hand.is_parking_full() {
                    break;
                }
            }
        }
        for waiting in self.withheld.iter_mut().filter(|waiting| !waiting.parked) {
            if core.in_hand.is_parking_full() {
                break;
            }
            waiting.parked = core.in_hand.park(waiting.rejected.identity());
        }
        self.note_unparked();
    }

    fn note_unparked(&mut self) {
        // While every letter is confirmed the permits are bound enough: a storm must not stop the pulls again and again.
        let stopping = if self.failures > 0 || !self.own_problem.is_empty() { self.unparked } else { 0 };
        self.core.unparked.store(stopping, Ordering::Release);
        self.say_whether_full(stopping > 0);
        let waiting = if self.failures > 0 { self.waiting.len() } else { 0 };
        // What the breaker keeps back does not stop pulling by itself: a trial needs messages.
        let stalled = waiting + self.own_problem.len() + self.withheld.len();
        self.parking.stalled.store(stalled, Ordering::Release);
        self.core.changed.notify_one();
    }
}

impl Desk {
    /// That good messages wait as well is worth a line of its own, once, and so is the end of it.
    fn say_whether_full(&mut self, is_full: bool) {
        if is_full == self.said_full {
            return;
        }
        self.said_full = is_full;
        let waiting = self.waiting.len() + self.own_problem.len();
        if is_full {
            warn!(
                waiting,
                "as many rejections wait for the dead-letter stream as may: pulling stops until it confirms"
            );
            let detail =
                format!("{waiting} rejections wait, as many as may: pulling stops until they are confirmed");
            self.core.health.not_ready(NotReady::DeadLetterUnavailable, detail);
        } else {
            info!("the dead-letter stream confirms again: pulling goes on");
        }
    }
}

/// Settles the originals of confirmed dead letters, and every copy of them that came meanwhile.
async fn settle_originals(core: Arc<Core>, parking: Arc<Parking>, confirmed: Vec<DeadLettered>) {
    #[cfg(feature = "failpoints")]
    crate::failpoint::hit("dead_letter.before_settle");
    let mut proofs: Vec<DeadLetterProof> = confirmed.iter().map(DeadLettered::proof).collect();
    let mut confirmed = confirmed;
    loop {
        let settlements = confirmed.into_iter().map(|letter| end(&core, letter)).collect();
        settle(&core, settlements, core.confirm()).await;
        let copies = core.in_hand.leave(proofs.iter().map(DeadLetterProof::identity));
        core.changed.notify_one();
        if copies.is_empty() {
            return;
        }
        confirmed = share(&proofs, copies, &parking);
        proofs = Vec::new();
    }
}

fn end(core: &Core, letter: DeadLettered) -> crate::delivery::Settlement {
    if core.settings.ack_term_after_publish { letter.terminate() } else { letter.acknowledge() }
}

fn share(proofs: &[DeadLetterProof], copies: Vec<Received>, parking: &Parking) -> Vec<DeadLettered> {
    let mut shared = Vec::new();
    for copy in copies {
        let identity: Identity = copy.identity();
        match proofs.iter().find(|proof| proof.identity() == identity) {
            Some(proof) => shared.extend(proof.share(copy).ok()),
            None => parking.orphans.lock().unwrap_or_else(PoisonError::into_inner).push(copy),
        }
    }
    shared
}
