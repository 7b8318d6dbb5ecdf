//! What publishers and operators do to the server, and what happens to the machine it runs on.

use bytes::Bytes;
use tokio::time::Instant;

use super::dead_letters::{DeadLetter, DeadLetterConduct};
use super::durable::Durable;
use super::state::State;
use super::stream::{StoredMessage, Stream};
use super::{ConnectionId, ModelServer, Network};
use crate::delivery::ConsumerFacts;
use crate::envelope::{Headers, Identity, Incarnation};
use crate::testing::journal::Step;

/// A copy of the stream and its durable, to which an operator can roll back.
#[derive(Clone, Debug)]
pub struct Snapshot {
    stream: Option<Stream>,
    durable: Option<Durable>,
}

impl ModelServer {
    /// Publishes one message. `None` when there is no stream.
    pub fn publish(&self, subject: &str, headers: Headers, payload: impl Into<Bytes>) -> Option<Identity> {
        let payload = payload.into();
        self.with(|state, now| {
            let stored_at = state.stored_at(now);
            let message = StoredMessage { subject: subject.into(), headers, payload, stored_at };
            state.largest = state.largest.max(message.weight());
            let (identity, removed) = state.stream.as_mut()?.store(message);
            state.journal.write_at(now, Step::Stored { identity });
            for identity in removed {
                state.journal.write_at(now, Step::Removed { identity });
            }
            Some(identity)
        })
    }

    /// Changes what the network does.
    pub fn set_network(&self, network: Network) {
        self.with(|state, _| state.network = network);
    }

    /// Changes what the dead-letter stream does.
    pub fn set_dead_letters(&self, conduct: DeadLetterConduct) {
        self.with(|state, _| state.dead_letters.conduct = conduct);
    }

    /// The dead letters that are stored.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.look(|state, _| state.dead_letters.letters.clone())
    }

    /// What the durable says; `None` when it is gone.
    #[must_use]
    pub fn facts(&self) -> Option<ConsumerFacts> {
        self.look(|state, _| Some(state.durable.as_ref()?.facts(state.stream.as_ref()?)))
    }

    /// The messages the stream keeps.
    #[must_use]
    pub fn kept(&self) -> Vec<Identity> {
        self.look(|state, _| state.stream.iter().flat_map(Stream::identities).collect())
    }

    /// Unsettled deliveries that are with this daemon as far as the server knows.
    #[must_use]
    pub fn held_by(&self, id: ConnectionId) -> usize {
        self.look(|state, _| state.durable.as_ref().map_or(0, |durable| durable.held_by(id)))
    }

    /// Sequences that are delivered and unsettled.
    #[must_use]
    pub fn unsettled(&self) -> Vec<u64> {
        self.look(|state, _| state.durable.iter().flat_map(Durable::pending).collect())
    }

    /// The server redelivers a message at once although its ack wait runs, as a new leader does.
    pub fn redeliver_now(&self, sequence: u64) {
        self.with(|state, now| {
            if let Some(durable) = &mut state.durable {
                durable.lapse_now(sequence, now);
            }
        });
    }

    /// Deletes the durable.
    pub fn delete_consumer(&self) {
        self.with(|state, _| state.durable = None);
    }

    /// Creates the durable anew: it delivers everything again.
    pub fn create_consumer(&self) {
        self.with(|state, _| {
            let incarnation = state.next_incarnation();
            state.durable = Some(Durable::new(state.durable_config.clone(), incarnation));
        });
    }

    /// Deletes the stream and, with it, the durable.
    pub fn delete_stream(&self) {
        self.with(|state, now| {
            state.durable = None;
            let stream = state.stream.take();
            state.removed(stream.iter().flat_map(Stream::identities), now);
        });
    }

    /// Creates stream and durable anew; sequences begin at 1.
    pub fn create_stream(&self) {
        self.with(|state, _| {
            let incarnation = state.next_incarnation();
            state.stream = Some(Stream::new(state.stream_config.clone()));
            state.durable = Some(Durable::new(state.durable_config.clone(), incarnation));
        });
    }

    /// Purges the stream.
    pub fn purge(&self) {
        self.with(|state, now| {
            let Some(stream) = &mut state.stream else { return };
            let removed = stream.purge();
            if let Some(durable) = &mut state.durable {
                durable.forget_missing(stream, now);
            }
            state.removed(removed.into_iter(), now);
        });
    }

    /// A copy to which [`Self::roll_back`] returns.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.look(|state, _| Snapshot { stream: state.stream.clone(), durable: state.durable.clone() })
    }

    /// Restores stream and durable as they were, under the same names and creation times. Every connection is cut.
    pub fn roll_back(&self, snapshot: Snapshot) {
        self.with(|state, now| {
            state.hang_up_all(now);
            state.lose_in_transit();
            let lost: Vec<_> = state
                .stream
                .iter()
                .flat_map(Stream::identities)
                .filter(|own| !snapshot.stream.iter().flat_map(Stream::identities).any(|kept| kept == *own))
                .collect();
            state.removed(lost.into_iter(), now);
            state.stream = snapshot.stream;
            state.durable = snapshot.durable;
            if let Some(durable) = &mut state.durable {
                durable.pulls.clear();
            }
        });
    }

    /// The server is killed: every connection is cut, and a forgetful one forgets its last 20 ms.
    pub fn kill_server(&self) {
        self.with(|state, now| {
            state.hang_up_all(now);
            state.lose_in_transit();
            if let Some(durable) = &mut state.durable {
                durable.restart(now);
            }
        });
    }

    /// Every connection that can comes back.
    pub fn reconnect_all(&self) {
        self.with(|state, now| {
            for id in state.links.keys().copied().collect::<Vec<_>>() {
                state.pick_up(id, now);
            }
        });
    }
}

impl State {
    fn next_incarnation(&mut self) -> Incarnation {
        Incarnation(i64::try_from(self.number()).unwrap_or(i64::MAX))
    }

    fn hang_up_all(&mut self, now: Instant) {
        for id in self.links.keys().copied().collect::<Vec<_>>() {
            self.hang_up(id, now);
        }
    }

    fn removed(&self, identities: impl Iterator<Item = Identity>, now: Instant) {
        for identity in identities {
            self.journal.write_at(now, Step::Removed { identity });
        }
    }
}
