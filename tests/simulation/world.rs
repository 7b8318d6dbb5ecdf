//! A whole world on a paused clock: the model of the server, warehouses, and daemons that run the real runner under a
//! supervisor that starts them again.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jetsink::delivery::{Gate, Guarantee, Judgement};
use jetsink::envelope::{Envelope, Headers, Identity};
use jetsink::runner::{DeliverySettings, Durable, Ended, LeftBehind, Ports, RunError, Runner};
use jetsink::telemetry::{Health, Metrics, NotReady};
use jetsink::testing::builders::HeaderGate;
use jetsink::testing::model_stream::{DurableConfig, ModelConnection, ModelServer, StreamConfig};
use jetsink::testing::{Journal, ScriptedSink, Step, Warehouse};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How a world begins.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) stream: StreamConfig,
    pub(crate) durable: DurableConfig,
    pub(crate) delivery: DeliverySettings,
    pub(crate) guarantee: Guarantee,
    pub(crate) expires: Duration,
    pub(crate) seed: u64,
    /// Daemons that share the durable.
    pub(crate) daemons: usize,
    /// Each daemon writes into a warehouse of its own.
    pub(crate) own_warehouses: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            stream: StreamConfig::default(),
            durable: DurableConfig::default(),
            delivery: DeliverySettings::default(),
            guarantee: Guarantee::EffectivelyOnce,
            expires: Duration::from_secs(5),
            seed: 1,
            daemons: 1,
            own_warehouses: false,
        }
    }
}

/// The gate of a daemon: it rejects what is marked bad, and dies of poison.
struct DeadlyGate {
    poison: HashSet<u64>,
    connection: ModelConnection,
    sink: Arc<ScriptedSink>,
    died: Arc<AtomicBool>,
}

impl Gate for DeadlyGate {
    fn judge(&self, envelope: &Envelope) -> Judgement {
        if self.poison.contains(&envelope.stream_sequence) {
            // From here on nothing this daemon does has any effect; the supervisor clears it away.
            self.connection.kill();
            self.sink.kill();
            self.died.store(true, Ordering::SeqCst);
        }
        HeaderGate.judge(envelope)
    }
}

/// A daemon that runs.
pub(crate) struct Daemon {
    pub(crate) connection: ModelConnection,
    pub(crate) health: Health,
    pub(crate) metrics: Arc<Metrics>,
    sink: Arc<ScriptedSink>,
    died: Arc<AtomicBool>,
    stop: CancellationToken,
    task: JoinHandle<Result<Ended, RunError>>,
}

impl Daemon {
    pub(crate) fn number(&self) -> u32 {
        self.connection.id().0
    }

    /// Everything this daemon does ends now.
    fn kill(&self) {
        self.connection.kill();
        self.sink.kill();
        self.task.abort();
    }
}

/// The world.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) server: ModelServer,
    pub(crate) warehouses: Vec<Warehouse>,
    pub(crate) daemons: Vec<Option<Daemon>>,
    /// Messages that kill whoever reads them.
    pub(crate) poison: HashSet<u64>,
    /// When a daemon that is down is started again.
    pub(crate) restart_at: Vec<Option<Instant>>,
    pub(crate) crashes: usize,
    pub(crate) failures: Vec<String>,
    starts: u64,
}

