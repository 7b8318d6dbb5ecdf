//! The whole state of the server, and how it comes to the present.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::dead_letters::DeadLetterStream;
use super::durable::{Durable, DurableConfig, Next};
use super::stream::{Retention, StoredMessage, Stream, StreamConfig};
use super::{ConnectionId, Network};
use crate::clock::Timestamp;
use crate::disposition::Rng;
use crate::envelope::{Body, Envelope, Identity, Incarnation, SharedMetadata, SourceNames};
use crate::testing::builders::reply_subject;
use crate::testing::clock::ModelClock;
use crate::testing::journal::{Journal, Step};

/// Looks at one instant that only a loop without a wait can reach.
const HOT: u64 = 100_000;

/// What a daemon says about one message, on its way to the server.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) incarnation: Incarnation,
    pub(super) sequence: u64,
    pub(super) verb: Verb,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    /// An ack or a term.
    Settle,
    Nak(Option<Duration>),
    Extend,
}

/// What the server sends.
#[derive(Clone, Debug)]
pub(super) enum Frame {
    Delivery(Box<Envelope>, Incarnation),
    PullEnded,
}

/// The server's end of one connection, and what has arrived at the other.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) bound: Incarnation,
    /// The daemon still runs.
    pub(super) alive: bool,
    /// The network still carries.
    pub(super) up: bool,
    /// How often it was cut: what was under way before the last cut is never answered.
    pub(super) cuts: u64,
    /// The client of the daemon has died of something it read.
    pub(super) broken: bool,
    pub(super) inbox: VecDeque<(Instant, Frame)>,
    /// Commands given while the network did not carry.
    pub(super) outbox: Vec<Command>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) clock: ModelClock,
    pub(super) journal: Journal,
    pub(super) rng: Rng,
    pub(super) network: Network,
    pub(super) stream: Option<Stream>,
    pub(super) durable: Option<Durable>,
    pub(super) stream_config: StreamConfig,
    pub(super) durable_config: DurableConfig,
    pub(super) dead_letters: DeadLetterStream,
    pub(super) links: BTreeMap<ConnectionId, Link>,
    in_transit: BTreeMap<(Instant, u64), Vec<Command>>,
    number: u64,
    last_stored_at: Timestamp,
    /// How often somebody looked, and when last.
    looks: (Instant, u64),
    /// The heaviest message so far: a pull goes out only when it would fit.
    pub(super) largest: usize,
    names: Arc<SourceNames>,
}

impl State {
    pub(super) fn new(
        stream: StreamConfig,
        durable: DurableConfig,
        seed: u64,
        clock: ModelClock,
        journal: Journal,
    ) -> Self {
        Self {
            clock,
            journal,
            rng: Rng::seeded(seed),
            network: Network::default(),
            names: SourceNames::shared(stream.name.clone(), durable.name.clone()),
            stream: Some(Stream::new(stream.clone())),
            durable: Some(Durable::new(durable.clone(), Incarnation(1))),
            stream_config: stream,
            durable_config: durable,
            dead_letters: DeadLetterStream::default(),
            links: BTreeMap::new(),
            in_transit: BTreeMap::new(),
            number: 1,
            last_stored_at: Timestamp(0),
            looks: (clock.started(), 0),
            largest: 1024,
        }
    }

    /// When the stream stores its next message: later than every one before.
    pub(super) fn stored_at(&mut self, now: Instant) -> Timestamp {
        let at = self.clock.at(now).max(self.last_stored_at.plus(Duration::from_nanos(1)));
        self.last_stored_at = at;
        at
    }

    /// Counts how often somebody looks at the very same instant: a paused clock stands still for a loop that never waits.
    pub(super) fn count_look(&mut self, now: Instant) {
        if self.looks.0 != now {
            self.looks = (now, 0);
        }
        self.looks.1 += 1;
        assert!(
            self.looks.1 < HOT,
            "a loop turns without waiting: it looked at the server {HOT} times at one instant"
        );
    }

