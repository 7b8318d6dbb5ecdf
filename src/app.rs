//! The composition root: the only file that names every module.
//!
//! Two lives are kept apart. The sink is opened once and lives as long as the process: it has a memory and a lock. The
//! connection, the bound durable and the loop on them live until the server, the durable or the client end them, and are
//! then built anew, with growing delays.

mod observer;
mod open_sink;
mod preflight;
mod signals;
mod stream_watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub(crate) use self::open_sink::open as open_sink;
pub(crate) use self::preflight::plan;

use self::observer::AppObserver;
use self::stream_watch::StreamWatch;
use crate::checks::Gate;
use crate::clock::SystemClock;
use crate::config::Settings;
use crate::delivery::{DeadLetterPublisher, Sink};
use crate::disposition::{Backoff, Rng};
use crate::nats::{
    AdvisoryMemory, AdvisoryReader, BindPlan, BoundConsumer, Connection, FactsReader, NatsAcker, NatsError,
    NatsPublisher, NatsWatch, NoDeadLetters, OnGone, PullSettings, PullSource, Quarantine, SourceWithGivenUp,
    advisory_durable, apply_context, bind, chain,
};
use crate::runner::{Durable, Ended, LeftBehind, Ports, RunError, Runner};
use crate::telemetry::{Health, Metrics, NotReady, admin, logs};

/// `EX_CONFIG` of sysexits: only a change of the configuration, here or at the server, helps.
const EXIT_CONFIG: u8 = 78;
/// `EX_UNAVAILABLE`: what the configuration names is not there.
const EXIT_UNAVAILABLE: u8 = 69;
/// `EX_SOFTWARE`: a mistake in this program.
const EXIT_SOFTWARE: u8 = 70;
/// The orderly stop did not end in time, or a second signal cut it short.
const EXIT_UNFINISHED: u8 = 1;
/// A pipeline that ran for this long was healthy: delays begin anew.
const HEALTHY: Duration = Duration::from_secs(60);
/// How long the connection, and then the sink, may take to close after `delivery.shutdown_timeout`: together with its
/// default of 25 s this stays below the 30 s that Kubernetes gives.
const CLOSE: Duration = Duration::from_secs(2);

/// Runs the daemon until it is told to stop.
#[must_use]
pub fn run(settings: Settings) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(_) => return ExitCode::from(EXIT_SOFTWARE),
    };
    let code = runtime.block_on(async {
        let stop = CancellationToken::new();
        tokio::select! {
            biased;
            () = signals::second_signal(stop.clone()) => {
                warn!("a second signal: ending at once; what was in hand comes back by redelivery");
                ExitCode::from(EXIT_UNFINISHED)
            }
            code = start(settings, stop) => code,
        }
    });
    // A write that hangs in the kernel must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(500));
    code
}

async fn start(mut settings: Settings, stop: CancellationToken) -> ExitCode {
    if let Err(error) = logs::init(&settings.logging) {
        return config_error(&error);
    }
    let metrics = match Metrics::new() {
        Ok(metrics) => Arc::new(metrics),
        Err(error) => {
            error!(%error, "metrics cannot be set up");
            return ExitCode::from(EXIT_SOFTWARE);
        }
    };
    let health = Health::new();
    for warning in &settings.warnings {
        warn!("{warning}");
    }
    if let Some(context) = settings.context.clone()
        && let Err(error) = apply_context(&context, &mut settings.connection)
    {
        return config_error(&error);
    }
    let (quarantine, advisories) = (Arc::new(Quarantine::new()), Arc::default());
    let admin_stop = CancellationToken::new();
    let admin = match settings.admin.listen {
        None => None,
        Some(listen) => {
            match admin::serve(listen, Arc::clone(&metrics), health.clone(), admin_stop.clone()).await {
                Ok(admin) => Some(admin),
                Err(error) => return config_error(&error),
            }
        }
    };
    let code = match Gate::open(settings.gate.clone()) {
        Ok(gate) => {
            let gate = Arc::new(gate);
            say_what_is_checked(&gate);
            let reloading = signals::reload_keys_on_hangup(Arc::clone(&gate), Arc::clone(&metrics));
            tokio::select! {
                biased;
                () = reloading => ExitCode::from(EXIT_SOFTWARE),
                code = run_with_sink(App { settings, gate, metrics, health, stop, quarantine, advisories }) => code,
            }
        }
        Err(error) => config_error(&error),
    };
    admin_stop.cancel();
    if let Some(admin) = admin {
        admin.closed().await;
    }
    code
}

