//! Connection news become metrics and readiness.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::nats::{AdvisoryOutcome as Outcome, Observer, PullStatusClass};
use crate::telemetry::{AdvisoryOutcome, Health, Metrics, NotReady, PullStatus};

/// Counts and tells.
#[derive(Debug)]
pub(super) struct AppObserver {
    metrics: Arc<Metrics>,
    health: Health,
    denials: Arc<AtomicU64>,
    /// What is denied about this durable costs dead letters of what the server gives up on, and nothing else.
    advisory_durable: String,
}

/// A denial is over when none came for this long: the server says so only when something is denied.
const QUIET: Duration = Duration::from_secs(10);

/// What may be denied without harm: these only tell more (nats facts §6).
const OPTIONAL: [&str; 4] = [".STREAM.INFO.", ".STREAM.NAMES", ".STREAM.MSG.GET.", ".CONSUMER.LIST."];

impl AppObserver {
    pub(super) fn shared(
        metrics: Arc<Metrics>,
        health: Health,
        advisory_durable: String,
    ) -> Arc<dyn Observer> {
        Arc::new(Self { metrics, health, denials: Arc::default(), advisory_durable })
    }

    /// Clears the reason once no denial came for a while; one task whatever the number of denials.
    fn clear_when_quiet(&self) {
        let (health, denials) = (self.health.clone(), Arc::clone(&self.denials));
        tokio::spawn(async move {
            let mut seen = 0;
            while seen != denials.load(Ordering::Acquire) {
                seen = denials.load(Ordering::Acquire);
                tokio::time::sleep(QUIET).await;
            }
            denials.store(0, Ordering::Release);
            health.clear(NotReady::PermissionDenied);
        });
    }
}

impl Observer for AppObserver {
    fn connected(&self) {
        self.metrics.connects.increment();
        self.health.clear(NotReady::Disconnected);
        // Permissions are the user's on this connection; a denial of the one before says nothing about it.
        self.health.clear(NotReady::PermissionDenied);
    }

    fn disconnected(&self, detail: &str) {
        self.health.not_ready(NotReady::Disconnected, detail);
    }

    fn unreachable(&self, detail: &str) {
        self.health.not_ready(NotReady::Disconnected, detail);
    }

    fn permission_violation(&self, text: &str) {
        self.metrics.permission_violations.increment();
        let mut names = OPTIONAL.iter().copied().chain([self.advisory_durable.as_str()]);
        if names.any(|name| text.contains(name)) {
            return;
        }
        self.health.not_ready(NotReady::PermissionDenied, text);
        if self.denials.fetch_add(1, Ordering::AcqRel) == 0 {
            self.clear_when_quiet();
        }
    }

    fn pull_status(&self, class: PullStatusClass) {
        self.metrics.pull_statuses.increment(match class {
            PullStatusClass::IdleHeartbeat => PullStatus::IdleHeartbeat,
            PullStatusClass::NoMessages => PullStatus::NoMessages,
            PullStatusClass::Expired => PullStatus::Expired,
            PullStatusClass::BatchCompleted => PullStatus::BatchCompleted,
            PullStatusClass::LeadershipChange => PullStatus::LeadershipChange,
            PullStatusClass::ServerShutdown => PullStatus::ServerShutdown,
            PullStatusClass::ConsumerDeleted => PullStatus::ConsumerDeleted,
            PullStatusClass::PushBased => PullStatus::PushBased,
            PullStatusClass::LimitExceeded => PullStatus::LimitExceeded,
            PullStatusClass::TooManyWaiting => PullStatus::TooManyWaiting,
            PullStatusClass::MessageTooLarge => PullStatus::MessageTooLarge,
            PullStatusClass::BadRequest => PullStatus::BadRequest,
            PullStatusClass::PinMismatch => PullStatus::PinMismatch,
            PullStatusClass::NoResponders => PullStatus::NoResponders,
            PullStatusClass::Other => PullStatus::Other,
        });
    }

    fn missed_heartbeat(&self) {
        self.metrics.missed_heartbeats.increment();
    }

    fn client_died(&self) {
        self.metrics.client_deaths.increment();
    }

    fn isolating(&self, detail: Option<&str>) {
        match detail {
            Some(detail) => self.health.not_ready(NotReady::UndeliverableMessage, detail),
            None => self.health.clear(NotReady::UndeliverableMessage),
        }
    }

    fn undeliverable_found(&self, count: usize) {
        self.metrics.undeliverable_found.add(count);
    }

    fn advisory(&self, outcome: Outcome) {
        self.metrics.advisories.increment(match outcome {
            Outcome::HandedOver => AdvisoryOutcome::HandedOver,
            Outcome::Lost => AdvisoryOutcome::Lost,
            Outcome::Settled => AdvisoryOutcome::Settled,
            Outcome::Superseded => AdvisoryOutcome::Superseded,
            Outcome::NotBelieved => AdvisoryOutcome::NotBelieved,
            Outcome::Malformed => AdvisoryOutcome::Malformed,
            Outcome::Ignored => AdvisoryOutcome::Ignored,
            Outcome::Postponed => AdvisoryOutcome::Postponed,
        });
    }

    fn advisory_stream(&self, is_bound: bool) {
        self.metrics.advisory_stream_bound.set(i64::from(is_bound));
    }

    fn exhausted(&self, count: u64) {
        self.metrics.exhausted_messages.set(count);
    }

    fn undeliverable_held(&self, count: usize) {
        self.metrics.undeliverable_held.set(count);
    }
}
