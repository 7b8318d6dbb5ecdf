//! Reading a stream without a consumer: nothing is created, nothing is counted as delivered, a work queue keeps its messages.
//!
//! A server of 2.11 or newer sends a whole batch for one request when the stream allows direct gets; from others each
//! sequence is asked for, many at a time. A message that the client cannot read (it would cut the connection, again and
//! again) is read by the second way too, which carries headers in base64.

use std::time::Duration;

use async_nats::{StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::nats::client::connect::Connection;
use crate::nats::client::requests::{Answer, Refused, Requests};
use crate::nats::error::{ApiError, NatsError};
use crate::nats::streams::message::StreamMessage;

/// Bytes of one page, about; a single message may be larger.
const PAGE_BYTES: usize = 2 << 20;
/// Messages of one page at most.
const PAGE_MESSAGES: usize = 500;
/// Single requests under way at once.
const SINGLE: usize = 128;

/// What a stream holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The first sequence there is.
    pub first: u64,
    /// The last sequence there was.
    pub last: u64,
    /// The subjects that the stream captures.
    pub subjects: Vec<String>,
}

/// Some messages in the order of their sequences.
#[derive(Debug, Default)]
pub struct Page {
    /// The messages.
    pub messages: Vec<StreamMessage>,
    /// Where to read on; `None` = there is nothing more in the range.
    pub next: Option<u64>,
}

/// Reads one stream.
#[derive(Debug)]
pub struct StreamPages {
    connection: Connection,
    stream: String,
    patience: Duration,
    batches: Option<Batches>,
    requests: Requests,
    single_at_once: usize,
}

/// The inbox for batched answers; each request has a token of its own, so that a late answer is known as one.
#[derive(Debug)]
struct Batches {
    inbox: String,
    answers: Subscriber,
    number: u64,
}

#[derive(Deserialize)]
struct Info {
    config: InfoConfig,
    state: InfoState,
}

#[derive(Deserialize)]
struct InfoConfig {
    #[serde(default)]
    allow_direct: bool,
    #[serde(default)]
    subjects: Vec<String>,
}

#[derive(Deserialize)]
struct InfoState {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    last_seq: u64,
}

/// How a batched read ended.
enum Batched {
    Page(Page),
    /// Not by this way.
    NotServed,
}

impl StreamPages {
    /// Looks at the stream, and finds out how it can be read: one message a request with `singly`, else as fast as possible.
    ///
    /// # Errors
    /// The stream does not exist, or may not be looked at.
    pub async fn open(
        connection: &Connection,
        stream: &str,
        singly: bool,
    ) -> Result<(Self, StreamState), NatsError> {
        let (info, state) = look(connection, stream).await?;
        let batches =
            if info.config.allow_direct && !singly { Some(Batches::open(connection).await?) } else { None };
        let usual = usize::try_from(info.state.bytes / info.state.messages.max(1)).unwrap_or(PAGE_BYTES);
        let reader = Self {
            connection: connection.clone(),
            stream: stream.to_owned(),
            patience: connection.api.timeout(),
            batches,
            requests: Requests::open(connection).await?,
            single_at_once: (PAGE_BYTES / usual.max(1)).clamp(1, SINGLE),
        };
        Ok((reader, state))
    }

    /// The stream's name.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// What the stream holds now.
    ///
    /// # Errors
    /// The server does not say.
    pub async fn state(&self) -> Result<StreamState, NatsError> {
        Ok(look(&self.connection, &self.stream).await?.1)
    }

    /// Reads upwards from a sequence: at most `limit` messages, none above `up_to`. Sequences that are not there are skipped,
    /// however many they are.
    ///
    /// # Errors
    /// No answer in time, or the server says no.
    pub async fn read(&mut self, from: u64, up_to: u64, limit: usize) -> Result<Page, NatsError> {
        if from > up_to {
            return Ok(Page::default());
        }
        if let Some(batches) = &mut self.batches {
            let limit = limit.clamp(1, PAGE_MESSAGES);
            match batches.read(&self.connection, &self.stream, from..=up_to, limit, self.patience).await? {
                Batched::Page(page) => return Ok(page),
                Batched::NotServed => self.batches = None,
            }
        }
        self.read_singly(from, up_to, limit).await
    }

    /// One message; `None` if it is not there.
    ///
    /// # Errors
    /// No answer in time, or the server says no.
    pub async fn get(&mut self, sequence: u64) -> Result<Option<StreamMessage>, NatsError> {
        // A direct get needs another grant than the request that every server knows; one of the two is enough.
        if self.batches.is_some() {
            let page = self.read(sequence, sequence, 1).await?;
            return Ok(page.messages.into_iter().next());
        }
        self.ask(sequence, false).await?;
        Ok(self.take().await?.map(|message| *message))
    }

    /// One message of another stream; `None` if it is not there.
    ///
    /// # Errors
    /// No answer in time, or the server says no.
    pub async fn get_from(&self, stream: &str, sequence: u64) -> Result<Option<StreamMessage>, NatsError> {
        let mut requests = Requests::open(&self.connection).await?;
        let asked = requests.get(stream, sequence, false).await;
        asked.map_err(|error| NatsError::Connect(error.to_string()))?;
        match requests.next(self.patience).await? {
            Some((_, Answer::Read(Ok(message)))) => Ok(message.map(|message| *message)),
            Some(_) | None => Ok(None),
        }
    }

