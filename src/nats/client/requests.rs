//! Many requests under way at once, over one inbox, sent in the order in which they are asked for.
//!
//! The client's own request waits for its answer, and several of them run side by side in no fixed order; a redrive keeps the
//! order of the letters and yet does not wait for each confirmation.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue, PublishErrorKind, StatusCode, Subscriber};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::envelope::Headers;
use crate::nats::client::api::Failure;
use crate::nats::client::connect::Connection;
use crate::nats::error::NatsError;
use crate::nats::streams::message::StreamMessage;

/// Names one request of one [`Requests`].
pub type Ticket = u64;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Publish,
    Delete,
    Get,
}

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// To a publish: which stream has it, or why none.
    Published(Result<Stored, Refused>),
    /// To a deletion: whether the message was there, or why it is not deleted.
    Deleted(Result<bool, Refused>),
    /// To a read: the message, `None` when the stream has none at this sequence.
    Read(Result<Option<Box<StreamMessage>>, Refused>),
}

/// A confirmation of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The stream.
    pub stream: String,
    /// The sequence of the message in it; of a duplicate, that of the message it has already.
    pub sequence: u64,
    /// The stream had seen the message id within its duplicate window.
    pub duplicate: bool,
}

/// A "no" of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No stream captures the subject, or nobody answers there.
    #[error("no stream captures the subject, or nobody answers")]
    NobodyAnswers,
    /// What the server says.
    #[error("{description} (error {code})")]
    Server {
        /// Its `err_code`.
        code: u64,
        /// Its text.
        description: String,
    },
    /// The answer cannot be read.
    #[error("the answer cannot be read")]
    Malformed,
}

/// Why a message was not sent at all.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Headers and body are above the server's `max_payload`.
    #[error("headers and body together are above the server's max_payload")]
    TooLarge,
    /// A header cannot be written by a client: a value that is no text, or a name that is none.
    #[error("header {0:?} cannot be sent: its name or its value is no text")]
    Header(String),
    /// The connection is dead.
    #[error("there is no connection")]
    Dead,
}

/// Requests under way.
#[derive(Debug)]
pub struct Requests {
    connection: Connection,
    inbox: String,
    answers: Subscriber,
    next: Ticket,
    waiting: BTreeMap<Ticket, Kind>,
}

#[derive(Deserialize)]
struct Body {
    error: Option<Failure>,
    #[serde(default)]
    stream: String,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    message: Option<Wire>,
}

/// `message` of `STREAM.MSG.GET`.
#[derive(Deserialize)]
struct Wire {
    subject: String,
    seq: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    time: String,
}

impl Requests {
    /// Opens the inbox.
    ///
    /// # Errors
    /// The connection is dead.
    pub async fn open(connection: &Connection) -> Result<Self, NatsError> {
        let inbox = connection.new_inbox();
        let answers = connection
            .client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| NatsError::Connect(error.to_string()))?;
        Ok(Self { connection: connection.clone(), inbox, answers, next: 1, waiting: BTreeMap::new() })
    }

    /// How many answers are still to come.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Publishes; the confirmation comes as an answer.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was sent then.
    pub async fn publish(
        &mut self,
        subject: &str,
        headers: &Headers,
        body: Bytes,
    ) -> Result<Ticket, SendError> {
        let headers = header_map(headers)?;
        self.send(Kind::Publish, subject.to_owned(), headers, body).await
    }

    /// Deletes one message of a stream. Its bytes are not overwritten first.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn delete(&mut self, stream: &str, sequence: u64) -> Result<Ticket, SendError> {
        let subject = self.connection.api.subject(&format!("STREAM.MSG.DELETE.{stream}"));
        let body = json!({ "seq": sequence, "no_erase": true });
        self.send(Kind::Delete, subject, None, body.to_string().into()).await
    }

    /// Reads the message with exactly this sequence, or with `or_later` the next one there is.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn get(&mut self, stream: &str, sequence: u64, or_later: bool) -> Result<Ticket, SendError> {
        let subject = self.connection.api.subject(&format!("STREAM.MSG.GET.{stream}"));
        let body = if or_later {
            json!({ "seq": sequence, "next_by_subj": ">" })
        } else {
            json!({ "seq": sequence })
        };
        self.send(Kind::Get, subject, None, body.to_string().into()).await
    }

    async fn send(
        &mut self,
        kind: Kind,
        subject: String,
        headers: Option<HeaderMap>,
        body: Bytes,
    ) -> Result<Ticket, SendError> {
        let ticket = self.next;
        let reply = format!("{}.{ticket}", self.inbox);
        let client = &self.connection.client;
        let sent = match headers {
            Some(headers) => client.publish_with_reply_and_headers(subject, reply, headers, body).await,
            None => client.publish_with_reply(subject, reply, body).await,
        };
        sent.map_err(|error| match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => SendError::TooLarge,
            PublishErrorKind::Send | PublishErrorKind::InvalidSubject => SendError::Dead,
        })?;
        self.next += 1;
        self.waiting.insert(ticket, kind);
        Ok(ticket)
    }

    /// The next answer, whichever it is; `None` when none is awaited.
    ///
    /// # Errors
    /// None came in time, or the connection is dead. What was asked may have been done all the same.
    pub async fn next(&mut self, deadline: Duration) -> Result<Option<(Ticket, Answer)>, NatsError> {
        while !self.waiting.is_empty() {
            let message = timeout(deadline, self.answers.next())
                .await
                .map_err(|_| NatsError::Connect(format!("no answer within {deadline:?}")))?
                .ok_or_else(|| NatsError::Connect("the connection is dead".into()))?;
            let ticket = message.subject.rsplit_once('.').and_then(|(_, ticket)| ticket.parse().ok());
            let Some((ticket, kind)) =
                ticket.and_then(|ticket| Some((ticket, self.waiting.remove(&ticket)?)))
            else {
                continue;
            };
            let nobody = message.status == Some(StatusCode::NO_RESPONDERS);
            return Ok(Some((ticket, read(kind, nobody, &message.payload))));
        }
        Ok(None)
    }
}

