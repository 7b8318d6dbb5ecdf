//! The loop: permits → pull → batch → settle.
//!
//! One task owns the flow: it pulls as far as the permits reach, notes every arrival in the in-hand map, forms batches, and
//! takes in what the rounds left over. Rounds, probes and questions to the server run as tasks of its own set, so dropping
//! the runner ends them all; what was in hand then comes back by redelivery.

mod admit;
mod attempts;
mod breaker;
mod core;
mod drain;
mod flow;
mod given_up;
mod hold;
mod in_hand;
mod lanes;
mod lease;
mod notices;
mod parking;
mod round;
mod settings;
mod settle;
mod suspicion;
mod trial;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use settings::{BreakerSettings, DeliverySettings, Order, TemporaryFailureAction};

use self::breaker::{TRIAL, Tripped};
use self::core::Core;
use self::hold::Hold;
use self::in_hand::{Bounds, InHand};
use self::lanes::Lanes;
use self::parking::Parking;
use self::round::{RoundOutcome, Tried};
pub use self::suspicion::LeftBehind;
use self::suspicion::Suspicion;
use crate::clock::Clock;
use crate::delivery::{
    Acker, Budget, ConsumerFacts, ConsumerWatch, DeadLetterPublisher, Gate, Received, Sink, Source,
    SourceError,
};
use crate::disposition::Fault;
use crate::envelope::Incarnation;
use crate::telemetry::{Health, Metrics, NotReady};

/// The outside world.
#[derive(Clone)]
pub struct Ports {
    /// The checks.
    pub gate: Arc<dyn Gate>,
    /// The destination.
    pub sink: Arc<dyn Sink>,
    /// Dead letters.
    pub publisher: Arc<dyn DeadLetterPublisher>,
    /// Settlements.
    pub acker: Arc<dyn Acker>,
    /// Facts of the durable.
    pub watch: Arc<dyn ConsumerWatch>,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ports").field("sink", &self.sink.name()).finish_non_exhaustive()
    }
}

/// What the server says about the bound durable and its stream, as far as the loop depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// Its life.
    pub incarnation: Incarnation,
    /// The effective ack wait: the shortest that any delivery may get.
    pub ack_wait: Duration,
    /// Its limit of deliveries that are not settled; `None` = unlimited.
    pub max_ack_pending: Option<usize>,
    /// Its limit of deliveries of one message; `None` = unlimited.
    pub max_deliver: Option<u64>,
    /// The stream makes deletion markers.
    pub stream_makes_markers: bool,
    /// What was unsettled when this process bound the durable for the first time.
    pub left_behind: Option<LeftBehind>,
}

/// How an orderly stop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Everything in hand was settled or given back in time.
    pub drained: bool,
    /// Messages that will come back by redelivery.
    pub unfinished: usize,
}

/// Why the loop ended by itself. Whatever was in hand comes back by redelivery.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// See [`SourceError::Gone`].
    #[error("the stream or its durable is gone: {0}")]
    Gone(String),
    /// See [`SourceError::Disconnected`].
    #[error("the connection is dead: {0}")]
    Disconnected(String),
    /// See [`SourceError::Refused`].
    #[error("the server refuses: {0}")]
    Refused(String),
    /// An invariant is broken: a mistake in this program.
    #[error("internal error: {0}")]
    Bug(String),
}

/// The loop.
#[derive(Debug)]
pub struct Runner {
    source: Box<dyn Source>,
    core: Arc<Core>,
    parking: Arc<Parking>,
    lanes: Lanes,
    /// Records that wait for another try.
    again: Vec<Tried>,
    /// Deliveries that must be alone in hand.
    suspects: VecDeque<Received>,
    suspicion: Suspicion,
    permits: usize,
    crash_limit: u64,
    hold: Option<Hold>,
    /// The hold of an open breaker.
    tripped: Option<Tripped>,
    /// Holds in a row between which nothing was committed.
    fruitless_holds: u32,
    tasks: JoinSet<News>,
    /// Rounds under way.
    running: usize,
    chores: JoinSet<()>,
    next_watch: Option<Instant>,
    overfull: bool,
}

/// What a task of the loop has to say.
#[derive(Debug)]
enum News {
    Round(RoundOutcome),
    Probed(Result<(), Fault>),
    /// The durable's facts; `for_release`: asked by a hold.
    Facts {
        facts: Result<ConsumerFacts, SourceError>,
        for_release: bool,
    },
    /// Settlements of no round are sent.
    Sent,
}