    async fn read_singly(&mut self, from: u64, up_to: u64, limit: usize) -> Result<Page, NatsError> {
        let count = u64::try_from(limit.clamp(1, self.single_at_once)).unwrap_or(1);
        let last = up_to.min(from.saturating_add(count - 1));
        for sequence in from..=last {
            self.ask(sequence, false).await?;
        }
        let mut messages = Vec::new();
        for _ in from..=last {
            messages.extend(self.take().await?.map(|message| *message));
        }
        messages.sort_unstable_by_key(|message| message.sequence);
        let mut next = last.checked_add(1);
        if messages.is_empty()
            && let Some(from) = next
        {
            // A gap: to its end in one step.
            self.ask(from, true).await?;
            next = self.take().await?.map(|message| message.sequence);
        }
        Ok(Page { messages, next: next.filter(|next| *next <= up_to) })
    }

    async fn ask(&mut self, sequence: u64, or_later: bool) -> Result<(), NatsError> {
        let asked = self.requests.get(&self.stream, sequence, or_later).await;
        asked.map(drop).map_err(|error| NatsError::Connect(error.to_string()))
    }

    async fn take(&mut self) -> Result<Option<Box<StreamMessage>>, NatsError> {
        let operation = || format!("$JS.API.STREAM.MSG.GET.{}", self.stream);
        match self.requests.next(self.patience).await {
            Ok(Some((_, Answer::Read(Ok(message))))) => Ok(message),
            Ok(Some((_, Answer::Read(Err(Refused::Server { code, description }))))) => {
                Err(ApiError::Server { code, description }.into())
            }
            Ok(Some((_, Answer::Read(Err(Refused::NobodyAnswers))))) => {
                Err(ApiError::NoResponders { subject: operation() }.into())
            }
            Ok(_) => Err(NatsError::Connect("an answer cannot be read".into())),
            Err(_) => Err(ApiError::TimedOut { subject: operation() }.into()),
        }
    }
}

async fn look(connection: &Connection, stream: &str) -> Result<(Info, StreamState), NatsError> {
    let info = connection.api.call::<Info>(&format!("STREAM.INFO.{stream}"), &Value::Null).await;
    let info = info.map_err(|error| {
        let missing = matches!(error, ApiError::StreamNotFound);
        if missing { NatsError::Missing(format!("stream {stream} does not exist")) } else { error.into() }
    })?;
    let state = StreamState {
        messages: info.state.messages,
        bytes: info.state.bytes,
        first: info.state.first_seq,
        last: info.state.last_seq,
        subjects: info.config.subjects.clone(),
    };
    Ok((info, state))
}

impl Batches {
    async fn open(connection: &Connection) -> Result<Self, NatsError> {
        let inbox = connection.new_inbox();
        let answers = connection
            .client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| NatsError::Connect(error.to_string()))?;
        Ok(Self { inbox, answers, number: 0 })
    }

    async fn read(
        &mut self,
        connection: &Connection,
        stream: &str,
        range: std::ops::RangeInclusive<u64>,
        limit: usize,
        patience: Duration,
    ) -> Result<Batched, NatsError> {
        self.number += 1;
        let reply = format!("{}.{}", self.inbox, self.number);
        let body = json!({ "seq": range.start(), "batch": limit, "max_bytes": PAGE_BYTES }).to_string();
        let subject = connection.api.subject(&format!("DIRECT.GET.{stream}"));
        connection
            .client
            .publish_with_reply(subject, reply.clone(), Bytes::from(body))
            .await
            .map_err(|error| NatsError::Connect(error.to_string()))?;
        let mut page = Page::default();
        loop {
            // Silence: a server that denies it, one of 2.9 without direct gets, or a message that cuts the connection.
            let Ok(answer) = timeout(patience, self.answers.next()).await else {
                return Ok(Batched::NotServed);
            };
            let answer = answer.ok_or_else(|| NatsError::Connect("the connection is dead".into()))?;
            if answer.subject.as_str() != reply {
                continue;
            }
            match answer.status {
                None => {}
                Some(StatusCode::NOT_FOUND) => return Ok(Batched::Page(page)),
                Some(status) if status.as_u16() == 204 => {
                    let last = page.messages.last().map(|message: &StreamMessage| message.sequence);
                    page.next = last.and_then(|last| last.checked_add(1)).filter(|next| next <= range.end());
                    return Ok(Batched::Page(page));
                }
                Some(_) => return Ok(Batched::NotServed),
            }
            let read = answer.headers.as_ref();
            let read = read.and_then(|headers| StreamMessage::from_direct(headers, answer.payload.clone()));
            // A server that does not count what is left knows no batches.
            let Some((message, Some(pending))) = read else { return Ok(Batched::NotServed) };
            if message.sequence > *range.end() {
                return Ok(Batched::Page(page));
            }
            page.messages.push(message);
            if pending == 0 {
                return Ok(Batched::Page(page));
            }
        }
    }
}
