//! Telling the server, and making sure that it heard (design §6, confirmation).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::sleep;
use tracing::{info, warn};

use super::core::Core;
use crate::delivery::{Confirm, Settled, Settlement, SettlementKind};
use crate::telemetry::NotReady;

/// Tries after which the server is asked whether the durable is still the same one.
const TRIES: u32 = 3;

/// Sends settlements until they are confirmed, or known to belong to an earlier life of the durable. While they are not
/// confirmed, pulling stops and readiness says so.
pub(super) async fn settle(core: &Arc<Core>, settlements: Vec<Settlement>, confirm: Confirm) {
    count_sent(core, &settlements);
    let Some(incarnation) = settlements.first().map(Settlement::incarnation) else { return };
    let mut waiting = Waiting { core, announced: false };
    let mut rest = settlements;
    let mut tries = 0u32;
    loop {
        let size = rest.len();
        rest = match core.ports.acker.settle(rest, confirm).await {
            Settled::Done => return,
            Settled::Gone => {
                core.metrics.settlements_gone.add(size);
                info!(
                    settlements = size,
                    "the durable is another one now: settlements of its earlier life are dropped"
                );
                return;
            }
            Settled::Unconfirmed(rest) => rest,
        };
        tries += 1;
        count_unconfirmed(core, &rest);
        if tries < TRIES {
            continue;
        }
        if let Ok(facts) = core.ports.watch.facts().await
            && facts.incarnation != incarnation
        {
            core.metrics.settlements_gone.add(rest.len());
            return;
        }
        waiting.announce(tries);
        sleep(core.delay(tries - TRIES + 1)).await;
    }
}

/// Gives deliveries back; nobody waits for an answer, since silence brings them back as well.
pub(super) async fn release(core: &Core, settlements: Vec<Settlement>) {
    if settlements.is_empty() {
        return;
    }
    count_sent(core, &settlements);
    match core.ports.acker.settle(settlements, Confirm::Nothing).await {
        Settled::Done => {}
        Settled::Unconfirmed(rest) => core.metrics.deliveries_dropped.add(rest.len()),
        Settled::Gone => core.metrics.settlements_gone.increment(),
    }
}

/// Keeps "acks are not confirmed" true for exactly as long as one batch waits; also when its task is dropped.
struct Waiting<'a> {
    core: &'a Arc<Core>,
    announced: bool,
}

impl Waiting<'_> {
    fn announce(&mut self, tries: u32) {
        if !self.announced {
            self.announced = true;
            self.core.unconfirmed.fetch_add(1, Ordering::AcqRel);
        }
        let detail = "the server does not confirm acknowledgements; is publishing to $JS.ACK.> permitted?";
        warn!(tries, "{detail}");
        self.core.health.not_ready(NotReady::AcksUnconfirmed, detail);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.announced && self.core.unconfirmed.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.core.health.clear(NotReady::AcksUnconfirmed);
            self.core.changed.notify_one();
        }
    }
}

fn count_sent(core: &Core, settlements: &[Settlement]) {
    for settlement in settlements {
        match settlement.kind() {
            SettlementKind::Ack => core.metrics.acks_sent.increment(),
            SettlementKind::Nak { .. } => core.metrics.naks_sent.increment(),
            SettlementKind::Term { .. } => core.metrics.terms_sent.increment(),
        }
    }
}

fn count_unconfirmed(core: &Core, rest: &[Settlement]) {
    core.metrics.settlements_unconfirmed.add(rest.len());
    let terms = rest.iter().filter(|settlement| matches!(settlement.kind(), SettlementKind::Term { .. }));
    core.metrics.terms_unconfirmed.add(terms.count());
}
