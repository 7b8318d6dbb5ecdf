//! The pull loop: several pulls over one inbox, and every status treated.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, Message, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use crate::delivery::{BoxFuture, Budget, Received, Source, SourceError};
use crate::envelope::{Body, Envelope, Headers, SharedMetadata, SourceNames};
use crate::nats::client::connect::Connection;
use crate::nats::durable::bind::{BoundConsumer, largest_message};
use crate::nats::durable::guard::{Guard, Standing};
use crate::nats::error::NatsError;
use crate::nats::isolation::quarantine::{Quarantine, Renewal};
use crate::nats::isolation::search::Step;
use crate::nats::isolation::stored::StreamReader;
use crate::nats::pulls::open_pulls::{Ask, End, GRACE, OpenPulls, PullLimits};
use crate::nats::pulls::status::PullStatusClass;
use crate::nats::reply;

/// Deliveries given to the loop at once.
const MOST_AT_ONCE: usize = 1024;
/// Between pulls after the server refused one; grows up to eight times this.
const FLOOR: Duration = Duration::from_secs(1);
/// Frames put aside while a question to the server is under way; more wait in the client.
pub(in crate::nats) const MOST_PUT_ASIDE: usize = 4096;
/// A pull request that the client has not taken by then: it writes nothing any more.
pub(in crate::nats) const SEND: Duration = Duration::from_secs(5);

/// Whether what was found is settled is looked at this often.
const SETTLEMENT_LOOK: Duration = Duration::from_millis(20);

/// How pulls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullSettings {
    /// Messages of one pull at the most.
    pub messages: usize,
    /// Bytes of one pull at the most; not below the largest message.
    pub bytes: usize,
    /// How long a pull stays open at the server.
    pub expires: Duration,
}

/// The source of one bound durable.
pub struct PullSource {
    pub(in crate::nats) connection: Connection,
    pub(in crate::nats) guard: Arc<Guard>,
    pub(in crate::nats) names: Arc<SourceNames>,
    pub(in crate::nats) subscription: Subscriber,
    inbox: String,
    subject: String,
    pulls: OpenPulls,
    settings: PullSettings,
    heartbeat: Duration,
    headers_only: bool,
    /// When something was last heard while pulls were open.
    heard: Instant,
    /// No pull goes out before this.
    not_before: Instant,
    /// Refusals in a row.
    refusals: u32,
    /// Frames that came while a question to the server was under way.
    pub(in crate::nats) put_aside: VecDeque<Message>,
    /// A question to the server that is under way; it survives a dropped `pull`.
    verification: Option<Pin<Box<dyn Future<Output = Standing> + Send>>>,
    pub(in crate::nats) quarantine: Arc<Quarantine>,
    pub(in crate::nats) reader: StreamReader,
    pub(in crate::nats) filters: Vec<String>,
    pub(in crate::nats) ack_wait: Duration,
    /// Connections made when the durable was looked at last, and the server then.
    connects: u64,
    server: String,
    /// A search for what kills the client; it survives a dropped `pull`.
    pub(in crate::nats) search: Option<Pin<Box<dyn Future<Output = Step> + Send>>>,
    /// Pulls wait until then for the settlement of what was found.
    pub(in crate::nats) hold_until: Instant,
    /// When the leases of what is held back are due, and the next try to read it.
    pub(in crate::nats) next_lease: Instant,
    pub(in crate::nats) next_try: Instant,
    pub(in crate::nats) trying_again: bool,
    /// The observer was told that something kills the client.
    pub(in crate::nats) announced: bool,
}

/// What a frame meant.
enum Heard {
    Delivery(Received),
    /// Nothing to tell.
    Quiet,
    /// A pull ended in order.
    Ended,
    Failed(SourceError),
}