    /// A number that was not given before.
    pub(super) fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Brings the server to `now`, every change at its own moment.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some(due) = self.next_due() {
            if due > now {
                break;
            }
            while self.in_transit.first_key_value().is_some_and(|((at, _), _)| *at <= due) {
                let Some((_, commands)) = self.in_transit.pop_first() else { break };
                for command in commands {
                    self.obey(&command, due);
                }
            }
            if let (Some(durable), Some(stream)) = (&mut self.durable, &self.stream) {
                for sequence in durable.lapse(due) {
                    exhausted(&self.journal, stream, sequence, 1, due);
                }
            }
            self.dispatch(due);
        }
        self.dispatch(now);
    }

    /// When something changes next without anybody's doing.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let command = self.in_transit.first_key_value().map(|((at, _), _)| *at);
        let durable = self.durable.as_ref().and_then(Durable::next_due);
        [command, durable].into_iter().flatten().min()
    }

    /// Sends commands on their way; `at` is when they arrive.
    pub(super) fn send(&mut self, commands: Vec<Command>, at: Instant) {
        let number = self.number();
        self.in_transit.insert((at, number), commands);
    }

    /// What was on its way to the server does not arrive.
    pub(super) fn lose_in_transit(&mut self) {
        self.in_transit.clear();
    }

    fn obey(&mut self, command: &Command, now: Instant) {
        let (Some(durable), Some(stream)) = (&mut self.durable, &mut self.stream) else { return };
        if durable.incarnation != command.incarnation {
            return;
        }
        match command.verb {
            Verb::Settle => {
                durable.settle(command.sequence, now);
                if stream.config.retention == Retention::WorkQueue {
                    stream.remove(command.sequence);
                }
            }
            Verb::Nak(delay) => durable.nak(command.sequence, delay, now),
            Verb::Extend => durable.extend(command.sequence, now),
        }
    }

    /// Gives waiting pulls what there is, in turn.
    fn dispatch(&mut self, now: Instant) {
        loop {
            self.end_pulls(now);
            let (Some(durable), Some(stream)) = (&mut self.durable, &self.stream) else { return };
            if durable.pulls.is_empty() {
                return;
            }
            let next = match durable.next(stream, now) {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err((sequence, count)) => {
                    exhausted(&self.journal, stream, sequence, count, now);
                    continue;
                }
            };
            let Some(message) = stream.get(next.sequence) else { return };
            let Some(mut pull) = durable.pulls.pop_front() else { return };
            if message.weight() > pull.bytes {
                pull.messages = 0;
                durable.pulls.push_front(pull);
                continue;
            }
            pull.messages -= 1;
            pull.bytes -= message.weight();
            let connection = pull.connection;
            durable.pulls.push_back(pull);
            durable.sent(next, connection, now);
            let incarnation = durable.incarnation;
            let pending = stream.count_after(durable.delivered());
            let envelope = envelope(&self.names, next, message, pending);
            self.deliver(connection, envelope, incarnation, now);
        }
    }

    fn deliver(
        &mut self,
        connection: ConnectionId,
        envelope: Envelope,
        incarnation: Incarnation,
        now: Instant,
    ) {
        let step = Step::Delivered {
            identity: envelope.identity(),
            reply: reply_subject(&envelope),
            incarnation,
            count: envelope.delivery_count,
            daemon: connection.0,
        };
        self.journal.write_at(now, step);
        let lost = self.network.lost_deliveries > 0.0 && self.rng.fraction() < self.network.lost_deliveries;
        if !lost {
            self.put(connection, Frame::Delivery(Box::new(envelope), incarnation), now);
        }
    }

    fn end_pulls(&mut self, now: Instant) {
        let Some(durable) = &mut self.durable else { return };
        let mut ended = Vec::new();
        durable.pulls.retain(|pull| {
            let open = pull.expires_at > now && pull.messages > 0;
            if !open {
                ended.push(pull.connection);
            }
            open
        });
        for connection in ended {
            self.put(connection, Frame::PullEnded, now);
        }
    }

    /// Puts a frame on the wire: frames of one connection arrive in order.
    fn put(&mut self, connection: ConnectionId, frame: Frame, now: Instant) {
        let mut at = now + self.network.delivery_latency;
        if self.network.late_deliveries > 0.0 && self.rng.fraction() < self.network.late_deliveries {
            at += self.network.lateness.mul_f64(self.rng.fraction());
        }
        let Some(link) = self.links.get_mut(&connection) else { return };
        if !link.up || !link.alive {
            return;
        }
        if let Some((before, _)) = link.inbox.back() {
            at = at.max(*before);
        }
        link.inbox.push_back((at, frame));
    }
}

fn exhausted(journal: &Journal, stream: &Stream, sequence: u64, count: u64, now: Instant) {
    if let Some(message) = stream.get(sequence) {
        let identity = Identity { sequence, stored_at: message.stored_at };
        journal.write_at(now, Step::Exhausted { identity, count });
    }
}

fn envelope(names: &Arc<SourceNames>, next: Next, message: &StoredMessage, pending: u64) -> Envelope {
    Envelope {
        subject: message.subject.clone(),
        headers: message.headers.clone(),
        payload: message.payload.clone(),
        body: Body::Present,
        source: Arc::clone(names),
        stream_sequence: next.sequence,
        consumer_sequence: next.consumer_sequence,
        delivery_count: next.count,
        stored_at: message.stored_at,
        pending,
        metadata: SharedMetadata::NONE,
    }
}
