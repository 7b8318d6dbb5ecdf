//! One life of the reader: advisories come in, are judged one by one, and wait for what becomes of their messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Subject;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use crate::clock::Timestamp;
use crate::delivery::{Budget, Received, Source as _, SourceError};
use crate::envelope::{Identity, Incarnation, SourceNames};
use crate::nats::advisories::advisory::{Advisory, NoAdvisory};
use crate::nats::advisories::claims::{Claims, Ticket};
use crate::nats::advisories::given_up::{given_up, lost, lost_identity};
use crate::nats::advisories::judge::{Belief, Scene, believe, believe_message};
use crate::nats::advisories::reader::{AdvisoryOutcome, MOST_IN_HAND};
use crate::nats::client::connect::Observer;
use crate::nats::durable::bind::BoundConsumer;
use crate::nats::durable::guard::Guard;
use crate::nats::error::ApiError;
use crate::nats::isolation::search::rebuilt_reply;
use crate::nats::isolation::stored::{StoredMessage, StreamReader};
use crate::nats::pulls::pull::{PullSource, SEND};
use crate::preflight::nanoseconds;

/// An advisory that led to nothing comes again after this time.
const LATER: Duration = Duration::from_secs(5);
/// The same, where the stream may not be read.
const MUCH_LATER: Duration = Duration::from_secs(60);
/// Between two lines about one kind of trouble.
const SELDOM: Duration = Duration::from_secs(10);

const ACK: Bytes = Bytes::from_static(b"+ACK");
const IN_PROGRESS: Bytes = Bytes::from_static(b"+WPI");

/// What is needed to turn an advisory into a message: all about the bound durable.
#[derive(Debug)]
pub(in crate::nats) struct Hand {
    pub(in crate::nats) names: Arc<SourceNames>,
    pub(in crate::nats) guard: Arc<Guard>,
    pub(in crate::nats) claims: Arc<Claims>,
    pub(in crate::nats) reader: StreamReader,
    pub(in crate::nats) observer: Arc<dyn Observer>,
    pub(in crate::nats) stream_created: Option<i64>,
    pub(in crate::nats) is_work_queue: bool,
    pub(in crate::nats) is_clustered: bool,
    /// The subject of every message, if there is only one.
    pub(in crate::nats) only_subject: Option<String>,
    pub(in crate::nats) remove_exhausted: bool,
    pub(in crate::nats) door: mpsc::Sender<Received>,
}

/// An advisory in hand.
#[derive(Debug)]
struct Entry {
    reply: Bytes,
    advisory: Advisory,
}

/// One whose message was handed over.
#[derive(Debug)]
struct Held {
    identity: Identity,
    ticket: Arc<Ticket>,
}

#[derive(Debug)]
enum Judged {
    /// It needs no message.
    Done(AdvisoryOutcome),
    Held(Held, AdvisoryOutcome),
    Later(Duration),
}

/// The advisories of one bound advisory durable.
pub(in crate::nats) struct Desk {
    hand: Arc<Hand>,
    bound: BoundConsumer,
    source: PullSource,
    /// Bytes of one pull.
    bytes: usize,
    waiting: VecDeque<Entry>,
    /// The one that is judged now; while it waits at the door of the loop, so do all behind it.
    judging: Option<(Bytes, BoxFuture<'static, Judged>)>,
    held: Vec<Held>,
    next_lease: Instant,
    said_at: Option<Instant>,
}

impl Desk {
    pub(in crate::nats) fn new(
        hand: Arc<Hand>,
        bound: BoundConsumer,
        source: PullSource,
        bytes: usize,
    ) -> Self {
        hand.claims.prune();
        Self {
            hand,
            next_lease: Instant::now() + bound.ack_wait / 3,
            bound,
            source,
            bytes,
            waiting: VecDeque::new(),
            judging: None,
            held: Vec::new(),
            said_at: None,
        }
    }

