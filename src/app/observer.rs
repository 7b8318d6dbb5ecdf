//! Connection news become metrics and readiness.

use std::sync::Arc;

use crate::nats::{Observer, PullStatusClass};
use crate::telemetry::{Health, Metrics, NotReady, PullStatus};

/// Counts and tells.
#[derive(Debug)]
pub(super) struct AppObserver {
    metrics: Arc<Metrics>,
    health: Health,
}

impl AppObserver {
    pub(super) fn shared(metrics: Arc<Metrics>, health: Health) -> Arc<dyn Observer> {
        Arc::new(Self { metrics, health })
    }
}

impl Observer for AppObserver {
    fn connected(&self) {
        self.metrics.connects.increment();
        self.health.clear(NotReady::Disconnected);
        // Permissions are the user's on this connection; a denial of the one before says nothing about it.
        self.health.clear(NotReady::PermissionDenied);
    }

    fn disconnected(&self) {
        self.health.not_ready(NotReady::Disconnected, "the connection is lost; connecting again");
    }

    fn permission_violation(&self, text: &str) {
        self.metrics.permission_violations.increment();
        self.health.not_ready(NotReady::PermissionDenied, text);
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
}
