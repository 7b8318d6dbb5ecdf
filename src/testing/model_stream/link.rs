//! A daemon's connection: it gives out the ports, and it can be cut.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::acker::ModelAcker;
use super::dead_letters::ModelPublisher;
use super::source::{ModelSource, ModelWatch};
use super::state::{Link, State};
use super::{ConnectionId, ModelServer};
use crate::delivery::{Acker, ConsumerWatch, DeadLetterPublisher, Source};
use crate::envelope::Incarnation;

/// One daemon's connection to the server.
#[derive(Clone, Debug)]
pub struct ModelConnection {
    server: ModelServer,
    id: ConnectionId,
    expires: Duration,
}

impl ModelConnection {
    pub(super) const fn new(server: ModelServer, id: ConnectionId, expires: Duration) -> Self {
        Self { server, id, expires }
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> ConnectionId {
        self.id
    }

    /// Where its deliveries come from.
    #[must_use]
    pub fn source(&self) -> Box<dyn Source> {
        Box::new(ModelSource::new(self.server.clone(), self.id, self.expires))
    }

    /// Where its settlements go.
    #[must_use]
    pub fn acker(&self) -> Arc<dyn Acker> {
        Arc::new(ModelAcker::new(self.server.clone(), self.id))
    }

    /// What it learns of the durable.
    #[must_use]
    pub fn watch(&self) -> Arc<dyn ConsumerWatch> {
        Arc::new(ModelWatch::new(self.server.clone(), self.id))
    }

    /// Where its dead letters go.
    #[must_use]
    pub fn publisher(&self) -> Arc<dyn DeadLetterPublisher> {
        Arc::new(ModelPublisher::new(self.server.clone(), self.id))
    }

    /// The daemon dies on the spot: nothing it tries from now on has any effect, and every port of it hangs.
    pub fn kill(&self) {
        self.server.with(|state, now| {
            state.hang_up(self.id, now);
            if let Some(link) = state.links.get_mut(&self.id) {
                link.alive = false;
                link.inbox.clear();
                link.outbox.clear();
            }
        });
    }

    /// Whether the daemon was not killed.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.server.look(|state, _| state.links.get(&self.id).is_some_and(|link| link.alive))
    }

    /// The network stops to carry. What has arrived stays; what was on its way is lost.
    pub fn disconnect(&self) {
        self.server.with(|state, now| state.hang_up(self.id, now));
    }

    /// The network carries again, and the client sends what it has kept.
    pub fn reconnect(&self) {
        self.server.with(|state, now| state.pick_up(self.id, now));
    }

    /// The client dies of something it read: only a new connection helps.
    pub fn break_client(&self) {
        self.server.with(|state, now| {
            state.hang_up(self.id, now);
            if let Some(link) = state.links.get_mut(&self.id) {
                link.broken = true;
            }
        });
    }
}

impl State {
    pub(super) fn add_link(&mut self, _now: Instant) -> ConnectionId {
        let id = ConnectionId(u32::try_from(self.links.len()).unwrap_or(u32::MAX));
        let link = Link {
            bound: self.durable.as_ref().map_or(Incarnation(0), |durable| durable.incarnation),
            alive: true,
            up: true,
            cuts: 0,
            broken: false,
            inbox: std::collections::VecDeque::new(),
            outbox: Vec::new(),
        };
        self.links.insert(id, link);
        id
    }

    pub(super) fn hang_up(&mut self, id: ConnectionId, now: Instant) {
        if let Some(durable) = &mut self.durable {
            durable.pulls.retain(|pull| pull.connection != id);
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.up = false;
            link.cuts += 1;
            link.inbox.retain(|(at, _)| *at <= now);
        }
    }

    pub(super) fn pick_up(&mut self, id: ConnectionId, now: Instant) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.broken {
            return;
        }
        link.up = true;
        // What the client kept goes out before anything new.
        let kept = std::mem::take(&mut link.outbox);
        self.send(kept, now);
    }
}

impl ModelServer {
    /// How often this connection was cut.
    pub(super) fn cuts(&self, id: ConnectionId) -> u64 {
        self.look(|state, _| state.links.get(&id).map_or(u64::MAX, |link| link.cuts))
    }
}