impl Runner {
    /// A loop over these ports. Limits are shrunk, with a warning, to what the durable allows. `seed` is for jitter.
    pub fn new(
        source: Box<dyn Source>,
        ports: Ports,
        settings: DeliverySettings,
        durable: Durable,
        telemetry: (Arc<Metrics>, Health),
        seed: u64,
    ) -> Self {
        let (settings, bounds) = fit(settings, durable);
        let crash_limit = crash_limit(settings.crash_limit, durable.max_deliver);
        let lanes = Lanes::new(&settings, ports.sink.limits());
        let permits = bounds.batches.messages;
        let suspicion = Suspicion::new(permits, crash_limit, durable.left_behind);
        let core = Core::new(ports, settings, durable, InHand::new(bounds), telemetry, seed);
        Self {
            source,
            core: Arc::new(core),
            parking: Arc::default(),
            lanes,
            again: Vec::new(),
            suspects: VecDeque::new(),
            suspicion,
            permits,
            crash_limit,
            hold: None,
            tripped: None,
            fruitless_holds: 0,
            tasks: JoinSet::new(),
            running: 0,
            chores: JoinSet::new(),
            next_watch: Some(Instant::now()),
            overfull: false,
        }
    }

    /// Runs until `stop`, then stops in order (design §6, drain).
    ///
    /// # Errors
    /// See [`RunError`].
    pub async fn run(mut self, stop: CancellationToken) -> Result<Ended, RunError> {
        self.chores.spawn(parking::publish_dead_letters(Arc::clone(&self.core), Arc::clone(&self.parking)));
        if self.core.settings.in_progress {
            self.chores.spawn(lease::keep_leases(Arc::clone(&self.core)));
        }
        if self.suspicion.is_on_probation() {
            info!(
                "processes before this one have left deliveries unsettled again and again: one message is taken at a time for now"
            );
        }
        loop {
            self.dispatch();
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.drain().await,
                step = self.step() => step?,
            }
        }
    }

    /// Waits for the next thing to happen and takes it in. Cancel-safe: its only await point is the select.
    async fn step(&mut self) -> Result<(), RunError> {
        let budget = self.budget();
        let wake = self.next_wake();
        tokio::select! {
            biased;
            Some(news) = self.tasks.join_next() => self.take_news(news)?,
            Some(ended) = self.chores.join_next() => return Err(bug(ended)),
            () = self.core.changed.notified() => {}
            pulled = self.source.pull(budget) => self.take_pulled(pulled)?,
            () = sleep_until(wake) => {}
        }
        for copy in self.parking.take_orphans() {
            self.take_in(copy);
        }
        self.keep_time();
        Ok(())
    }

    /// How much may be pulled now.
    fn budget(&mut self) -> Budget {
        use std::sync::atomic::Ordering;
        let stopped = self.hold.is_some()
            || self.is_waiting_for_trial()
            || self.core.is_draining()
            || !self.suspects.is_empty()
            || self.core.unconfirmed.load(Ordering::Acquire) > 0
            || self.core.unparked.load(Ordering::Acquire) > 0
            || self.is_overfull();
        if stopped {
            return Budget::default();
        }
        let free = self.core.in_hand.free();
        let mut messages = free.messages;
        let used = self.permits.saturating_sub(free.messages);
        if self.tripped.is_some() {
            // What the breaker keeps back is in hand as well; only the messages of the trial count.
            return Budget { messages: messages.min(TRIAL).min(self.suspicion.cap()), bytes: free.bytes };
        }
        messages = messages.min(self.suspicion.cap().saturating_sub(used));
        Budget { messages, bytes: free.bytes }
    }

    fn is_overfull(&mut self) -> bool {
        let subject = self.lanes.overfull(self.permits);
        if let Some(subject) = subject.filter(|_| !self.overfull) {
            info!(
                subject,
                "one subject's lane holds its share of the permits: pulling stops until it has moved on"
            );
        }
        self.overfull = subject.is_some();
        self.overfull
    }

    fn take_pulled(&mut self, pulled: Result<Vec<Received>, SourceError>) -> Result<(), RunError> {
        let received = match pulled {
            Ok(received) => received,
            Err(SourceError::Again { detail }) => {
                debug!(detail, "nothing pulled");
                self.suspicion.restart();
                return Ok(());
            }
            Err(SourceError::Gone { detail }) => return Err(RunError::Gone(detail)),
            Err(SourceError::Disconnected { detail }) => return Err(RunError::Disconnected(detail)),
            Err(SourceError::Refused { detail }) => return Err(RunError::Refused(detail)),
        };
        // What was read from the stream is no delivery, however often the server tried to deliver it.
        let counts = received.iter().filter(|delivery| delivery.verdict().is_none());
        let counts = counts.map(|delivery| delivery.envelope().delivery_count);
        self.suspicion.arrived(counts.clone().max().unwrap_or(0), Instant::now());
        self.core.metrics.messages_received.add(counts.clone().count());
        self.core.metrics.redeliveries_received.add(counts.filter(|count| *count > 1).count());
        let mut markers = Vec::new();
        for delivery in received {
            match delivery.into_marker(self.core.durable.stream_makes_markers) {
                Ok(marker) => markers.push(marker.acknowledge()),
                Err(delivery) => self.take_in(*delivery),
            }
        }
        if !markers.is_empty() {
            info!(
                count = markers.len(),
                "deletion markers of the stream are acknowledged: they are not data"
            );
            self.core.metrics.markers_acknowledged.add(markers.len());
            let core = Arc::clone(&self.core);
            self.tasks.spawn(async move {
                settle::settle(&core, markers, core.confirm()).await;
                News::Sent
            });
        }
        Ok(())
    }

    fn take_news(&mut self, news: Result<News, JoinError>) -> Result<(), RunError> {
        match news.map_err(|error| RunError::Bug(error.to_string()))? {
            News::Round(outcome) => self.take_round(outcome),
            News::Probed(probed) => self.take_probe(probed),
            News::Facts { facts, for_release } => self.take_facts(facts, for_release)?,
            News::Sent => {}
        }
        Ok(())
    }

    fn take_round(&mut self, outcome: RoundOutcome) {
        self.running = self.running.saturating_sub(1);
        if outcome.committed {
            self.fruitless_holds = 0;
            if self.hold.is_none() {
                self.core.health.clear(NotReady::SinkDown);
            }
        }
        for copy in outcome.copies {
            self.take_in(copy);
        }
        if self.core.settings.strict {
            self.lanes.push_first(outcome.again);
        } else {
            self.again.extend(outcome.again);
        }
        self.end_trial();
        if let Some(detail) = outcome.sink_down {
            self.begin_hold(&detail);
        }
    }

    fn take_facts(
        &mut self,
        facts: Result<ConsumerFacts, SourceError>,
        for_release: bool,
    ) -> Result<(), RunError> {
        let now = Instant::now();
        if for_release {
            self.release_if_others_pull(facts.as_ref().ok());
        } else {
            self.next_watch = Some(now + self.core.settings.watch_interval);
        }
        match facts {
            Ok(facts) if facts.incarnation != self.core.durable.incarnation => {
                return Err(RunError::Gone("another durable of the same name took its place".into()));
            }
            Ok(facts) => {
                let metrics = &self.core.metrics;
                metrics.consumer_pending.set(facts.pending);
                metrics.consumer_ack_pending.set(facts.ack_pending);
                metrics.consumer_redelivered.set(facts.redelivered);
                metrics.consumer_ack_floor.set(facts.ack_floor);
                self.suspicion.settled_up_to(facts.ack_floor);
            }
            Err(SourceError::Gone { detail }) => return Err(RunError::Gone(detail)),
            Err(error) => warn!(%error, "the facts of the durable cannot be read"),
        }
        Ok(())
    }

    /// Shows how much is in hand and that the loop moves.
    fn keep_time(&mut self) {
        self.core.health.progress();
        let usage = self.core.in_hand.usage();
        let metrics = &self.core.metrics;
        metrics.in_hand_messages.set(usage.batches.messages + usage.parked.messages);
        metrics.in_hand_bytes.set(usage.batches.bytes + usage.parked.bytes);
        metrics.parked_messages.set(usage.parked.messages);
        metrics.parked_bytes.set(usage.parked.bytes);
        metrics.suspicion_pull_cap.set(self.suspicion.cap());
        metrics.hold_active.set(i64::from(self.hold.is_some()));
        self.keep_breaker();
        self.core.notices.catch_up();
        self.ask_what_is_due();
    }
}