/// Which keys are in use, and which checks nobody asked for.
fn say_what_is_checked(gate: &Gate) {
    for check in gate.absent_checks() {
        info!(check, "not configured: messages pass without it");
    }
    let key_ids = gate.key_ids();
    if !key_ids.is_empty() {
        info!(?key_ids, "keys of authenticity rules are read");
    }
}

fn config_error(error: &dyn std::error::Error) -> ExitCode {
    error!(error = chain(error), "cannot start");
    ExitCode::from(EXIT_CONFIG)
}

struct App {
    settings: Settings,
    gate: Arc<dyn crate::delivery::Gate>,
    metrics: Arc<Metrics>,
    health: Health,
    stop: CancellationToken,
    /// What the clients of this process have learnt about messages that kill them.
    quarantine: Arc<Quarantine>,
    /// The same about the stream of advisories.
    advisories: Arc<AdvisoryMemory>,
}

async fn run_with_sink(app: App) -> ExitCode {
    let sink = match open_sink::open(&app.settings, &app.health, &app.stop).await {
        Ok(Some(sink)) => sink,
        // Stopped while it waited: nothing was in hand.
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => return config_error(&*error),
    };
    let code = app.run_until_stopped(&sink).await;
    match timeout(CLOSE, sink.close(CLOSE)).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => warn!(
            detail = fault.detail(),
            "the sink could not finish everything; what was acknowledged is durable"
        ),
        Err(_) => warn!("the sink did not close in time; what was acknowledged is durable"),
    }
    code
}

const NOTHING_IN_HAND: Ended = Ended { drained: true, unfinished: 0 };

/// How one life of connection and loop ended.
enum Life {
    Stopped(Ended),
    Ended(RunError),
    NotBound(NatsError),
}

impl App {
    /// Builds connection, durable and loop again and again until the stop, or until nothing but a person can help.
    async fn run_until_stopped(&self, sink: &Arc<dyn Sink>) -> ExitCode {
        let backoff = Backoff { max: Duration::from_secs(10), ..Backoff::default() };
        let mut rng = Rng::seeded(seed());
        let mut failures = 0u32;
        let mut bound_before = None;
        loop {
            let (began, isolated) = (Instant::now(), self.quarantine.isolated());
            // Waiting for a server or a durable is not being stuck: a liveness probe must not restart the daemon for it.
            self.health.progress();
            let life = self.live(sink, &mut bound_before).await;
            if let Some(code) = self.judge(&life, bound_before.is_some()) {
                return code;
            }
            // A life that found what had ended the one before was a good one.
            let was_good = began.elapsed() >= HEALTHY || self.quarantine.isolated() > isolated;
            failures = if was_good { 1 } else { failures.saturating_add(1) };
            tokio::select! {
                () = sleep(backoff.delay(failures, &mut rng)) => {}
                () = self.stop.cancelled() => return ExitCode::SUCCESS,
            }
        }
    }

    /// The exit code, if this was the last life.
    fn judge(&self, life: &Life, was_bound: bool) -> Option<ExitCode> {
        match life {
            Life::Stopped(ended) if ended.drained => {
                info!(unfinished = ended.unfinished, "stopped in order");
                Some(ExitCode::SUCCESS)
            }
            Life::Stopped(ended) => {
                error!(unfinished = ended.unfinished, "not stopped in time");
                Some(ExitCode::from(EXIT_UNFINISHED))
            }
            Life::Ended(RunError::Bug(detail)) => {
                error!(detail, "internal error: exiting; what was in hand comes back by redelivery");
                Some(ExitCode::from(EXIT_SOFTWARE))
            }
            Life::Ended(error @ RunError::Gone(_)) => {
                error!(%error, "not ready");
                self.health.not_ready(NotReady::ConsumerGone, error.to_string());
                self.exit_if_gone()
            }
            Life::Ended(error @ RunError::Disconnected(_)) => {
                error!(%error, "the client is built anew");
                self.health.not_ready(NotReady::Disconnected, error.to_string());
                None
            }
            Life::Ended(error @ RunError::Refused(_)) => {
                error!(%error, "not ready");
                self.health.not_ready(NotReady::PullRefused, error.to_string());
                None
            }
            Life::NotBound(error) => self.judge_not_bound(error, was_bound),
        }
    }

