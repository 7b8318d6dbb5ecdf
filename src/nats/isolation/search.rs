//! Looks through what the durable has delivered for messages that the client cannot read (design §11).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::timeout;

use crate::delivery::{Received, Rejection};
use crate::envelope::{Headers, Incarnation, SourceNames, parse_subject};
use crate::nats::error::ApiError;
use crate::nats::isolation::quarantine::Quarantine;
use crate::nats::isolation::stored::{StoredMessage, StreamReader};
use crate::reason::{ErrorType, ReasonCode, Stage};
use crate::subject::SubjectPattern;

/// Messages read by one search at the most (design §11); a later one goes on behind them.
const WINDOW: u64 = 10_000;
/// Messages asked for at once.
const READ_AHEAD: u64 = 16;
/// A step ends when it has found this many, or this many bytes of them.
const MOST_FOUND: usize = 64;
const MOST_BYTES: usize = 4 << 20;
/// A server that may answer answers the first question within this time; a denied question gets no answer at all.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

/// One search, or the rest of one.
#[derive(Debug)]
pub(in crate::nats) struct Search {
    pub(in crate::nats) reader: StreamReader,
    pub(in crate::nats) quarantine: Arc<Quarantine>,
    /// Subjects that the durable filters; empty = all.
    pub(in crate::nats) filters: Vec<String>,
    /// The first sequence to read.
    pub(in crate::nats) from: u64,
    /// The last one: the highest that was delivered. Nothing above it is ever touched.
    pub(in crate::nats) to: u64,
    /// Messages that may still be read.
    pub(in crate::nats) left: u64,
}

/// What a step has found.
#[derive(Debug)]
pub(in crate::nats) struct Step {
    pub(in crate::nats) culprits: Vec<Culprit>,
    /// How it ended.
    pub(in crate::nats) end: End,
}

#[derive(Debug)]
pub(in crate::nats) enum End {
    /// Everything was read.
    Complete,
    /// There is more, which this goes on with.
    More(Box<Search>),
    /// There is more, for a later search.
    Exhausted { next: u64 },
    /// The stream could not be read further.
    Unreadable(ApiError),
}

/// A message that no client can be handed.
#[derive(Debug)]
pub(in crate::nats) struct Culprit {
    pub(in crate::nats) message: StoredMessage,
    /// What is illegal, without data.
    pub(in crate::nats) cause: String,
}

impl Search {
    pub(in crate::nats) const fn budget() -> u64 {
        WINDOW
    }

    /// Reads on until enough was found, or everything was read.
    pub(in crate::nats) async fn step(mut self) -> Step {
        let mut culprits = Vec::new();
        let mut bytes = 0usize;
        let end = loop {
            if self.from > self.to {
                break End::Complete;
            }
            if self.left == 0 {
                break End::Exhausted { next: self.from };
            }
            if culprits.len() >= MOST_FOUND || bytes >= MOST_BYTES {
                break End::More(Box::new(self));
            }
            match self.stretch().await {
                Ok(found) => {
                    bytes = found.iter().map(Culprit::weight).fold(bytes, usize::saturating_add);
                    culprits.extend(found);
                }
                Err(error) => break End::Unreadable(error),
            }
        };
        Step { culprits, end }
    }

    /// The next message of the durable and those right behind it.
    async fn stretch(&mut self) -> Result<Vec<Culprit>, ApiError> {
        let mut found = Vec::new();
        let Some(first) = self.next().await? else {
            self.from = self.to.saturating_add(1);
            return Ok(found);
        };
        let start = first.sequence.saturating_add(1);
        let last = self.to.min(first.sequence.saturating_add(READ_AHEAD));
        self.from = last.saturating_add(1);
        self.left = self.left.saturating_sub(last.saturating_sub(first.sequence).saturating_add(1));
        found.extend(self.judge(first).await?);
        let reader = &self.reader;
        let ahead = usize::try_from(READ_AHEAD).unwrap_or(1);
        let rest: Vec<_> =
            stream::iter(start..=last).map(|sequence| reader.get(sequence)).buffered(ahead).collect().await;
        for read in rest {
            match read {
                Ok(message) if self.wants(&message.subject) => found.extend(self.judge(message).await?),
                // Of another subject, or deleted meanwhile.
                Ok(_) | Err(ApiError::MessageNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The first message from here on that the durable filters; `None` when there is none up to the end.
    async fn next(&self) -> Result<Option<StoredMessage>, ApiError> {
        let everything = [">".to_owned()];
        let filters = if self.filters.is_empty() { &everything[..] } else { &self.filters };
        let mut nearest: Option<StoredMessage> = None;
        for filter in filters {
            let question = timeout(FIRST_ANSWER, self.reader.next(self.from, filter));
            match question.await.unwrap_or_else(|_| Err(self.reader.no_answer())) {
                Ok(message) if nearest.as_ref().is_none_or(|near| message.sequence < near.sequence) => {
                    nearest = Some(message);
                }
                Ok(_) | Err(ApiError::MessageNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(nearest.filter(|message| message.sequence <= self.to))
    }

    fn wants(&self, subject: &str) -> bool {
        let matches =
            |filter: &String| SubjectPattern::parse(filter).is_ok_and(|pattern| pattern.matches(subject));
        self.filters.is_empty() || self.filters.iter().any(matches)
    }

    async fn judge(&self, message: StoredMessage) -> Result<Option<Culprit>, ApiError> {
        if self.quarantine.knows(message.sequence) {
            return Ok(None);
        }
        let mut causes = Vec::new();
        let has_headers = !message.raw_headers.is_empty();
        if has_headers {
            causes.extend(Headers::parse_block(&message.raw_headers).err().map(|error| error.to_string()));
        }
        causes.extend(
            parse_subject(message.subject.as_bytes(), has_headers).err().map(|error| error.to_string()),
        );
        if !self.reader.is_subject_exact(&message).await? {
            causes.push("the subject is not UTF-8: U+FFFD stands for each of its illegal bytes".into());
        }
        Ok((!causes.is_empty()).then(|| Culprit { message, cause: causes.join("; ") }))
    }
}

impl Culprit {
    fn weight(&self) -> usize {
        self.message.payload.len().saturating_add(self.message.raw_headers.len())
    }

    /// The delivery that the client never saw. Its reply subject is rebuilt: the server settles by the stream sequence in
    /// it, whatever stands around (nats facts §3).
    pub(in crate::nats) fn received(
        self,
        source: &Arc<SourceNames>,
        incarnation: Incarnation,
        delivery_count: u64,
    ) -> Received {
        let Self { message, cause } = self;
        let reply = rebuilt_reply(source, message.sequence);
        let envelope = message.into_envelope(source, delivery_count, Headers::unread);
        let verdict = Rejection {
            stage: Stage::Delivery,
            reason: ReasonCode::UndeliverableMessage,
            error_type: ErrorType::UndeliverableMessage,
            detail: cause,
        };
        Received::from_stream(envelope, reply, incarnation, verdict)
    }
}

/// The reply subject of a delivery that never came. The older form is understood by every server.
pub(in crate::nats) fn rebuilt_reply(source: &SourceNames, sequence: u64) -> Bytes {
    Bytes::from(format!("$JS.ACK.{}.{}.1.{sequence}.1.1.0", source.stream, source.consumer))
}
