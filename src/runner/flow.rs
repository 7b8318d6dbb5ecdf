//! The runner's moves: taking deliveries in, forming batches, holding and going on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::breaker::TRIAL;
use super::hold::Hold;
use super::in_hand::Arrival;
use super::lanes::{FirstTry, Ready};
use super::round::{self, Tried, Work};
use super::suspicion::Suspicion;
use super::{News, Runner, given_up, settle};
use crate::delivery::{ConsumerFacts, Received, Turn};
use crate::disposition::Fault;
use crate::reason::ReasonCode;
use crate::telemetry::NotReady;

/// The loop looks around at least this often, so that liveness and gauges are fresh.
const TICK: Duration = Duration::from_secs(1);

impl Runner {
    /// Takes one delivery in: its copy may be in hand, it may have come too often, it may have to be alone.
    pub(super) fn take_in(&mut self, received: Received) {
        let now = Instant::now();
        let metrics = &self.core.metrics;
        if given_up::is_in_hand_after_all(&self.core, &received) {
            return;
        }
        let received = match self.core.in_hand.arrive(received, now) {
            Arrival::First(received) => received,
            Arrival::Copy { replaced } => {
                metrics.second_deliveries.increment();
                metrics.deliveries_dropped.add(usize::from(replaced));
                return;
            }
        };
        let received = match received.verdict().map(|verdict| verdict.reason) {
            None => received,
            Some(ReasonCode::UndeliverableMessage) => match received.into_rejected() {
                Ok(rejected) => return self.parking.take(&self.core, rejected),
                Err(received) => *received,
            },
            Some(_) => {
                let (core, parking) = (Arc::clone(&self.core), Arc::clone(&self.parking));
                self.tasks.spawn(async move {
                    given_up::end(&core, &parking, received).await;
                    News::Sent
                });
                return;
            }
        };
        let count = received.envelope().delivery_count;
        if count >= self.crash_limit {
            let (core, parking) = (Arc::clone(&self.core), Arc::clone(&self.parking));
            self.tasks.spawn(async move {
                round::end_at_crash_limit(&core, &parking, received).await;
                News::Sent
            });
        } else if Suspicion::is_suspect(count) {
            self.suspects.push_back(received);
        } else {
            self.lanes.push(received, now);
        }
    }

    /// Starts every round that may start now.
    pub(super) fn dispatch(&mut self) {
        if self.hold.is_some() || self.is_waiting_for_trial() {
            return;
        }
        let now = Instant::now();
        let (mut due, mut separate) = self.take_due(now);
        let most = if self.tripped.is_some() { TRIAL } else { usize::MAX };
        while self.running < self.core.settings.max_in_flight_batches && !self.is_on_trial_already() {
            let linger = if self.core.is_draining() { Duration::ZERO } else { self.core.settings.linger };
            let Some(ready) = self.lanes.next_batch(now, linger, most, &mut due) else { break };
            self.start(ready);
        }
        self.start_suspect();
        self.start_due(&mut due, usize::MAX);
        while let Some(company) = separate.front().map(|tried| tried.history.company) {
            if !self.start_due(&mut separate, company) {
                break;
            }
        }
        self.again.extend(due);
        self.again.extend(separate);
    }

