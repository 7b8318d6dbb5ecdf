//! Where a daemon's settlements go.

use std::time::Duration;

use tokio::time::Instant;

use super::state::{Command, State, Verb};
use super::{ConnectionId, ModelServer};
use crate::delivery::{Acker, BoxFuture, Confirm, Lease, Settled, Settlement, SettlementKind};
use crate::testing::journal::Step;

/// How long a confirmation is awaited.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct ModelAcker {
    server: ModelServer,
    id: ConnectionId,
}

/// How far settlements got.
enum Sent {
    /// Written to the connection; the answer comes then.
    Answer(Instant),
    /// Written; no answer will come.
    NoAnswer,
    /// Kept by the client until the network carries again.
    Kept,
    /// Nothing was sent.
    Gone,
    /// The daemon is dead.
    Hang,
}

impl ModelAcker {
    pub(super) const fn new(server: ModelServer, id: ConnectionId) -> Self {
        Self { server, id }
    }

    async fn send(&self, settlements: Vec<Settlement>, confirm: Confirm) -> Settled {
        if settlements.is_empty() {
            return Settled::Done;
        }
        let cuts = self.server.cuts(self.id);
        let sent = self.server.with(|state, now| state.receive(self.id, &settlements, now));
        match (sent, confirm) {
            (Sent::Hang, _) => std::future::pending().await,
            (Sent::Gone, _) => Settled::Gone,
            (Sent::Answer(_) | Sent::NoAnswer | Sent::Kept, Confirm::Nothing) => Settled::Done,
            (Sent::Answer(at), Confirm::Last | Confirm::Every) => {
                let patience = Instant::now() + CONFIRMATION_TIMEOUT;
                tokio::time::sleep_until(at.min(patience)).await;
                let answered = at <= patience && self.server.cuts(self.id) == cuts;
                if answered { Settled::Done } else { Settled::Unconfirmed(settlements) }
            }
            (Sent::NoAnswer, Confirm::Last | Confirm::Every) => {
                tokio::time::sleep(CONFIRMATION_TIMEOUT).await;
                Settled::Unconfirmed(settlements)
            }
            (Sent::Kept, Confirm::Last | Confirm::Every) => {
                if self.server.carries(self.id, CONFIRMATION_TIMEOUT).await
                    && self.server.look(|state, _| state.is_bound_life(self.id))
                {
                    Settled::Done
                } else {
                    Settled::Unconfirmed(settlements)
                }
            }
        }
    }
}

impl Acker for ModelAcker {
    fn settle(&self, settlements: Vec<Settlement>, confirm: Confirm) -> BoxFuture<'_, Settled> {
        Box::pin(self.send(settlements, confirm))
    }

    fn extend(&self, leases: Vec<Lease>) -> BoxFuture<'_, ()> {
        self.server.with(|state, now| state.extend(self.id, &leases, now));
        Box::pin(std::future::ready(()))
    }
}

impl State {
    fn is_bound_life(&self, id: ConnectionId) -> bool {
        match (&self.durable, self.links.get(&id)) {
            (Some(durable), Some(link)) => durable.incarnation == link.bound,
            _ => false,
        }
    }

    fn receive(&mut self, id: ConnectionId, settlements: &[Settlement], now: Instant) -> Sent {
        let Some(link) = self.links.get(&id) else { return Sent::Hang };
        let (alive, up) = (link.alive, link.up);
        if !alive {
            return Sent::Hang;
        }
        let life = self.durable.as_ref().map(|durable| durable.incarnation);
        // While the network does not carry nobody can know that the durable is another one.
        let sendable =
            |settlement: &&Settlement| !up || life.is_some_and(|life| life == settlement.incarnation());
        let mut commands = Vec::with_capacity(settlements.len());
        for settlement in settlements.iter().filter(sendable) {
            let step = Step::Settled {
                identity: settlement.identity(),
                reply: settlement.reply().clone(),
                incarnation: settlement.incarnation(),
                kind: settlement.kind(),
                daemon: id.0,
            };
            self.journal.write_at(now, step);
            commands.push(command(settlement));
        }
        if commands.is_empty() {
            return Sent::Gone;
        }
        if !up {
            if let Some(link) = self.links.get_mut(&id) {
                link.outbox.append(&mut commands);
            }
            return Sent::Kept;
        }
        let latency = self.network.settlement_latency;
        let cut = self.rng.fraction() < self.network.lost_settlements;
        let unanswered = self.rng.fraction() < self.network.lost_confirmations;
        if cut {
            let keep = self.rng.below(commands.len() as u64);
            commands.truncate(usize::try_from(keep).unwrap_or(0));
        }
        self.send(commands, now + latency);
        if cut || unanswered { Sent::NoAnswer } else { Sent::Answer(now + latency + latency) }
    }

    fn extend(&mut self, id: ConnectionId, leases: &[Lease], now: Instant) {
        if !self.links.get(&id).is_some_and(|link| link.alive && link.up) {
            return;
        }
        let commands = leases
            .iter()
            .filter_map(|lease| {
                let sequence = sequence_of(lease.reply())?;
                Some(Command { incarnation: lease.incarnation(), sequence, verb: Verb::Extend })
            })
            .collect();
        self.send(commands, now + self.network.settlement_latency);
    }
}

fn command(settlement: &Settlement) -> Command {
    let verb = match settlement.kind() {
        SettlementKind::Ack | SettlementKind::Term { .. } => Verb::Settle,
        SettlementKind::Nak { delay } => Verb::Nak(delay),
    };
    Command { incarnation: settlement.incarnation(), sequence: settlement.identity().sequence, verb }
}

/// The stream sequence in a reply subject.
fn sequence_of(reply: &[u8]) -> Option<u64> {
    std::str::from_utf8(reply).ok()?.split('.').nth(5)?.parse().ok()
}