    fn judge_not_bound(&self, error: &NatsError, was_bound: bool) -> Option<ExitCode> {
        let text = chain(error);
        error!(error = text, "not bound");
        match error {
            NatsError::Connect(_) => self.health.not_ready(NotReady::Disconnected, text),
            NatsError::Missing(_) if was_bound => {
                self.health.not_ready(NotReady::ConsumerGone, text);
                return self.exit_if_gone();
            }
            NatsError::Missing(_) => return Some(ExitCode::from(EXIT_UNAVAILABLE)),
            error if error.is_configuration() && !was_bound => return Some(ExitCode::from(EXIT_CONFIG)),
            NatsError::Secret(_) if !was_bound => return Some(ExitCode::from(EXIT_CONFIG)),
            NatsError::Secret(_)
            | NatsError::Settings(_)
            | NatsError::Api(_)
            | NatsError::Drift { .. }
            | NatsError::DeadLetterStream(_) => self.health.not_ready(NotReady::ConsumerUnbound, text),
        }
        None
    }

    fn exit_if_gone(&self) -> Option<ExitCode> {
        (self.settings.consumer.on_gone == OnGone::Exit).then(|| ExitCode::from(EXIT_UNAVAILABLE))
    }

    /// One life: connect, bind, look at the dead-letter stream, run the loop.
    async fn live(&self, sink: &Arc<dyn Sink>, bound_before: &mut Option<i64>) -> Life {
        let consumer = &self.settings.consumer;
        let durable = advisory_durable(&consumer.stream, &consumer.durable);
        let observer = AppObserver::shared(Arc::clone(&self.metrics), self.health.clone(), durable);
        let opened = tokio::select! {
            opened = Connection::open(&self.settings.connection, observer) => opened,
            () = self.stop.cancelled() => return Life::Stopped(NOTHING_IN_HAND),
        };
        let connection = match opened {
            Ok(connection) => connection,
            Err(error) => return Life::NotBound(error),
        };
        let life = self.live_on(&connection, sink, bound_before).await;
        connection.close(CLOSE).await;
        life
    }

    async fn live_on(
        &self,
        connection: &Connection,
        sink: &Arc<dyn Sink>,
        bound_before: &mut Option<i64>,
    ) -> Life {
        let (runner, bound, advisories) = match self.bind_all(connection, sink, *bound_before).await {
            Ok(all) => all,
            Err(error) => return Life::NotBound(error),
        };
        *bound_before = Some(bound.stream.as_ref().map_or(0, |stream| stream.created));
        // What the loop before could not do ended with it; the new one finds out for itself.
        for reason in [
            NotReady::Starting,
            NotReady::Disconnected,
            NotReady::ConsumerUnbound,
            NotReady::ConsumerGone,
            NotReady::PullRefused,
            NotReady::SinkDown,
            NotReady::DeadLetterUnavailable,
            NotReady::DeadLetterNotConfigured,
            NotReady::TooManyRejections,
            NotReady::AcksUnconfirmed,
        ] {
            self.health.clear(reason);
        }
        info!(
            stream = self.settings.consumer.stream,
            durable = self.settings.consumer.durable,
            server_version = connection.server_version(),
            sink = sink.name(),
            created = bound.created_now,
            "bound; pulling"
        );
        signals::tell_service_manager(&[sd_notify::NotifyState::Ready]);
        // Dropped, and ended by that, with this life.
        let mut beside = JoinSet::new();
        if let Some(watch) = self.stream_watch(connection, &bound) {
            beside.spawn(watch.run());
        }
        if let Some(advisories) = advisories {
            beside.spawn(advisories.exhausted_watch(self.settings.delivery.watch_interval).run());
            beside.spawn(advisories.run());
        }
        match runner.run(self.stop.clone()).await {
            Ok(ended) => Life::Stopped(ended),
            Err(error) => Life::Ended(error),
        }
    }