/// How long the supervisor waits before it starts a daemon again that ended by itself.
const RESTART_DELAY: Duration = Duration::from_secs(1);

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let server = ModelServer::new(setup.stream.clone(), setup.durable.clone(), setup.seed);
        let shared = Warehouse::new(server.journal().clone(), setup.guarantee);
        let warehouses = (0..setup.daemons)
            .map(|_| {
                if setup.own_warehouses {
                    Warehouse::new(server.journal().clone(), setup.guarantee)
                } else {
                    shared.clone()
                }
            })
            .collect();
        Self {
            server,
            warehouses,
            daemons: (0..setup.daemons).map(|_| None).collect(),
            poison: HashSet::new(),
            restart_at: vec![None; setup.daemons],
            crashes: 0,
            failures: Vec::new(),
            starts: 0,
            setup,
        }
    }

    pub(crate) fn journal(&self) -> &Journal {
        self.server.journal()
    }

    pub(crate) fn publish(&self, subject: &str, bad: bool) -> Identity {
        let mut headers = Headers::new();
        if bad {
            headers.append(HeaderGate::HEADER, "1");
        }
        self.server.publish(subject, headers, "{\"v\":1}").expect("the stream is there")
    }

    /// Starts the daemon of this slot, unless it runs.
    pub(crate) fn start(&mut self, slot: usize) {
        self.restart_at[slot] = None;
        if self.daemons[slot].is_some() {
            return;
        }
        let Some(facts) = self.server.facts() else {
            self.restart_at[slot] = Some(Instant::now() + RESTART_DELAY);
            return;
        };
        self.starts += 1;
        let connection = self.server.connect(self.setup.expires);
        let sink = self.warehouses[slot].open();
        let died = Arc::new(AtomicBool::new(false));
        let gate = DeadlyGate {
            poison: self.poison.clone(),
            connection: connection.clone(),
            sink: Arc::clone(&sink),
            died: Arc::clone(&died),
        };
        let ports = Ports {
            gate: Arc::new(gate),
            sink: Arc::<ScriptedSink>::clone(&sink),
            publisher: connection.publisher(),
            acker: connection.acker(),
            watch: connection.watch(),
            clock: Arc::new(self.server.clock()),
        };
        let durable = Durable {
            incarnation: facts.incarnation,
            ack_wait: self.setup.durable.ack_wait,
            max_ack_pending: Some(self.setup.durable.max_ack_pending),
            max_deliver: self.setup.durable.max_deliver,
            stream_makes_markers: false,
            left_behind: (facts.ack_pending > 0).then_some(LeftBehind {
                delivered: facts.delivered,
                redelivered: facts.redelivered,
                longest_ack_wait: self.setup.durable.ack_wait,
            }),
        };
        let (health, metrics) = (Health::new(), Arc::new(Metrics::new().expect("metrics")));
        health.clear(NotReady::Starting);
        let runner = Runner::new(
            connection.source(),
            ports,
            self.setup.delivery.clone(),
            durable,
            (Arc::clone(&metrics), health.clone()),
            self.setup.seed.wrapping_add(self.starts),
        );
        let stop = CancellationToken::new();
        let in_hand_limit = self.in_hand_limit();
        self.journal().write(Step::Started { daemon: connection.id().0, in_hand_limit });
        let task = tokio::spawn(runner.run(stop.clone()));
        self.daemons[slot] = Some(Daemon { connection, health, metrics, sink, died, stop, task });
    }

    pub(crate) fn start_all(&mut self) {
        for slot in 0..self.daemons.len() {
            self.start(slot);
        }
    }

    /// What one daemon may have in hand: its permits and its parked rejections.
    fn in_hand_limit(&self) -> usize {
        let delivery = &self.setup.delivery;
        let limit = self.setup.durable.max_ack_pending;
        let wanted = delivery.batch_size * delivery.max_in_flight_batches;
        let parked =
            delivery.max_parked.unwrap_or_else(|| (limit / 4).min(wanted / 4)).clamp(1, limit.div_ceil(2));
        wanted.min(limit.saturating_sub(parked)).max(1) + parked
    }

    /// Kills the daemon of this slot; it is started again after `pause`.
    pub(crate) fn crash(&mut self, slot: usize, pause: Duration) {
        if let Some(daemon) = self.daemons[slot].take() {
            daemon.kill();
            self.crashes += 1;
            self.journal().note(format!("daemon {} is killed", daemon.number()));
            self.journal().write(Step::Ended { daemon: daemon.number() });
        }
        self.restart_at[slot] = Some(Instant::now() + pause);
    }

    /// Asks the daemon of this slot to stop and waits for it.
    pub(crate) async fn stop(&mut self, slot: usize) -> Option<Ended> {
        let mut daemon = self.daemons[slot].take()?;
        let asked = Instant::now();
        self.journal().note(format!("daemon {} is asked to stop", daemon.number()));
        daemon.stop.cancel();
        let longest = self.setup.delivery.shutdown_timeout + Duration::from_secs(1);
        let ended = tokio::time::timeout(longest, &mut daemon.task).await;
        let took = asked.elapsed();
        let number = daemon.number();
        daemon.kill();
        self.journal().write(Step::Ended { daemon: number });
        match ended {
            Ok(Ok(Ok(ended))) => {
                self.journal().note(format!("daemon {number} stopped in {took:?}: {ended:?}"));
                Some(ended)
            }
            Ok(Ok(Err(error))) => {
                self.note_error(number, &error);
                None
            }
            Ok(Err(_)) if daemon.died.load(Ordering::SeqCst) => None,
            Ok(Err(error)) => {
                self.failures.push(format!("daemon {number} panicked while it stopped: {error}"));
                None
            }
            Err(_) => {
                self.failures.push(format!("daemon {number} did not stop within {longest:?}"));
                None
            }
        }
    }

    /// The supervisor's round: takes note of daemons that ended, and starts those whose time has come.
    pub(crate) async fn supervise(&mut self) {
        for slot in 0..self.daemons.len() {
            if self.daemons[slot].as_ref().is_some_and(|daemon| daemon.died.load(Ordering::SeqCst)) {
                self.crash(slot, RESTART_DELAY);
            }
            if let Some(daemon) = self.daemons[slot].take_if(|daemon| daemon.task.is_finished()) {
                let number = daemon.number();
                daemon.connection.kill();
                daemon.sink.kill();
                match daemon.task.await {
                    Ok(Err(error)) => self.note_error(number, &error),
                    Ok(Ok(ended)) => self.failures.push(format!("daemon {number} ended unasked: {ended:?}")),
                    Err(error) => self.failures.push(format!("daemon {number} panicked: {error}")),
                }
                self.journal().write(Step::Ended { daemon: number });
                self.restart_at[slot] = Some(Instant::now() + RESTART_DELAY);
            }
            if self.restart_at[slot].is_some_and(|at| at <= Instant::now()) {
                self.start(slot);
            }
        }
    }

    fn note_error(&mut self, number: u32, error: &RunError) {
        self.journal().note(format!("daemon {number} ended by itself: {error}"));
        if matches!(error, RunError::Bug(_)) {
            self.failures.push(format!("daemon {number}: {error}"));
        }
    }

    /// Writes down how everybody is. `by_server`: what the server counts as being with a daemon is worth something, since
    /// nothing is lost on the way.
    pub(crate) fn sample(&self, by_server: bool) {
        let backlog = self.backlog().unwrap_or(0);
        for daemon in self.daemons.iter().flatten() {
            let own = usize::try_from(daemon.metrics.in_hand_messages.value()).unwrap_or(0);
            let server = if by_server { self.server.held_by(daemon.connection.id()) } else { 0 };
            let number = daemon.number();
            self.journal().write(Step::InHand { daemon: number, deliveries: own.max(server) });
            self.journal().write(Step::Readiness {
                daemon: number,
                ready: daemon.health.is_ready(),
                backlog,
            });
        }
    }

    /// Messages to deliver or to settle; `None` when the durable is gone.
    pub(crate) fn backlog(&self) -> Option<u64> {
        self.server.facts().map(|facts| facts.pending + facts.ack_pending as u64)
    }

    /// What all daemons count as in hand: more than the server does after a purge.
    pub(crate) fn in_hand(&self) -> i64 {
        self.daemons.iter().flatten().map(|daemon| daemon.metrics.in_hand_messages.value()).sum()
    }

    /// Supervises until everything is settled, or until `patience` is over; says whether it is.
    pub(crate) async fn settle_down(&mut self, patience: Duration) -> bool {
        let give_up = Instant::now() + patience;
        loop {
            self.supervise().await;
            self.sample(false);
            if self.backlog() == Some(0) && self.in_hand() == 0 {
                return true;
            }
            if Instant::now() >= give_up {
                return false;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Supervises for so long.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.supervise().await;
            self.sample(false);
            let rest = until.saturating_duration_since(Instant::now());
            sleep(rest.min(Duration::from_millis(500))).await;
        }
    }
}
