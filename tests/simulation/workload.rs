//! One simulated run from one seed: settings, messages, faults, and what must be true afterwards.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::Duration;

use jetsink::delivery::Guarantee;
use jetsink::disposition::{Backoff, Rng};
use jetsink::envelope::Identity;
use jetsink::runner::{DeliverySettings, Order, TemporaryFailureAction};
use jetsink::testing::model_stream::{
    DeadLetterConduct, DurableConfig, Network, Retention, Snapshot, StreamConfig,
};
use jetsink::testing::{Conduct, Disturbance, Entry, FaultPlan, RecordFault};
use tokio::time::{Instant, sleep_until};

use crate::invariants::{Expectations, Violation, check, trace};
use crate::world::{Setup, World};

/// Everything one seed decides.
pub(crate) struct Case {
    seed: u64,
    setup: Setup,
    plan: FaultPlan,
    /// When each message is published, its subject, and whether the gate will say no.
    messages: Vec<(Duration, String, bool)>,
    /// What the sink has against single records, by stream sequence.
    record_faults: BTreeMap<u64, RecordFault>,
    horizon: Duration,
}

/// What went wrong, ready to be shown.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) text: String,
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "seed {}: {} messages", self.seed, self.messages.len())?;
        writeln!(formatter, "  {:?}", self.setup)?;
        writeln!(formatter, "  record faults {:?}", self.record_faults)?;
        for fault in &self.plan.faults {
            writeln!(formatter, "  {:>9.3} {:?}", fault.at.as_secs_f64(), fault.disturbance)?;
        }
        Ok(())
    }
}

impl Case {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let rng = &mut Rng::seeded(seed);
        let horizon = Duration::from_secs(20 + rng.below(60));
        let count = rng.below(14);
        let mut plan = FaultPlan::seeded(rng, horizon, count);
        // With few attempts, what makes attempts count without a record's own fault would rightly dead-letter good records.
        let few_attempts = rng.below(2) == 0;
        if few_attempts {
            for fault in &mut plan.faults {
                if let Disturbance::Sink(
                    conduct @ (Conduct::Transient { probe_passes: true }
                    | Conduct::StoresHalf
                    | Conduct::LosesAnswer
                    | Conduct::HangsAfterStoring),
                ) = &mut fault.disturbance
                {
                    *conduct = Conduct::Down;
                }
            }
        }
        let setup = setup(seed, few_attempts, rng);
        let messages = messages(rng, horizon);
        let record_faults = record_faults(rng, &messages);
        Self { seed, setup, plan, messages, record_faults, horizon }
    }

    /// Runs the case on the clock of the current runtime, which must be paused.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        self.played().await.verdict(&self)
    }

    /// Runs the case and gives everything that came about.
    pub(crate) async fn entries(self) -> Vec<Entry> {
        self.played().await.world.journal().entries()
    }

    async fn played(&self) -> Run {
        let mut run = Run::begin(self);
        run.play(self).await;
        run.mend();
        let patience = Duration::from_secs(7200);
        if !run.world.settle_down(patience).await {
            let left = run.world.server.unsettled();
            run.world.failures.push(format!(
                "not settled after {patience:?}: {:?}, unsettled {left:?}",
                run.world.server.facts()
            ));
        }
        run.stop_everybody().await;
        run
    }
}

fn setup(seed: u64, few_attempts: bool, rng: &mut Rng) -> Setup {
    let order = pick(rng, &[Order::Stream, Order::Subject, Order::Any]);
    let strict = order != Order::Any && rng.below(4) == 0;
    let temporary_failure_action = if order == Order::Any {
        pick(
            rng,
            &[
                TemporaryFailureAction::HoldBatch,
                TemporaryFailureAction::Nak,
                TemporaryFailureAction::LeaveUnacked,
            ],
        )
    } else {
        TemporaryFailureAction::HoldBatch
    };
    let max_deliver = (rng.below(5) == 0).then(|| 6 + rng.below(20));
    let delivery = DeliverySettings {
        batch_size: 1 + size(rng, 64),
        linger: Duration::from_millis(pick(rng, &[0, 0, 5])),
        max_in_flight_batches: 1 + size(rng, 4),
        max_attempts: if few_attempts { pick(rng, &[3, 5]) } else { 80 },
        crash_limit: if max_deliver.is_some() { 10 } else { 100_000 },
        retry: Backoff {
            initial: Duration::from_millis(50 + rng.below(250)),
            max: Duration::from_secs(3),
            ..Backoff::default()
        },
        temporary_failure_action,
        order,
        strict,
        in_progress: rng.below(8) != 0,
        in_progress_cap: Duration::from_secs(pick(rng, &[3600, 3600, 20])),
        confirm_every: rng.below(3) == 0,
        write_timeout: Duration::from_secs(1 + rng.below(10)),
        shutdown_timeout: Duration::from_secs(7 + rng.below(20)),
        max_parked: pick(rng, &[None, Some(1), Some(5)]),
        ack_term_after_publish: rng.below(3) == 0,
        ..DeliverySettings::default()
    };
    Setup {
        stream: StreamConfig {
            retention: pick(rng, &[Retention::Limits, Retention::Limits, Retention::WorkQueue]),
            ..StreamConfig::default()
        },
        durable: DurableConfig {
            ack_wait: Duration::from_secs(2 + rng.below(29)),
            max_deliver,
            max_ack_pending: pick(rng, &[2, 10, 100, 1000]),
            forgetful: rng.below(2) == 0,
            ..DurableConfig::default()
        },
        delivery,
        guarantee: pick(rng, &[Guarantee::EffectivelyOnce, Guarantee::AtLeastOnce]),
        expires: Duration::from_secs(1 + rng.below(5)),
        seed,
        daemons: if strict { 1 } else { pick(rng, &[1, 1, 2]) },
        own_warehouses: false,
    }
}

