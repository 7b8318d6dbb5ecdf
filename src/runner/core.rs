//! What the loop and its tasks share.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use super::attempts::{History, Ledger};
use super::breaker::Breaker;
use super::in_hand::InHand;
use super::notices::Notices;
use super::settings::DeliverySettings;
use super::{Durable, Ports};
use crate::delivery::Confirm;
use crate::disposition::Rng;
use crate::envelope::Identity;
use crate::telemetry::{Health, Metrics};

/// Shared by the loop and its tasks.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) ports: Ports,
    pub(super) settings: DeliverySettings,
    pub(super) durable: Durable,
    pub(super) in_hand: InHand,
    pub(super) breaker: Breaker,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Health,
    pub(super) notices: Notices,
    /// How many chunks a heavy gate judges at once: as many as there are cores.
    pub(super) judges: Semaphore,
    /// Wakes the loop: permits came free, or a gate below has moved.
    pub(super) changed: Notify,
    /// Batches whose acks are not confirmed; pulling stops while there are any.
    pub(super) unconfirmed: AtomicUsize,
    /// Rejections that found no room among the parked ones; pulling stops while there are any.
    pub(super) unparked: AtomicUsize,
    /// The orderly stop has begun: nothing is retried in place any more.
    pub(super) draining: AtomicBool,
    ledger: Mutex<Ledger>,
    rng: Mutex<Rng>,
}

impl Core {
    pub(super) fn new(
        ports: Ports,
        settings: DeliverySettings,
        durable: Durable,
        in_hand: InHand,
        telemetry: (Arc<Metrics>, Health),
        seed: u64,
    ) -> Self {
        let (metrics, health) = telemetry;
        Self {
            ports,
            breaker: Breaker::new(settings.breaker),
            settings,
            durable,
            in_hand,
            metrics,
            health,
            notices: Notices::default(),
            judges: Semaphore::new(std::thread::available_parallelism().map_or(1, NonZeroUsize::get)),
            changed: Notify::new(),
            unconfirmed: AtomicUsize::new(0),
            unparked: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            ledger: Mutex::default(),
            rng: Mutex::new(Rng::seeded(seed)),
        }
    }

    /// The delay before the next try after so many failures.
    pub(super) fn delay(&self, failures: u32) -> Duration {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        self.settings.retry.delay(failures.max(1), &mut rng)
    }

    /// The delay before the breaker's next trial.
    pub(super) fn trial_delay(&self) -> Duration {
        self.breaker.delay(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How batches of settlements are confirmed.
    pub(super) const fn confirm(&self) -> Confirm {
        if self.settings.confirm_every { Confirm::Every } else { Confirm::Last }
    }

    /// Whether the orderly stop has begun.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Remembers the history of a record that is given back.
    pub(super) fn keep_history(&self, identity: Identity, history: History) {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).keep(identity, history);
    }

    /// The history of a record that came again.
    pub(super) fn take_history(&self, identity: &Identity) -> Option<History> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).take(identity)
    }
}
