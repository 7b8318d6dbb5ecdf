//! The hold: the sink works for nobody, so nothing is pulled, what is in hand is kept or given back, and a probe says when
//! to go on (design §5).

use std::time::Duration;

use tokio::time::Instant;

/// A hold that lasts.
#[derive(Debug)]
pub(super) struct Hold {
    /// When the next probe is due; `None` while one is under way.
    pub(super) next_probe: Option<Instant>,
    /// When it is time to ask whether others pull, and so to give back what is in hand; `None` while the server is asked.
    pub(super) next_release: Option<Instant>,
    /// Probes that failed.
    pub(super) failed_probes: u32,
    ack_wait: Duration,
}

impl Hold {
    pub(super) fn begin(now: Instant, delay: Duration, ack_wait: Duration) -> Self {
        Self { next_probe: Some(now + delay), next_release: Some(now + ack_wait), failed_probes: 0, ack_wait }
    }

    /// When the loop must look again.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.next_probe.into_iter().chain(self.next_release).min()
    }

    /// A probe failed; the next one after `delay`.
    pub(super) fn probe_failed(&mut self, now: Instant, delay: Duration) {
        self.failed_probes = self.failed_probes.saturating_add(1);
        self.next_probe = Some(now + delay);
    }

    /// Asks again whether others pull after one more ack wait.
    pub(super) fn release_later(&mut self, now: Instant) {
        self.next_release = Some(now + self.ack_wait);
    }
}