fn messages(rng: &mut Rng, horizon: Duration) -> Vec<(Duration, String, bool)> {
    let count = 10 + rng.below(190);
    let bad_share = pick(rng, &[0, 0, 5, 20]);
    let mut at = Duration::ZERO;
    let mut messages = Vec::new();
    for _ in 0..count {
        // Mostly bursts.
        if rng.below(10) == 0 {
            at += Duration::from_millis(rng.below(4000));
        }
        let bad = rng.below(100) < bad_share;
        messages.push((at.min(horizon), format!("src.{}", rng.below(5)), bad));
    }
    messages
}

fn record_faults(rng: &mut Rng, messages: &[(Duration, String, bool)]) -> BTreeMap<u64, RecordFault> {
    let count = pick(rng, &[0, 0, 1, 3]);
    (0..count)
        .map(|_| {
            let fault = match rng.below(6) {
                0 => RecordFault::Refused,
                1 => RecordFault::RefusedSomewhere,
                2 => RecordFault::Transient,
                3 => RecordFault::TransientTimes(1 + u32::try_from(rng.below(3)).unwrap_or(0)),
                4 => RecordFault::SpoilsBatch,
                _ => RecordFault::Down,
            };
            (1 + rng.below(messages.len() as u64), fault)
        })
        .collect()
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[size(rng, choices.len())]
}

fn size(rng: &mut Rng, below: usize) -> usize {
    usize::try_from(rng.below(below as u64)).unwrap_or(0)
}

/// What the world does next by the plan, apart from the plan itself.
enum Mend {
    Reconnect(usize),
    ReconnectAll,
}

struct Run {
    world: World,
    bad: HashSet<Identity>,
    doomed: HashSet<Identity>,
    mends: Vec<(Instant, Mend)>,
    snapshot: Option<(Snapshot, HashSet<Identity>)>,
    rng: Rng,
    /// Nothing is lost between server and daemons, so the server's count of what is with a daemon is exact.
    exact: bool,
}

impl Run {
    fn begin(case: &Case) -> Self {
        let mut world = World::new(case.setup.clone());
        for (&sequence, &fault) in &case.record_faults {
            world.warehouses[0].set_record_fault(sequence, Some(fault));
        }
        world.start_all();
        let lossy = case.plan.faults.iter().any(|fault| {
            matches!(
                fault.disturbance,
                Disturbance::Network(_)
                    | Disturbance::Cut(_)
                    | Disturbance::BreakClient
                    | Disturbance::KillServer(_)
                    | Disturbance::RedeliverNow
            )
        });
        let delivery = &case.setup.delivery;
        let exact = !lossy
            && delivery.temporary_failure_action == TemporaryFailureAction::HoldBatch
            && delivery.in_progress
            && delivery.in_progress_cap > case.horizon;
        Self {
            world,
            bad: HashSet::new(),
            doomed: HashSet::new(),
            mends: Vec::new(),
            snapshot: None,
            rng: Rng::seeded(case.seed ^ 0x5EED),
            exact,
        }
    }

    /// Publishes, disturbs and supervises until the horizon.
    async fn play(&mut self, case: &Case) {
        let start = Instant::now();
        let mut messages = case.messages.iter().peekable();
        let mut faults = case.plan.faults.iter().peekable();
        let mut next_sample = start;
        loop {
            let now = Instant::now();
            while let Some((_, subject, bad)) = messages.next_if(|(at, _, _)| start + *at <= now) {
                let identity = self.world.publish(subject, *bad);
                if *bad {
                    self.bad.insert(identity);
                }
                if case.record_faults.contains_key(&identity.sequence) {
                    self.doomed.insert(identity);
                }
            }
            while let Some(fault) = faults.next_if(|fault| start + fault.at <= now) {
                self.disturb(&fault.disturbance).await;
            }
            self.mend_what_is_due();
            self.world.supervise().await;
            if now >= next_sample {
                self.world.sample(self.exact);
                next_sample = now + Duration::from_millis(500);
            }
            if now >= start + case.horizon && messages.peek().is_none() && faults.peek().is_none() {
                return;
            }
            let next = messages
                .peek()
                .map(|(at, _, _)| start + *at)
                .into_iter()
                .chain(faults.peek().map(|fault| start + fault.at))
                .chain([next_sample])
                .min()
                .unwrap_or(next_sample);
            sleep_until(next.max(now + Duration::from_millis(1))).await;
        }
    }

