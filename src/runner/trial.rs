//! The loop's side of the breaker: to hold, to let a few through, and to go on.

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::Runner;
use super::breaker::Tripped;
use crate::telemetry::NotReady;

impl Runner {
    /// The breaker is open and no trial is under way: nothing is pulled and nothing is judged.
    pub(super) fn is_waiting_for_trial(&self) -> bool {
        self.tripped.as_ref().is_some_and(|tripped| !tripped.is_on_trial() || self.running > 0)
    }

    /// One round is the trial; a second one has to wait for its outcome.
    pub(super) fn is_on_trial_already(&self) -> bool {
        self.tripped.is_some() && self.running > 0
    }

    /// Begins the hold of a breaker that has opened, and the trial whose time has come.
    pub(super) fn keep_breaker(&mut self) {
        if self.core.breaker.is_open() && self.tripped.is_none() {
            self.trip();
        }
        let now = Instant::now();
        let may_begin = self.running == 0 && self.hold.is_none() && !self.core.is_draining();
        if let Some(tripped) = self.tripped.as_mut()
            && may_begin
            && tripped.next_trial.take_if(|due| *due <= now).is_some()
        {
            info!("a few messages are let through, to see whether they are still rejected");
            self.core.breaker.begin_trial();
            self.core.changed.notify_one();
        }
        self.core.metrics.breaker_open.set(i64::from(self.tripped.is_some()));
    }

    fn trip(&mut self) {
        let counts = self.core.breaker.counts();
        let detail = format!(
            "{} of the last {} messages were rejected (dead_letter.breaker): nothing is pulled and further rejections are \
             withheld; mend producer or policy and restart, or take dead_letter.breaker out to dead-letter them all",
            counts.rejected, counts.judged
        );
        error!(rejected = counts.rejected, of = counts.judged, "too_many_rejections: holding");
        self.core.metrics.breaker_trips.increment();
        self.core.health.not_ready(NotReady::TooManyRejections, detail);
        let now = Instant::now();
        self.tripped = Some(Tripped {
            next_trial: Some(now + self.core.trial_delay()),
            next_release: Some(now + self.core.durable.ack_wait),
        });
    }

    /// A round is over; if it was the trial, its outcome says how to go on.
    pub(super) fn end_trial(&mut self) {
        let Some(tripped) = self.tripped.as_mut().filter(|tripped| tripped.is_on_trial()) else { return };
        let Some((trial, passed)) = self.core.breaker.end_trial() else { return };
        if passed {
            info!(judged = trial.judged, rejected = trial.rejected, "few enough are rejected: going on");
            self.tripped = None;
            self.core.health.clear(NotReady::TooManyRejections);
            self.parking.let_go();
        } else {
            let now = Instant::now();
            let delay = self.core.trial_delay();
            tripped.next_trial = Some(now + delay);
            tripped.next_release = Some(now + self.core.durable.ack_wait);
            warn!(
                judged = trial.judged,
                rejected = trial.rejected,
                next_trial_in = ?delay,
                "they are still rejected: holding on"
            );
        }
    }
}