impl PullSource {
    /// Subscribes to an inbox of its own.
    ///
    /// # Errors
    /// The client is dead.
    pub async fn open(bound: &BoundConsumer, settings: PullSettings) -> Result<Self, NatsError> {
        let connection = bound.connection.clone();
        let inbox = connection.new_inbox();
        let subscription = connection
            .client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| NatsError::Connect(error.to_string()))?;
        let operation = format!("CONSUMER.MSG.NEXT.{}.{}", bound.names.stream, bound.names.consumer);
        let expires = bound.max_expires.map_or(settings.expires, |limit| settings.expires.min(limit));
        let bytes = settings.bytes.min(bound.max_bytes.unwrap_or(usize::MAX));
        let limits = PullLimits {
            messages: settings.messages.min(bound.max_batch.unwrap_or(usize::MAX)).max(1),
            bytes,
            // A durable may allow less than the largest message; then that one is named when it comes (and at start), and
            // the others flow.
            largest_message: largest_message(&connection).min(bytes),
            waiting: bound.max_waiting.unwrap_or(usize::MAX),
        };
        let now = Instant::now();
        let mut source = Self {
            subject: connection.api.subject(&operation),
            guard: Arc::clone(&bound.guard),
            names: Arc::clone(&bound.names),
            subscription,
            inbox,
            pulls: OpenPulls::new(limits),
            settings: PullSettings { expires, ..settings },
            heartbeat: (expires / 3).max(Duration::from_millis(100)),
            headers_only: bound.headers_only,
            heard: Instant::now(),
            not_before: Instant::now(),
            refusals: 0,
            put_aside: VecDeque::new(),
            verification: None,
            quarantine: Arc::clone(&bound.quarantine),
            reader: StreamReader::new(&connection, &bound.names.stream),
            filters: bound.filter_subjects.clone(),
            ack_wait: bound.ack_wait,
            connects: connection.connects(),
            server: connection.server().0,
            search: None,
            hold_until: now,
            next_lease: now,
            next_try: now,
            trying_again: false,
            announced: false,
            connection,
        };
        let client_died = source.quarantine.bind(bound.incarnation);
        source.note_renewal(Renewal::NewClient, client_died);
        Ok(source)
    }

    async fn pull_some(&mut self, budget: Budget) -> Result<Vec<Received>, SourceError> {
        loop {
            if !self.guard.is_verified() || self.connects != self.connection.connects() {
                self.verify().await?;
            }
            if budget.messages > 0
                && let Some(answer) = self.isolate().await
            {
                return answer;
            }
            self.keep_held().await;
            if let Some(message) = self.put_aside.pop_front()
                && let Some(answer) = self.take(message)
            {
                return answer;
            }
            self.send_pulls(budget).await?;
            let wake = self.next_wake(budget);
            tokio::select! {
                message = self.subscription.next() => {
                    let Some(message) = message else { return Err(dead("the subscription has ended")) };
                    if let Some(answer) = self.take(message) {
                        return answer;
                    }
                }
                () = sleep_until(wake) => {
                    if let Some(answer) = self.take_silence() {
                        return answer;
                    }
                }
            }
        }
    }

    /// Asks whether the durable is still ours; every pull of the connection before is forgotten. What comes meanwhile is
    /// put aside: an inbox that ends is how a dead client shows.
    async fn verify(&mut self) -> Result<(), SourceError> {
        self.pulls.forget();
        sleep_until(self.not_before).await;
        let guard = Arc::clone(&self.guard);
        let verification =
            self.verification.get_or_insert_with(|| Box::pin(async move { guard.verify().await }));
        let standing = loop {
            tokio::select! {
                standing = verification.as_mut() => break standing,
                message = self.subscription.next(), if self.put_aside.len() < MOST_PUT_ASIDE => {
                    let Some(message) = message else { return Err(dead("the subscription has ended")) };
                    self.put_aside.push_back(message);
                }
            }
        };
        self.verification = None;
        self.heard = Instant::now();
        match standing {
            Standing::Same => {
                self.note_connection();
                Err(SourceError::Again { detail: "the durable is verified on this connection".into() })
            }
            Standing::Gone => {
                Err(SourceError::Gone { detail: "the durable is gone, or another one now".into() })
            }
            // Still ours, so that nobody has to be asked: a new client, and everything comes again.
            Standing::SetBack => Err(dead("the durable was set back behind what it has delivered")),
            Standing::Unknown => {
                self.refused();
                Err(SourceError::Again { detail: "the durable cannot be verified".into() })
            }
        }
    }

    fn note_connection(&mut self) {
        let connects = self.connection.connects();
        if std::mem::replace(&mut self.connects, connects) == connects {
            return;
        }
        let (server, is_clustered) = self.connection.server();
        let other_server = std::mem::replace(&mut self.server, server) != self.server && !is_clustered;
        self.note_renewal(Renewal::Reconnect { other_server }, true);
    }

    async fn send_pulls(&mut self, budget: Budget) -> Result<(), SourceError> {
        let now = Instant::now();
        let one_by_one = self.quarantine.is_blind(now);
        if self.search.is_some() || self.waits_for_settlement() || (one_by_one && self.pulls.count() > 0) {
            return Ok(());
        }
        let budget = if one_by_one { Budget { messages: budget.messages.min(1), ..budget } } else { budget };
        while now >= self.not_before
            && let Some(ask) = self.pulls.next(budget)
        {
            let reply = format!("{}.{}", self.inbox, ask.number);
            let request =
                self.connection.client.publish_with_reply(self.subject.clone(), reply, self.body(ask));
            match timeout(SEND, request).await {
                Ok(sent) => sent.map_err(|error| dead(&error.to_string()))?,
                Err(_) => return Err(SourceError::Again { detail: "the client takes no request".into() }),
            }
            if self.pulls.count() == 0 {
                self.heard = now;
            }
            self.pulls.sent(ask, now + self.settings.expires + GRACE);
            if one_by_one {
                self.quarantine.single_pull(true);
                break;
            }
        }
        Ok(())
    }

    fn body(&self, ask: Ask) -> Bytes {
        Bytes::from(format!(
            "{{\"batch\":{},\"expires\":{},\"idle_heartbeat\":{},\"max_bytes\":{}}}",
            ask.messages,
            self.settings.expires.as_nanos(),
            self.heartbeat.as_nanos(),
            ask.bytes
        ))
    }

    fn next_wake(&self, budget: Budget) -> Instant {
        let mut wake = Instant::now() + self.settings.expires;
        if self.pulls.count() > 0 {
            wake = wake.min(self.heard + 2 * self.heartbeat);
        }
        if let Some(deadline) = self.pulls.next_deadline() {
            wake = wake.min(deadline);
        }
        if self.not_before > Instant::now() && self.pulls.next(budget).is_some() {
            wake = wake.min(self.not_before);
        }
        if self.waits_for_settlement() {
            wake = wake.min(Instant::now() + SETTLEMENT_LOOK);
        }
        // A lost connection is seen at the next look at the guard.
        wake.min(Instant::now() + Duration::from_millis(500))
    }

    /// Takes one frame and all that are there as well.
    fn take(&mut self, first: Message) -> Option<Result<Vec<Received>, SourceError>> {
        let mut received = Vec::new();
        let mut ended = false;
        let mut next = Some(first);
        self.heard = Instant::now();
        while let Some(message) = next {
            match self.read(message) {
                Heard::Delivery(delivery) => received.push(delivery),
                Heard::Quiet => {}
                Heard::Ended => ended = true,
                // Deliveries that came before are given first; the failure shows again, or is over.
                Heard::Failed(_) if !received.is_empty() => return Some(Ok(received)),
                Heard::Failed(error) => return Some(Err(error)),
            }
            next = if received.len() < MOST_AT_ONCE {
                self.put_aside.pop_front().or_else(|| self.subscription.next().now_or_never().flatten())
            } else {
                None
            };
        }
        if received.is_empty() && !ended { None } else { Some(Ok(received)) }
    }

    fn take_silence(&mut self) -> Option<Result<Vec<Received>, SourceError>> {
        let now = Instant::now();
        let before = self.pulls.count();
        self.pulls.expire(now);
        if self.pulls.count() > 0 && now >= self.heard + 2 * self.heartbeat {
            self.connection.observer.missed_heartbeat();
            self.pulls.forget();
            self.guard.doubt();
            return Some(Err(SourceError::Again {
                detail: "the server's idle heartbeat did not come".into(),
            }));
        }
        (before > 0 && self.pulls.count() == 0).then(|| Ok(Vec::new()))
    }

    fn read(&mut self, message: Message) -> Heard {
        // The reply subject is the server's own word. A status line is not, where an old server (2.9) stored the one that a
        // publisher wrote: that is a message like any other.
        let Some(facts) = message.reply.as_ref().and_then(|reply| reply::parse(reply)) else {
            if let Some(status) = message.status {
                let description = message.description.as_deref().unwrap_or_default();
                let class = PullStatusClass::of(status.as_u16(), description);
                return self.read_status(class, &message, description);
            }
            warn!("a message without the reply subject of a delivery is ignored");
            return Heard::Quiet;
        };
        self.refusals = 0;
        self.pulls.arrived(message.length);
        self.guard.note_delivered(facts.consumer_sequence);
        self.quarantine.received(facts.stream_sequence, facts.consumer_sequence);
        let headers = message.headers.as_ref().map(headers).unwrap_or_default();
        let body = if self.headers_only { omitted(&headers) } else { Body::Present };
        let envelope = Envelope {
            subject: message.subject.into_string(),
            headers,
            payload: message.payload,
            body,
            source: Arc::clone(&self.names),
            stream_sequence: facts.stream_sequence,
            consumer_sequence: facts.consumer_sequence,
            delivery_count: facts.delivered,
            stored_at: facts.stored_at,
            pending: facts.pending,
            metadata: SharedMetadata::NONE,
        };
        let reply = message.reply.map(|reply| Bytes::from(reply.into_string())).unwrap_or_default();
        Heard::Delivery(Received::new(envelope, reply, self.guard.incarnation()))
    }

    fn read_status(&mut self, class: PullStatusClass, message: &Message, description: &str) -> Heard {
        self.connection.observer.pull_status(class);
        let mut end = End::Empty;
        if class.ends_pull() {
            let number = message.subject.rsplit('.').next().and_then(|token| token.parse().ok()).unwrap_or(0);
            let unused = message.headers.as_ref().and_then(|headers| headers.get("Nats-Pending-Messages"));
            self.quarantine.single_pull(false);
            end = self.pulls.ended(number, unused.and_then(|count| count.as_str().parse().ok()));
        }
        match class {
            PullStatusClass::IdleHeartbeat => {
                self.refusals = 0;
                Heard::Quiet
            }
            // A pull of the connection before: it was counted, and nothing follows from it.
            _ if end == End::Unknown => Heard::Quiet,
            PullStatusClass::Expired | PullStatusClass::NoMessages | PullStatusClass::BatchCompleted => {
                self.refusals = 0;
                Heard::Ended
            }
            // The bytes asked for are used up but for less than the next message: the ordinary end of a pull that is bounded
            // in bytes. Without a message before it, the next one is larger than a pull may be.
            PullStatusClass::MessageTooLarge if end == End::Served => {
                self.refusals = 0;
                Heard::Ended
            }
            PullStatusClass::ConsumerDeleted | PullStatusClass::NoResponders => {
                // Stream, consumer or just its leader: the answer to CONSUMER.INFO decides, and settlement waits for it.
                self.guard.doubt();
                self.fail(description)
            }
            PullStatusClass::LeadershipChange | PullStatusClass::ServerShutdown => {
                self.not_before = Instant::now() + FLOOR / 4;
                Heard::Failed(SourceError::Again { detail: description.to_owned() })
            }
            PullStatusClass::PushBased | PullStatusClass::LimitExceeded => {
                Heard::Failed(SourceError::Refused { detail: format!("pull refused: {description}") })
            }
            PullStatusClass::TooManyWaiting
            | PullStatusClass::MessageTooLarge
            | PullStatusClass::BadRequest
            | PullStatusClass::PinMismatch
            | PullStatusClass::Other => self.fail(description),
        }
    }

    fn fail(&mut self, description: &str) -> Heard {
        self.refused();
        if self.refusals < 4 {
            warn!(description, "the server ended a pull");
        } else {
            debug!(description, "the server ended a pull");
        }
        Heard::Failed(SourceError::Again { detail: format!("the server ended a pull: {description}") })
    }

    fn refused(&mut self) {
        self.not_before = Instant::now() + FLOOR * 2u32.pow(self.refusals.min(3));
        self.refusals = self.refusals.saturating_add(1);
    }
}

