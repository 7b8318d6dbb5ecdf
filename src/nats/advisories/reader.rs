//! Reads the advisories of one durable, for as long as the daemon runs, whatever happens to their stream.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use crate::disposition::{Backoff, Rng};
use crate::nats::advisories::desk::{Desk, Hand};
use crate::nats::advisories::exhausted::ExhaustedWatch;
use crate::nats::advisories::setup::{EXPIRES, Place};
use crate::nats::advisories::source::GivenUpDoor;
use crate::nats::client::connect::Connection;
use crate::nats::durable::bind::{BoundConsumer, largest_message};
use crate::nats::error::chain;
use crate::nats::isolation::quarantine::Quarantine;
use crate::nats::isolation::stored::StreamReader;
use crate::nats::pulls::pull::{PullSettings, PullSource};
use crate::nats::settings::{AdvisorySettings, BindMode};

/// What became of an advisory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryOutcome {
    /// Its message was handed over, to be dead-lettered.
    HandedOver,
    /// Its message is gone: the loss was handed over, to be recorded.
    Lost,
    /// It is about a message that was settled, by this daemon or with a term of ours.
    Settled,
    /// It is about an earlier durable of the same name, and the present one delivers the message anew.
    Superseded,
    /// The server's facts contradict it.
    NotBelieved,
    /// It is no advisory.
    Malformed,
    /// It is an advisory of another kind, or about another durable.
    Ignored,
    /// Its message cannot be read or handed over now; it comes again.
    Postponed,
}

/// Advisories that are in hand at once.
pub(in crate::nats) const MOST_IN_HAND: usize = 64;
/// A life that lasted so long was a good one.
const HEALTHY: Duration = Duration::from_secs(60);

/// What outlives the clients of a process.
#[derive(Debug, Default)]
pub struct AdvisoryMemory {
    quarantine: Arc<Quarantine>,
    /// When the advisory stream that was bound last was created.
    bound_before: Mutex<Option<i64>>,
    /// What was said last about a stream that cannot be read.
    said: Mutex<String>,
}

/// Reads advisories beside the loop of one bound durable.
#[derive(Debug)]
pub struct AdvisoryReader {
    connection: Connection,
    place: Place,
    max_deliver: Option<u64>,
    filters: Vec<String>,
    hand: Arc<Hand>,
    memory: Arc<AdvisoryMemory>,
}

/// Why advisories are not read now.
#[derive(Debug)]
enum End {
    NoStream,
    Failed(String),
}

impl AdvisoryReader {
    /// A reader of the advisories about this durable, which must have been bound
    /// [`with_advisories`](BoundConsumer::with_advisories).
    #[must_use]
    pub fn new(
        bound: &BoundConsumer,
        settings: &AdvisorySettings,
        mode: BindMode,
        door: GivenUpDoor,
        memory: Arc<AdvisoryMemory>,
    ) -> Self {
        let place = Place { settings: settings.clone(), mode, names: Arc::clone(&bound.names) };
        let hand = Hand {
            names: Arc::clone(&bound.names),
            guard: Arc::clone(&bound.guard),
            claims: Arc::clone(&bound.claims),
            reader: StreamReader::new(&bound.connection, &bound.names.stream),
            observer: Arc::clone(&bound.connection.observer),
            stream_created: bound.stream.as_ref().map(|stream| stream.created),
            is_work_queue: bound.stream.as_ref().is_some_and(|stream| stream.is_work_queue),
            is_clustered: bound.connection.server().1,
            only_subject: only_subject(&bound.filter_subjects),
            remove_exhausted: settings.remove_exhausted,
            door: door.0,
        };
        Self {
            connection: bound.connection.clone(),
            place,
            max_deliver: bound.max_deliver,
            filters: bound.filter_subjects.clone(),
            hand: Arc::new(hand),
            memory,
        }
    }