fn read(kind: Kind, nobody: bool, payload: &[u8]) -> Answer {
    let body = if nobody {
        Err(Refused::NobodyAnswers)
    } else {
        serde_json::from_slice::<Body>(payload).map_err(|_| Refused::Malformed)
    };
    let body = body.and_then(|body| match body.error {
        Some(failure) => Err(Refused::Server { code: failure.err_code, description: failure.description }),
        None => Ok(body),
    });
    match kind {
        Kind::Publish => Answer::Published(body.and_then(|body| {
            let stored = Stored { stream: body.stream, sequence: body.seq, duplicate: body.duplicate };
            if stored.sequence == 0 { Err(Refused::Malformed) } else { Ok(stored) }
        })),
        // 10043 and 10057: the message is gone already.
        Kind::Delete => Answer::Deleted(match body {
            Ok(_) => Ok(true),
            Err(Refused::Server { code: 10043 | 10057, .. }) => Ok(false),
            Err(refused) => Err(refused),
        }),
        Kind::Get => Answer::Read(match body {
            Ok(body) => {
                body.message.and_then(|wire| wire.decoded()).map(Box::new).ok_or(Refused::Malformed).map(Some)
            }
            Err(Refused::Server { code: 10037, .. }) => Ok(None),
            Err(refused) => Err(refused),
        }),
    }
}

impl Wire {
    fn decoded(self) -> Option<StreamMessage> {
        let block = STANDARD.decode(self.hdrs).ok()?;
        let body = STANDARD.decode(self.data).ok()?;
        StreamMessage::from_block(self.seq, self.subject, &block, body.into(), &self.time)
    }
}

/// Values of one name keep their order; `None` when there is no header, which costs no byte on the wire.
fn header_map(headers: &Headers) -> Result<Option<HeaderMap>, SendError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter() {
        let wrong = || SendError::Header(name.to_owned());
        let value = std::str::from_utf8(value).map_err(|_| wrong())?;
        let value: HeaderValue = value.parse().map_err(|_| wrong())?;
        map.append(name.parse::<HeaderName>().map_err(|_| wrong())?, value);
    }
    Ok((!headers.is_empty()).then_some(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_meaning() {
        let published = read(Kind::Publish, false, br#"{"stream":"S","seq":7,"duplicate":true}"#);
        let stored = Stored { stream: "S".into(), sequence: 7, duplicate: true };
        assert!(matches!(published, Answer::Published(Ok(found)) if found == stored));
        for answer in [&b"{}"[..], b"", b"+OK"] {
            let answer = read(Kind::Publish, false, answer);
            assert!(matches!(answer, Answer::Published(Err(Refused::Malformed))), "{answer:?}");
        }
        let nobody = read(Kind::Publish, true, b"");
        assert!(matches!(nobody, Answer::Published(Err(Refused::NobodyAnswers))));
        let gone = read(Kind::Delete, false, br#"{"error":{"code":400,"err_code":10057,"description":"x"}}"#);
        assert!(matches!(gone, Answer::Deleted(Ok(false))));
        let none = read(Kind::Get, false, br#"{"error":{"code":404,"err_code":10037,"description":"x"}}"#);
        assert!(matches!(none, Answer::Read(Ok(None))));
    }

    #[test]
    fn a_header_that_is_no_text_is_not_sent() {
        let mut headers = Headers::new();
        assert!(header_map(&headers).unwrap().is_none());
        headers.append("A", "b");
        assert!(header_map(&headers).unwrap().is_some());
        for (name, value) in [("B", &b"\xff"[..]), ("C", b"a\r\nD: e"), ("A B:", b"x")] {
            let mut headers = headers.clone();
            headers.append(name, Bytes::from_static(value));
            assert!(matches!(header_map(&headers), Err(SendError::Header(found)) if found == name));
        }
    }
}