pub(in crate::nats) fn dead(detail: &str) -> SourceError {
    SourceError::Disconnected { detail: detail.to_owned() }
}

/// The headers, by name for a stable order; values of one name in theirs.
fn headers(map: &HeaderMap) -> Headers {
    let mut lines: Vec<_> = map.iter().collect();
    lines.sort_by(|left, right| (left.0.as_ref() as &str).cmp(right.0.as_ref()));
    let mut headers = Headers::new();
    for (name, values) in lines {
        for value in values {
            headers.append(name.to_string(), Bytes::copy_from_slice(value.as_str().as_bytes()));
        }
    }
    headers
}

fn omitted(headers: &Headers) -> Body {
    let stated = headers.get("Nats-Msg-Size").map(|value| std::str::from_utf8(value).map(str::trim));
    let size = stated.and_then(Result::ok).and_then(|text| text.parse().ok());
    Body::Omitted { original_size: size, malformed: stated.is_some() && size.is_none() }
}

impl Source for PullSource {
    fn pull(&mut self, budget: Budget) -> BoxFuture<'_, Result<Vec<Received>, SourceError>> {
        Box::pin(self.pull_some(budget))
    }

    fn open_pulls(&self) -> usize {
        self.pulls.count()
    }
}

impl std::fmt::Debug for PullSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PullSource")
            .field("names", &self.names)
            .field("pulls", &self.pulls)
            .finish_non_exhaustive()
    }
}
