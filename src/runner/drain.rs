//! The orderly stop (design §6): no new pulls, yet everything that open pulls still bring is received; what is in hand is
//! written; only what cannot be written is given back.

use std::sync::atomic::Ordering;

use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::round::Work;
use super::{Ended, RunError, Runner};
use crate::telemetry::NotReady;

impl Runner {
    pub(super) async fn drain(mut self) -> Result<Ended, RunError> {
        let deadline = Instant::now() + self.core.settings.shutdown_timeout;
        self.core.draining.store(true, Ordering::Release);
        self.core.health.not_ready(NotReady::Draining, "stopping in order");
        info!(open_pulls = self.source.open_pulls(), "stopping in order");
        let drained = match timeout_at(deadline, self.drain_everything()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => return Err(error),
            Err(_) => false,
        };
        let usage = self.core.in_hand.usage();
        let unfinished = usage.batches.messages + usage.parked.messages;
        if unfinished > 0 {
            warn!(unfinished, drained, "messages in hand come back by redelivery");
        }
        Ok(Ended { drained, unfinished })
    }

    async fn drain_everything(&mut self) -> Result<(), RunError> {
        loop {
            self.give_back_what_cannot_be_written();
            self.dispatch();
            if self.has_drained() {
                return Ok(());
            }
            self.step().await?;
        }
    }

    /// On hold, the breaker's as well, nothing can be written, nor behind the failed head of a strict lane; otherwise only what has failed before.
    fn give_back_what_cannot_be_written(&mut self) {
        if self.hold.is_some() || self.tripped.is_some() || self.lanes.is_blocked() {
            self.give_everything_back();
        } else {
            let failed = self.again.drain(..).map(Work::Again).collect();
            self.give_back(failed);
        }
    }

    fn has_drained(&self) -> bool {
        let usage = self.core.in_hand.usage();
        self.source.open_pulls() == 0
            && self.tasks.is_empty()
            && self.lanes.is_empty()
            && self.suspects.is_empty()
            && self.again.is_empty()
            && usage.batches.messages + usage.parked.messages <= self.parking.stalled()
    }
}