    /// Without the permission to look at the stream there is no watch.
    fn stream_watch(&self, connection: &Connection, bound: &BoundConsumer) -> Option<StreamWatch> {
        bound.stream.as_ref()?;
        let every = self.settings.delivery.watch_interval;
        Some(StreamWatch {
            reader: FactsReader::new(connection, self.settings.connection.request_timeout),
            stream: self.settings.consumer.stream.clone(),
            durable: self.settings.consumer.durable.clone(),
            every,
            metrics: Arc::clone(&self.metrics),
        })
    }

    async fn bind_all(
        &self,
        connection: &Connection,
        sink: &Arc<dyn Sink>,
        bound_before: Option<i64>,
    ) -> Result<(Runner, BoundConsumer, Option<AdvisoryReader>), NatsError> {
        let delivery = &self.settings.delivery;
        let wanted = delivery.batch_size.saturating_mul(delivery.max_in_flight_batches);
        let plan =
            BindPlan { bound_before, wanted_ack_pending: wanted.saturating_mul(4).div_ceil(3).max(1000) };
        let bound = bind(connection, &self.settings.consumer, plan).await?;
        let mut bound = bound.with_quarantine(Arc::clone(&self.quarantine));
        if self.settings.dead_letter.is_some() {
            bound = bound.with_advisories();
        }
        for warning in &bound.warnings {
            warn!("{warning}");
        }
        preflight::look(connection, &self.settings, &bound, bound_before.is_none()).await?;
        let publisher = self.publisher(&bound, sink.name(), bound_before.is_some()).await?;
        let pulls = PullSettings {
            messages: (wanted / 2).max(1),
            bytes: delivery.batch_bytes,
            expires: self.settings.consumer.expires,
        };
        let (source, door) = SourceWithGivenUp::new(PullSource::open(&bound, pulls).await?);
        let advisories = self.settings.dead_letter.as_ref().map(|dead_letter| {
            let (mode, memory) = (self.settings.consumer.mode, Arc::clone(&self.advisories));
            AdvisoryReader::new(&bound, &dead_letter.advisories, mode, door, memory)
        });
        let ports = Ports {
            gate: Arc::clone(&self.gate),
            sink: Arc::clone(sink),
            publisher,
            acker: Arc::new(NatsAcker::new(&bound)),
            watch: Arc::new(NatsWatch::new(&bound)),
            clock: Arc::new(SystemClock),
        };
        let durable = Durable {
            incarnation: bound.incarnation,
            ack_wait: bound.ack_wait,
            max_ack_pending: bound.max_ack_pending,
            max_deliver: bound.max_deliver,
            stream_makes_markers: bound.stream.as_ref().is_some_and(|stream| stream.makes_markers),
            // What a life of this very process left unsettled did not kill it.
            left_behind: (bound_before.is_none() && bound.unsettled > 0).then_some(LeftBehind {
                delivered: bound.delivered,
                redelivered: bound.redelivered,
                longest_ack_wait: bound.longest_ack_wait,
            }),
        };
        let telemetry = (Arc::clone(&self.metrics), self.health.clone());
        let runner = Runner::new(Box::new(source), ports, delivery.clone(), durable, telemetry, seed());
        Ok((runner, bound, advisories))
    }

    async fn publisher(
        &self,
        bound: &BoundConsumer,
        sink: &'static str,
        was_bound: bool,
    ) -> Result<Arc<dyn DeadLetterPublisher>, NatsError> {
        let Some(settings) = &self.settings.dead_letter else { return Ok(Arc::new(NoDeadLetters)) };
        let publisher = NatsPublisher::new(bound, settings.clone(), sink);
        match publisher.look().await {
            // It was there at start and vanished since: good messages flow, rejected ones are parked, readiness says so.
            Err(NatsError::Missing(detail)) if was_bound => {
                warn!(detail, "rejected messages wait until the dead-letter stream is back");
            }
            looked => looked?,
        }
        Ok(Arc::new(publisher))
    }
}

fn seed() -> u64 {
    let mut bytes = [0u8; 8];
    // Without entropy the jitter is the same in every process, which is no more than unlucky.
    let _filled = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
