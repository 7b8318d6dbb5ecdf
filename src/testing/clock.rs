//! The wall clock of a simulation: it moves with tokio's clock.

use tokio::time::Instant;

use crate::clock::{Clock, Timestamp};

/// 2026-01-01 UTC.
const EPOCH: Timestamp = Timestamp(1_767_225_600_000_000_000);

/// A clock that starts on 2026-01-01 and moves with tokio's clock.
#[derive(Clone, Copy, Debug)]
pub struct ModelClock {
    start: Instant,
}

impl ModelClock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// When it was started.
    #[must_use]
    pub const fn started(&self) -> Instant {
        self.start
    }

    /// The wall-clock time at this instant.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Timestamp {
        EPOCH.plus(instant.saturating_duration_since(self.start))
    }
}

impl Clock for ModelClock {
    fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }
}