    /// Reads until the stream, its durable or the connection ends; says why.
    pub(in crate::nats) async fn run(mut self) -> String {
        let claims = Arc::clone(&self.hand.claims);
        loop {
            self.judge_next();
            let in_hand = self.waiting.len() + self.held.len() + usize::from(self.judging.is_some());
            let budget = Budget { messages: MOST_IN_HAND.saturating_sub(in_hand), bytes: self.bytes };
            let judging = async {
                match &mut self.judging {
                    Some((_, judging)) => judging.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                judged = judging => self.take_judged(judged).await,
                () = claims.changed() => self.look_at_held().await,
                () = sleep_until(self.next_lease) => self.extend().await,
                pulled = self.source.pull(budget) => match pulled {
                    Ok(received) => self.take_in(received).await,
                    Err(SourceError::Again { detail }) => debug!(detail, "no advisories pulled"),
                    Err(error) => return error.to_string(),
                },
            }
        }
    }

    async fn take_in(&mut self, received: Vec<Received>) {
        for captured in received {
            let envelope = captured.envelope();
            let reply = captured.lease().reply().clone();
            let read = if captured.verdict().is_some() {
                Err(NoAdvisory::Malformed("no client can be handed it"))
            } else {
                Advisory::read(&envelope.subject, &envelope.payload, envelope.stored_at, &self.hand.names)
            };
            match read {
                Ok(advisory) => self.waiting.push_back(Entry { reply, advisory }),
                Err(NoAdvisory::Other) => {
                    self.hand.observer.advisory(AdvisoryOutcome::Ignored);
                    self.send(&reply, ACK).await;
                }
                Err(error @ NoAdvisory::Malformed(_)) => {
                    self.hand.observer.advisory(AdvisoryOutcome::Malformed);
                    if self.may_say() {
                        warn!(
                            advisory_sequence = envelope.stream_sequence,
                            %error,
                            "a malformed advisory is put aside; who may publish to $JS.EVENT.>?"
                        );
                    }
                    self.send(&reply, ACK).await;
                }
            }
        }
    }

    fn judge_next(&mut self) {
        if self.judging.is_none()
            && let Some(entry) = self.waiting.pop_front()
        {
            let (hand, guard) = (Arc::clone(&self.hand), Arc::clone(&self.bound.guard));
            let reply = entry.reply.clone();
            self.judging = Some((reply, Box::pin(async move { hand.judge(entry, guard).await })));
        }
    }

    async fn take_judged(&mut self, judged: Judged) {
        let Some((reply, _)) = self.judging.take() else { return };
        match judged {
            Judged::Done(outcome) => {
                self.hand.observer.advisory(outcome);
                if outcome == AdvisoryOutcome::NotBelieved && self.may_say() {
                    warn!(
                        "an advisory contradicts the facts of the server and is put aside; who may publish to $JS.EVENT.>?"
                    );
                }
                self.send(&reply, ACK).await;
            }
            Judged::Held(held, outcome) => {
                self.hand.observer.advisory(outcome);
                self.held.push(held);
                self.look_at_held().await;
            }
            Judged::Later(delay) => self.postpone(&reply, delay).await,
        }
    }

    /// Which messages are settled, and which nobody has in hand any more.
    async fn look_at_held(&mut self) {
        let mut dropped = Vec::new();
        self.held.retain(|held| {
            let is_held = held.ticket.is_held();
            // In this order: a settlement is noted before its claim ends.
            let is_settled = held.ticket.is_settled();
            if !is_held && !is_settled {
                dropped.push((held.identity, Arc::clone(&held.ticket)));
            }
            is_held && !is_settled
        });
        for (identity, ticket) in dropped {
            self.hand.claims.forget(identity, &ticket);
            self.postpone(&ticket.reply, LATER).await;
        }
    }

    async fn postpone(&mut self, reply: &Bytes, delay: Duration) {
        self.hand.observer.advisory(AdvisoryOutcome::Postponed);
        self.send(reply, Bytes::from(format!("-NAK {{\"delay\":{}}}", delay.as_nanos()))).await;
    }

    /// Keeps what is in hand ours.
    async fn extend(&mut self) {
        self.next_lease = Instant::now() + self.bound.ack_wait / 3;
        let judging = self.judging.iter().map(|(reply, _)| reply.clone());
        let waiting = self.waiting.iter().map(|entry| entry.reply.clone());
        let held = self.held.iter().map(|held| held.ticket.reply.clone());
        for reply in judging.chain(waiting).chain(held).collect::<Vec<_>>() {
            self.send(&reply, IN_PROGRESS).await;
        }
    }

    /// A lost one means that the advisory comes again, and is judged anew.
    async fn send(&mut self, reply: &Bytes, payload: Bytes) {
        if !self.bound.guard.is_verified() {
            return;
        }
        if let Ok(subject) = Subject::try_from(reply.clone()) {
            let _comes_again_otherwise =
                timeout(SEND, self.bound.connection.client.publish(subject, payload)).await;
        }
    }

    fn may_say(&mut self) -> bool {
        let now = Instant::now();
        let may = self.said_at.is_none_or(|at| now.duration_since(at) >= SELDOM);
        if may {
            self.said_at = Some(now);
        }
        may
    }
}

impl Hand {
    async fn judge(&self, entry: Entry, advisories: Arc<Guard>) -> Judged {
        let advisory = &entry.advisory;
        let scene = match self.scene().await {
            Ok(scene) => scene,
            Err(delay) => return Judged::Later(delay),
        };
        let sequence = advisory.stream_sequence;
        match believe(advisory, &scene, self.claims.has_settled(sequence)) {
            Belief::Read { may_settle } => match self.reader.get(sequence).await {
                Ok(message) => match believe_message(advisory, &scene, message.stored_at) {
                    None => self.hand_over(&entry, message, may_settle, advisories).await,
                    Some(Belief::Lost) => self.hand_over_loss(&entry, advisories).await,
                    Some(other) => judged(other),
                },
                // Perhaps only just now.
                Err(ApiError::MessageNotFound) if self.claims.has_settled(sequence) => {
                    judged(Belief::Settled)
                }
                Err(ApiError::MessageNotFound) => self.hand_over_loss(&entry, advisories).await,
                Err(error) => {
                    warn!(
                        stream_sequence = sequence,
                        %error,
                        "a message that the server delivers no more cannot be read; permit publishing to \
                         $JS.API.STREAM.MSG.GET.{}",
                        self.names.stream
                    );
                    Judged::Later(MUCH_LATER)
                }
            },
            Belief::Lost => self.hand_over_loss(&entry, advisories).await,
            other @ (Belief::Settled | Belief::Superseded | Belief::NotBelieved) => judged(other),
        }
    }

