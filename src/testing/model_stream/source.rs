//! Where a daemon's deliveries come from, and what it learns of the durable.

use std::time::Duration;

use tokio::time::Instant;

use super::durable::Pull;
use super::state::{Frame, State};
use super::{ConnectionId, ModelServer};
use crate::delivery::{BoxFuture, Budget, ConsumerFacts, ConsumerWatch, Received, Source, SourceError};
use crate::testing::builders;

/// Pulls that one source keeps open at once.
const MOST_OPEN_PULLS: usize = 4;
/// How long the source waits before it reports that the network does not carry.
const FLOOR: Duration = Duration::from_millis(250);
/// Deadline of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct ModelSource {
    server: ModelServer,
    id: ConnectionId,
    expires: Duration,
}

impl ModelSource {
    pub(super) const fn new(server: ModelServer, id: ConnectionId, expires: Duration) -> Self {
        Self { server, id, expires }
    }

    async fn receive(&self, budget: Budget) -> Result<Vec<Received>, SourceError> {
        let give_up = Instant::now() + FLOOR;
        loop {
            let mut changed = std::pin::pin!(self.server.changed.notified());
            changed.as_mut().enable();
            let until = match self.server.look(|state, now| state.pull(self.id, budget, self.expires, now)) {
                Found::Deliveries(deliveries) => return Ok(deliveries),
                Found::Error(error) => return Err(error),
                Found::Hang => std::future::pending().await,
                Found::Nothing(until) => until,
                Found::Down if Instant::now() >= give_up => {
                    return Err(SourceError::Again { detail: "not connected".into() });
                }
                Found::Down => Some(give_up),
            };
            match until {
                Some(until) => {
                    // Which of the two came first does not matter: the state is looked at again.
                    let _either = tokio::time::timeout_at(until, changed).await;
                }
                None => changed.await,
            }
        }
    }
}

impl Source for ModelSource {
    fn pull(&mut self, budget: Budget) -> BoxFuture<'_, Result<Vec<Received>, SourceError>> {
        Box::pin(self.receive(budget))
    }

    fn open_pulls(&self) -> usize {
        self.server.look(|state, _| state.open_pulls(self.id))
    }
}

enum Found {
    Deliveries(Vec<Received>),
    Error(SourceError),
    Nothing(Option<Instant>),
    Down,
    Hang,
}

impl State {
    fn open_pulls(&self, id: ConnectionId) -> usize {
        let open = self.durable.iter().flat_map(|durable| &durable.pulls);
        let ending = self.links.get(&id).into_iter().flat_map(|link| &link.inbox);
        open.filter(|pull| pull.connection == id).count()
            + ending.filter(|(_, frame)| matches!(frame, Frame::PullEnded)).count()
    }

    /// What open pulls may still bring.
    fn outstanding(&self, id: ConnectionId) -> Budget {
        let mut outstanding = Budget::default();
        let open = self.durable.iter().flat_map(|durable| &durable.pulls);
        for pull in open.filter(|pull| pull.connection == id) {
            outstanding.messages += pull.messages;
            outstanding.bytes += pull.bytes;
        }
        for (_, frame) in self.links.get(&id).into_iter().flat_map(|link| &link.inbox) {
            if let Frame::Delivery(envelope, _) = frame {
                outstanding.messages += 1;
                outstanding.bytes += envelope.weight();
            }
        }
        outstanding
    }

    fn pull(&mut self, id: ConnectionId, budget: Budget, expires: Duration, now: Instant) -> Found {
        let (found, ended) = self.take_arrived(id, now);
        let Some(link) = self.links.get(&id) else { return Found::Hang };
        if !link.alive {
            return Found::Hang;
        }
        if !found.is_empty() {
            return Found::Deliveries(found);
        }
        if link.broken {
            let detail = "the client has stopped".into();
            return Found::Error(SourceError::Disconnected { detail });
        }
        if !link.up {
            return Found::Down;
        }
        if self.durable.as_ref().is_none_or(|durable| durable.incarnation != link.bound) {
            let detail = "consumer deleted".into();
            return Found::Error(SourceError::Gone { detail });
        }
        if ended {
            return Found::Deliveries(Vec::new());
        }
        self.ask(id, budget, expires, now);
        let arrival = self.links.get(&id).and_then(|link| link.inbox.front()).map(|(at, _)| *at);
        Found::Nothing([arrival, self.next_due()].into_iter().flatten().min())
    }

    /// Frames that have arrived: deliveries, and whether a pull has ended.
    fn take_arrived(&mut self, id: ConnectionId, now: Instant) -> (Vec<Received>, bool) {
        let (mut found, mut ended) = (Vec::new(), false);
        let Some(link) = self.links.get_mut(&id) else { return (found, ended) };
        while link.inbox.front().is_some_and(|(at, _)| *at <= now) {
            match link.inbox.pop_front() {
                Some((_, Frame::Delivery(envelope, incarnation))) => {
                    found.push(builders::received(*envelope, incarnation));
                }
                Some((_, Frame::PullEnded)) => ended = true,
                None => break,
            }
        }
        (found, ended)
    }

    /// Sends one more pull for what the budget leaves free.
    fn ask(&mut self, id: ConnectionId, budget: Budget, expires: Duration, now: Instant) {
        let outstanding = self.outstanding(id);
        let messages = budget.messages.saturating_sub(outstanding.messages);
        let bytes = budget.bytes.saturating_sub(outstanding.bytes);
        if messages == 0 || bytes < self.largest || self.open_pulls(id) >= MOST_OPEN_PULLS {
            return;
        }
        if let Some(durable) = &mut self.durable {
            durable.pulls.push_back(Pull { connection: id, messages, bytes, expires_at: now + expires });
        }
        self.advance(now);
    }
}

#[derive(Debug)]
pub(super) struct ModelWatch {
    server: ModelServer,
    id: ConnectionId,
}

impl ModelWatch {
    pub(super) const fn new(server: ModelServer, id: ConnectionId) -> Self {
        Self { server, id }
    }

    async fn ask(&self) -> Result<ConsumerFacts, SourceError> {
        if !self.server.carries(self.id, REQUEST_TIMEOUT).await {
            return Err(SourceError::Again { detail: "no answer to consumer info".into() });
        }
        self.server.look(|state, _| match (&state.durable, &state.stream) {
            (Some(durable), Some(stream)) => Ok(durable.facts(stream)),
            _ => Err(SourceError::Gone { detail: "consumer not found".into() }),
        })
    }
}

impl ConsumerWatch for ModelWatch {
    fn facts(&self) -> BoxFuture<'_, Result<ConsumerFacts, SourceError>> {
        Box::pin(self.ask())
    }
}

impl ModelServer {
    /// Waits until the network carries for this daemon, `patience` at most; hangs for a daemon that is dead.
    pub(super) async fn carries(&self, id: ConnectionId, patience: Duration) -> bool {
        let give_up = Instant::now() + patience;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let (alive, up) = self
                .look(|state, _| state.links.get(&id).map_or((false, false), |link| (link.alive, link.up)));
            if !alive {
                std::future::pending::<()>().await;
            }
            if up {
                return true;
            }
            if tokio::time::timeout_at(give_up, changed).await.is_err() {
                return false;
            }
        }
    }
}
