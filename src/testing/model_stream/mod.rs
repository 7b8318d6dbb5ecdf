//! An in-memory JetStream: one stream, one durable with explicit ack, a dead-letter stream, and the network between them
//! and any number of daemons.
//!
//! Time is tokio's. Nothing runs by itself: whoever looks at the server first brings it to the present, every ack wait and
//! every expiry at its own moment, so the model is exact and the same from run to run.

mod acker;
mod dead_letters;
mod durable;
mod link;
mod operator;
mod source;
mod state;
mod stream;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub use dead_letters::{DeadLetter, DeadLetterConduct};
pub use durable::DurableConfig;
pub use link::ModelConnection;
pub use operator::Snapshot;
pub use stream::{Retention, StreamConfig};

use super::clock::ModelClock;
use super::journal::Journal;
use state::State;

/// One daemon's connection; also its number in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// What the network does to what travels on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// One way from the server to a daemon.
    pub delivery_latency: Duration,
    /// One way from a daemon to the server.
    pub settlement_latency: Duration,
    /// Share of settle calls that are cut: from some settlement on nothing arrives.
    pub lost_settlements: f64,
    /// Share of settle calls that arrive and whose confirmation does not.
    pub lost_confirmations: f64,
    /// Share of deliveries that are sent and never arrive.
    pub lost_deliveries: f64,
    /// Share of deliveries that arrive late, with all that follow them.
    pub late_deliveries: f64,
    /// The most by which they are late.
    pub lateness: Duration,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            delivery_latency: Duration::from_micros(200),
            settlement_latency: Duration::from_micros(200),
            lost_settlements: 0.0,
            lost_confirmations: 0.0,
            lost_deliveries: 0.0,
            late_deliveries: 0.0,
            lateness: Duration::from_secs(1),
        }
    }
}

/// The server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct ModelServer {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    journal: Journal,
    clock: ModelClock,
}

impl ModelServer {
    /// A server with an empty stream and a new durable. `seed` decides what the network loses.
    #[must_use]
    pub fn new(stream: StreamConfig, durable: DurableConfig, seed: u64) -> Self {
        let journal = Journal::open();
        let clock = ModelClock::start();
        let state = State::new(stream, durable, seed, clock, journal.clone());
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::new(Notify::new()), journal, clock }
    }

    /// What came about so far.
    #[must_use]
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The wall clock that stamps its messages.
    #[must_use]
    pub const fn clock(&self) -> ModelClock {
        self.clock
    }

    /// A new connection of a new daemon, bound to the durable as it is now. A pull stays open for `expires`.
    #[must_use]
    pub fn connect(&self, expires: Duration) -> ModelConnection {
        let id = self.with(State::add_link);
        ModelConnection::new(self.clone(), id, expires)
    }

    /// Looks at the server as it is now, perhaps changes it, and wakes whoever waits for a change.
    fn with<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = Instant::now();
        let mut state = self.lock();
        state.count_look(now);
        state.advance(now);
        let result = act(&mut state, now);
        state.advance(now);
        drop(state);
        self.changed.notify_waiters();
        result
    }

    /// Looks without waking anybody.
    fn look<T>(&self, look: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = Instant::now();
        let mut state = self.lock();
        state.count_look(now);
        state.advance(now);
        look(&mut state, now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