    /// The server's facts, asked now.
    async fn scene(&self) -> Result<Scene, Duration> {
        let info = self.guard.ask().await.map_err(|error| {
            debug!(%error, "the durable cannot be asked");
            LATER
        })?;
        let created = nanoseconds(&info.created);
        if Incarnation(created) != self.guard.incarnation() {
            // The loop is about to find out as well.
            return Err(LATER);
        }
        Ok(Scene {
            stream_created: self.stream_created.map(Timestamp),
            durable_created: Timestamp(created),
            delivered: info.delivered.stream_seq,
            is_work_queue: self.is_work_queue,
            is_clustered: self.is_clustered,
        })
    }

    async fn hand_over(
        &self,
        entry: &Entry,
        message: StoredMessage,
        may_settle: bool,
        advisories: Arc<Guard>,
    ) -> Judged {
        let identity = Identity { sequence: message.sequence, stored_at: message.stored_at };
        let reply = if may_settle && self.remove_exhausted {
            rebuilt_reply(&self.names, message.sequence)
        } else {
            Bytes::new()
        };
        let ticket = Ticket::new(entry.reply.clone(), advisories);
        let reply = self.claims.claim(identity, reply, Arc::clone(&ticket));
        let received = given_up(&entry.advisory, message, &self.names, self.guard.incarnation(), reply);
        self.through_the_door(received, Held { identity, ticket }, AdvisoryOutcome::HandedOver).await
    }

    async fn hand_over_loss(&self, entry: &Entry, advisories: Arc<Guard>) -> Judged {
        let identity = lost_identity(&entry.advisory);
        let ticket = Ticket::new(entry.reply.clone(), advisories);
        let reply = self.claims.claim(identity, Bytes::new(), Arc::clone(&ticket));
        let incarnation = self.guard.incarnation();
        let subject = self.only_subject.as_deref();
        let received = lost(&entry.advisory, subject, &self.names, incarnation, reply);
        self.through_the_door(received, Held { identity, ticket }, AdvisoryOutcome::Lost).await
    }

    async fn through_the_door(&self, received: Received, held: Held, outcome: AdvisoryOutcome) -> Judged {
        match self.door.send(received).await {
            Ok(()) => Judged::Held(held, outcome),
            // The loop has ended, and its life with it.
            Err(_) => {
                self.claims.forget(held.identity, &held.ticket);
                Judged::Later(LATER)
            }
        }
    }
}

const fn judged(belief: Belief) -> Judged {
    match belief {
        Belief::Settled => Judged::Done(AdvisoryOutcome::Settled),
        Belief::Superseded => Judged::Done(AdvisoryOutcome::Superseded),
        Belief::NotBelieved => Judged::Done(AdvisoryOutcome::NotBelieved),
        Belief::Read { .. } | Belief::Lost => Judged::Later(LATER),
    }
}