    async fn disturb(&mut self, disturbance: &Disturbance) {
        self.world.journal().note(format!("{disturbance:?}"));
        let now = Instant::now();
        let slot = size(&mut self.rng, self.world.daemons.len());
        match disturbance {
            Disturbance::Sink(conduct) => self.world.warehouses[0].set_conduct(*conduct),
            Disturbance::DeadLetters(conduct) => self.world.server.set_dead_letters(*conduct),
            Disturbance::Network(network) => self.world.server.set_network(network.clone()),
            Disturbance::Cut(pause) => {
                if let Some(daemon) = &self.world.daemons[slot] {
                    daemon.connection.disconnect();
                    self.mends.push((now + *pause, Mend::Reconnect(slot)));
                }
            }
            Disturbance::BreakClient => {
                if let Some(daemon) = &self.world.daemons[slot] {
                    daemon.connection.break_client();
                }
            }
            Disturbance::KillServer(pause) => {
                self.world.server.kill_server();
                self.mends.push((now + *pause, Mend::ReconnectAll));
            }
            Disturbance::RedeliverNow => {
                for sequence in self.world.server.unsettled().into_iter().take(5) {
                    self.world.server.redeliver_now(sequence);
                }
            }
            Disturbance::Crash(pause) => self.world.crash(slot, *pause),
            Disturbance::Stop(pause) => {
                self.world.stop(slot).await;
                self.world.restart_at[slot] = Some(Instant::now() + *pause);
            }
            Disturbance::RecreateConsumer => {
                self.world.server.delete_consumer();
                self.world.server.create_consumer();
            }
            Disturbance::Purge => self.world.server.purge(),
            Disturbance::RollBack => self.roll_back(),
        }
        if self.snapshot.is_none() {
            self.snapshot = Some((self.world.server.snapshot(), self.doomed.clone()));
        }
    }

    /// Restores the stream to what it was at the first disturbance, with every daemon down.
    fn roll_back(&mut self) {
        let Some((snapshot, _)) = self.snapshot.clone() else { return };
        for slot in 0..self.world.daemons.len() {
            self.world.crash(slot, Duration::from_secs(2));
        }
        self.world.server.roll_back(snapshot);
    }

    fn mend_what_is_due(&mut self) {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = self.mends.drain(..).partition(|(at, _)| *at <= now);
        self.mends = later;
        for (_, mend) in due {
            match mend {
                Mend::Reconnect(slot) => {
                    if let Some(daemon) = &self.world.daemons[slot] {
                        daemon.connection.reconnect();
                    }
                }
                Mend::ReconnectAll => self.world.server.reconnect_all(),
            }
        }
    }

    /// Everything works from now on, except the records that have a fault of their own.
    fn mend(&mut self) {
        self.world.journal().note("everything is mended");
        self.world.warehouses[0].set_conduct(Conduct::Works);
        self.world.server.set_dead_letters(DeadLetterConduct::Works);
        self.world.server.set_network(Network::default());
        self.world.server.reconnect_all();
        self.mends.clear();
        for restart in &mut self.world.restart_at {
            if restart.is_some() {
                *restart = Some(Instant::now());
            }
        }
    }

    async fn stop_everybody(&mut self) {
        for slot in 0..self.world.daemons.len() {
            if let Some(ended) = self.world.stop(slot).await {
                if !ended.drained || ended.unfinished > 0 {
                    self.world.failures.push(format!("with nothing left the stop ended as {ended:?}"));
                }
            }
        }
    }

    fn verdict(self, case: &Case) -> Result<(), Failure> {
        let setup = &case.setup;
        let crash_limit = match setup.durable.max_deliver {
            Some(most) if most <= setup.delivery.crash_limit => most.saturating_sub(1).max(2),
            Some(_) | None => setup.delivery.crash_limit,
        };
        let expectations = Expectations {
            bad: self.bad,
            doomed: self.doomed,
            crash_limit,
            max_deliver: setup.durable.max_deliver,
            patience: Duration::from_secs(60) + setup.durable.ack_wait,
            complete: true,
        };
        let entries = self.world.journal().entries();
        let mut violations = check(&entries, &expectations);
        violations.extend(self.world.failures.iter().map(|failure| Violation {
            invariant: "run",
            detail: failure.clone(),
            identity: None,
        }));
        if violations.is_empty() {
            return Ok(());
        }
        let mut text = format!("{case:?}\n");
        for violation in violations.iter().take(10) {
            text.push_str(&format!("{violation}\n"));
        }
        text.push_str(&format!("({} violations)\n\n{}", violations.len(), trace(&entries, &violations)));
        Err(Failure { seed: case.seed, text })
    }
}
