//! Keeps what is in hand ours: one ticker over the in-hand map, so that queued, writing, parked and publishing deliveries
//! are all covered (adr/0008).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::core::Core;

/// Extends every delivery in hand at a third of the effective ack wait. Never ends.
pub(super) async fn keep_leases(core: Arc<Core>) {
    let period = core.durable.ack_wait / 3;
    let mut ticks = interval((period / 4).max(Duration::from_millis(10)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let due = core.in_hand.due_leases(Instant::now(), period, core.settings.in_progress_cap);
        if !due.is_empty() {
            core.metrics.leases_extended.add(due.len());
            core.ports.acker.extend(due).await;
        }
    }
}