/// Limits that fit the durable: in hand and parked together stay below its `max_ack_pending`, else nothing new would come.
fn fit(mut settings: DeliverySettings, durable: Durable) -> (DeliverySettings, Bounds) {
    let wanted = settings.batch_size.saturating_mul(settings.max_in_flight_batches).max(1);
    let limit = durable.max_ack_pending.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let parked =
        settings.max_parked.unwrap_or_else(|| (limit / 4).min(wanted / 4)).clamp(1, limit.div_ceil(2));
    let permits = wanted.min(limit.saturating_sub(parked)).max(1);
    if permits < wanted {
        settings.batch_size = settings.batch_size.min(permits.div_ceil(2)).max(1);
        warn!(
            max_ack_pending = limit,
            permits,
            batch_size = settings.batch_size,
            "max_in_flight_batches × batch_size is above what the durable's max_ack_pending allows: shrunk"
        );
    }
    let bytes = settings.batch_bytes.saturating_mul(settings.max_in_flight_batches);
    let bounds = Bounds {
        batches: Budget { messages: permits, bytes },
        parked: Budget { messages: parked, bytes: settings.parked_bytes },
    };
    (settings, bounds)
}

/// One below the durable's `max_deliver` where that is finite, since the last delivery gives no second chance (design §5).
fn crash_limit(configured: u64, max_deliver: Option<u64>) -> u64 {
    match max_deliver {
        Some(max_deliver) if max_deliver <= configured => {
            let limit = max_deliver.saturating_sub(1).max(2);
            warn!(
                max_deliver,
                crash_limit = limit,
                "the durable's max_deliver is not above delivery.crash_limit"
            );
            limit
        }
        Some(_) | None => configured,
    }
}

fn bug(ended: Result<(), JoinError>) -> RunError {
    RunError::Bug(ended.map_or_else(|error| error.to_string(), |()| "a background task ended".into()))
}