    /// Records whose next try is due: those that may join any batch, and those that need little company.
    fn take_due(&mut self, now: Instant) -> (VecDeque<Tried>, VecDeque<Tried>) {
        if !self.suspects.is_empty() {
            return (VecDeque::new(), VecDeque::new());
        }
        let (due, later): (Vec<_>, Vec<_>) = self.again.drain(..).partition(|tried| tried.due <= now);
        self.again = later;
        let (separate, any): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|tried| tried.history.company < usize::MAX);
        (any.into(), separate.into())
    }

    /// Starts a round of records that were tried before; says whether it could.
    fn start_due(&mut self, due: &mut VecDeque<Tried>, company: usize) -> bool {
        let is_full = self.running >= self.core.settings.max_in_flight_batches;
        if due.is_empty() || is_full || self.is_on_trial_already() {
            return false;
        }
        let size = due.len().min(company).min(self.core.settings.batch_size).max(1);
        let work = due.drain(..size).map(Work::Again).collect();
        self.start(Ready { work, turn: Turn::now(), first_try: FirstTry::default() });
        true
    }

    /// One suspect, when nothing else is with the sink.
    fn start_suspect(&mut self) {
        if self.running == 0
            && self.lanes.is_empty()
            && let Some(suspect) = self.suspects.pop_front()
        {
            self.start(Ready {
                work: vec![Work::New(suspect)],
                turn: Turn::now(),
                first_try: FirstTry::default(),
            });
        }
    }

    fn start(&mut self, ready: Ready) {
        self.running += 1;
        let (core, parking) = (Arc::clone(&self.core), Arc::clone(&self.parking));
        self.tasks.spawn(async move {
            News::Round(round::run_round(core, parking, ready.work, ready.turn, ready.first_try).await)
        });
    }

    pub(super) fn begin_hold(&mut self, detail: &str) {
        if self.hold.is_some() {
            return;
        }
        self.fruitless_holds = self.fruitless_holds.saturating_add(1);
        self.core.metrics.holds.increment();
        self.core.health.not_ready(NotReady::SinkDown, detail);
        warn!(sink = self.core.ports.sink.name(), detail, "the sink is down: holding");
        let delay = self.core.delay(self.fruitless_holds);
        self.hold = Some(Hold::begin(Instant::now(), delay, self.core.durable.ack_wait));
    }

    pub(super) fn take_probe(&mut self, probed: Result<(), Fault>) {
        let now = Instant::now();
        let Some(hold) = self.hold.as_mut() else { return };
        match probed {
            Err(fault) => {
                let delay = self.core.delay(hold.failed_probes.saturating_add(self.fruitless_holds));
                hold.probe_failed(now, delay);
                self.core.health.not_ready(NotReady::SinkDown, fault.detail());
            }
            Ok(()) => {
                self.hold = None;
                self.go_on(now);
            }
        }
    }

    /// The probe passed: what raised the hold is tried again before anything younger, so an outage does not change the
    /// order. Records that raise it again are tried in ever smaller company, until the one that is to blame is alone.
    fn go_on(&mut self, now: Instant) {
        info!(sink = self.core.ports.sink.name(), "the probe passed: going on");
        let (mut raised, others): (Vec<_>, Vec<_>) =
            self.again.drain(..).partition(|tried| tried.raised_hold);
        self.again = others;
        // In a strict lane the record that raised it stands at the head of its lane already.
        let at_heads = self.lanes.tried_mut().filter(|tried| tried.raised_hold).count();
        let count = raised.len() + at_heads;
        let at_heads = self.lanes.tried_mut().filter(|tried| tried.raised_hold);
        for tried in raised.iter_mut().chain(at_heads) {
            tried.raised_hold = false;
            tried.due = now;
            let history = &mut tried.history;
            history.downs_disproved = history.downs_disproved.saturating_add(1);
            if history.downs_disproved > 1 {
                history.company = history.company.min(count).div_ceil(2).max(1);
            }
        }
        raised.sort_by_key(|tried| tried.record.envelope().consumer_sequence);
        let (first, alone): (Vec<_>, Vec<_>) =
            raised.into_iter().partition(|tried| tried.history.company == usize::MAX);
        self.lanes.push_first(first);
        self.again.extend(alone);
        if count == 0 {
            self.core.health.clear(NotReady::SinkDown);
        }
    }

    /// Gives everything back with a plain nak if other daemons pull on the durable, so that a full disk here does not starve
    /// them. Alone, the leases are kept: naks would only raise the delivered counts.
    pub(super) fn release_if_others_pull(&mut self, facts: Option<&ConsumerFacts>) {
        let now = Instant::now();
        let why = if let Some(hold) = self.hold.as_mut() {
            hold.release_later(now);
            "the sink is down"
        } else if let Some(tripped) = self.tripped.as_mut().filter(|tripped| !tripped.is_on_trial()) {
            tripped.next_release = Some(now + self.core.durable.ack_wait);
            "too many messages are rejected"
        } else {
            return;
        };
        if facts.is_some_and(|facts| facts.waiting_pulls > 0) && self.source.open_pulls() == 0 {
            let released = self.give_everything_back();
            if released > 0 {
                info!(released, why, "others pull on the durable: what is in hand is given back meanwhile");
            }
        }
    }

    /// Gives back whatever waits in the loop; rounds under way and parked rejections are not touched.
    pub(super) fn give_everything_back(&mut self) -> usize {
        let mut work = self.lanes.take_all();
        work.extend(self.suspects.drain(..).map(Work::New));
        work.extend(self.again.drain(..).map(Work::Again));
        self.give_back(work)
    }

    /// Gives these back and says how many.
    pub(super) fn give_back(&mut self, work: Vec<Work>) -> usize {
        let identities: Vec<_> = work.iter().map(Work::identity).collect();
        let naks: Vec<_> = work
            .into_iter()
            .map(|one| match one {
                Work::New(received) => received.release(None),
                Work::Again(tried) => {
                    self.core.keep_history(tried.record.identity(), tried.history);
                    tried.record.release(None)
                }
            })
            .collect();
        let released = naks.len();
        if released > 0 {
            // A copy of a message that is given back is one more delivery of it: it is given back as well.
            let copies = self.core.in_hand.leave(identities).into_iter().map(|copy| copy.release(None));
            let naks = naks.into_iter().chain(copies).collect();
            let core = Arc::clone(&self.core);
            self.tasks.spawn(async move {
                settle::release(&core, naks).await;
                News::Sent
            });
        }
        released
    }

    /// Starts probes and questions whose time has come.
    pub(super) fn ask_what_is_due(&mut self) {
        let now = Instant::now();
        if let Some(hold) = self.hold.as_mut() {
            if hold.next_probe.take_if(|due| *due <= now).is_some() {
                let core = Arc::clone(&self.core);
                self.tasks.spawn(async move { News::Probed(round::probe(&core).await) });
            }
            if self.source.open_pulls() == 0 && hold.next_release.take_if(|due| *due <= now).is_some() {
                self.ask_facts(true);
            }
        }
        if let Some(tripped) = self.tripped.as_mut()
            && self.source.open_pulls() == 0
            && tripped.next_release.take_if(|due| *due <= now).is_some()
        {
            self.ask_facts(true);
        }
        if self.next_watch.take_if(|due| *due <= now).is_some() {
            self.ask_facts(false);
        }
    }

    fn ask_facts(&mut self, for_release: bool) {
        let core = Arc::clone(&self.core);
        self.tasks.spawn(async move {
            let facts = core.ports.watch.facts().await;
            if let Ok(facts) = &facts
                && facts.incarnation == core.durable.incarnation
            {
                core.ports.sink.note_ack_floor(facts.ack_floor).await;
            }
            News::Facts { facts, for_release }
        });
    }

    /// When the loop must look again by itself.
    pub(super) fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let mut wakes: Vec<_> = self.next_watch.into_iter().collect();
        match (&self.hold, &self.tripped) {
            (Some(hold), _) => wakes.extend(hold.next_wake()),
            (None, Some(tripped)) if !tripped.is_on_trial() => wakes.extend(tripped.next_wake()),
            (None, Some(_) | None) => {
                wakes.extend(self.again.iter().map(|tried| tried.due).filter(|due| *due > now).min());
                wakes.extend(self.lanes.next_wake(now, self.core.settings.linger));
            }
        }
        // What is due and could not start waits for something in hand to end, and that wakes the loop.
        wakes.into_iter().filter(|wake| *wake > now).min().unwrap_or(now + TICK).min(now + TICK)
    }
}