    /// What counts the messages that a work queue keeps for nobody, every `interval`.
    #[must_use]
    pub fn exhausted_watch(&self, interval: Duration) -> ExhaustedWatch {
        ExhaustedWatch {
            connection: self.connection.clone(),
            place: self.place.clone(),
            hand: Arc::clone(&self.hand),
            filters: self.filters.clone(),
            max_deliver: self.max_deliver,
            interval,
        }
    }

    /// Reads until it is dropped. What goes wrong is said, shown and tried again with growing delays; a panic is no
    /// exception.
    pub async fn run(self) {
        let reader = Arc::new(self);
        let backoff = Backoff::default();
        let mut rng = Rng::seeded(u64::from(std::process::id()));
        let mut failures = 0u32;
        loop {
            let began = Instant::now();
            let mut life = JoinSet::new();
            let own = Arc::clone(&reader);
            life.spawn(async move { own.live().await });
            let end = match life.join_next().await {
                Some(Ok(end)) => end,
                Some(Err(error)) => End::Failed(format!("internal error: {error}")),
                None => End::Failed("internal error".into()),
            };
            reader.hand.observer.advisory_stream(false);
            reader.say(&end);
            failures = if began.elapsed() >= HEALTHY { 1 } else { failures.saturating_add(1) };
            sleep(backoff.delay(failures, &mut rng)).await;
        }
    }

    /// One life: find the stream, bind its durable, read.
    async fn live(&self) -> End {
        let failed = |error: &dyn std::error::Error| End::Failed(chain(error));
        let stream = match self.place.find(&self.connection).await {
            Ok(Some(stream)) => stream,
            Ok(None) => return End::NoStream,
            Err(error) => return failed(&error),
        };
        let before = *self.memory.bound_before.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = match self.place.bind(&self.connection, stream, before).await {
            Ok(bound) => bound.with_quarantine(Arc::clone(&self.memory.quarantine)),
            Err(error) => return failed(&error),
        };
        *self.memory.bound_before.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(bound.stream.as_ref().map_or(0, |stream| stream.created));
        for warning in &bound.warnings {
            warn!(stream = bound.names.stream, "advisory stream: {warning}");
        }
        let bytes = 2 * largest_message(&bound.connection);
        let pulls = PullSettings { messages: MOST_IN_HAND, bytes, expires: EXPIRES };
        let source = match PullSource::open(&bound, pulls).await {
            Ok(source) => source,
            Err(error) => return failed(&error),
        };
        info!(
            stream = bound.names.stream,
            durable = bound.names.consumer,
            "bound; what the server delivers no more is learnt from its advisories"
        );
        self.memory.said.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.hand.observer.advisory_stream(true);
        End::Failed(Desk::new(Arc::clone(&self.hand), bound, source, bytes).run().await)
    }

    /// Says it once, until it is something else.
    fn say(&self, end: &End) {
        let text = match end {
            End::NoStream => match self.max_deliver {
                Some(limit) => format!(
                    "the durable has max_deliver = {limit}, and no stream captures its advisories: a message that the server \
                     gives up on gets no dead letter. Make the stream with jetsink dlq init -c FILE"
                ),
                None => "no stream captures the advisories of the durable: a message that somebody else terminates gets no dead \
                         letter (jetsink dlq init makes it)"
                    .to_owned(),
            },
            End::Failed(detail) => format!(
                "advisories cannot be read now, so messages that the server gives up on wait for their dead letters: {detail}"
            ),
        };
        let is_new = {
            let mut said = self.memory.said.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *said, text.clone()) != text
        };
        match end {
            _ if !is_new => debug!("{text}"),
            End::NoStream if self.max_deliver.is_none() => info!("{text}"),
            End::NoStream | End::Failed(_) => warn!("{text}"),
        }
    }
}

/// The subject of every message of a durable, where it filters one that is no pattern.
fn only_subject(filters: &[String]) -> Option<String> {
    match filters {
        [one] if !one.split('.').any(|token| matches!(token, "*" | ">")) => Some(one.clone()),
        _ => None,
    }
}
