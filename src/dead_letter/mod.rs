//! The dead-letter record: pure; what it holds, in which form, and how it is kept within a size (formats §6).
//!
//! A letter that does not fit in the wanted form takes the next one: the other form → two parts. Only when the source
//! stream keeps the message anyway, or the operator allows the loss, may the body be left out. No header of the original
//! ever becomes a header of the letter, since every `Nats-*` name is a command to the server.

mod ancestor;
mod json;
mod message_id;
mod original;
mod parse;
mod redact;
mod settings;
mod subject;
mod summary;
mod text;

use std::fmt;

use bytes::Bytes;

pub use ancestor::recover;
pub use message_id::{PartNumber, message_id};
pub use parse::{Objects, ParseError, Recovered, objects, parse};
pub use redact::REDACTED;
pub use settings::{Format, RecordSettings, Redaction, SubjectToken};
pub use subject::LetterSubject;
pub use summary::{Form, Summary, original_headers, part, summarise};

use crate::clock::Timestamp;
use crate::delivery::Rejection;
use crate::envelope::{Body, Envelope};

/// The `schema` of the record.
pub const SCHEMA: &str = "jetsink.dead_letter.v1";

/// The server takes no larger header block for a stream (its error 10097).
const MAX_HEADER_BLOCK: usize = 65_535;
/// Room for the `Nats-Expected-Stream` line that the publisher adds: the name of a stream has at most 255 bytes.
const EXPECTED_STREAM_LINE: usize = "Nats-Expected-Stream: ".len() + 255 + "\r\n".len();

/// Everything a dead letter tells.
#[derive(Debug)]
pub struct Letter<'a> {
    /// The facts of the delivery.
    pub envelope: &'a Envelope,
    /// Why it was rejected.
    pub rejection: &'a Rejection,
    /// When.
    pub failed_at: Timestamp,
    /// The sink's name; `None` when the message never got to a sink.
    pub sink: Option<&'a str>,
}

/// How large a part may be, and whether the original stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBudget {
    /// Bytes of headers and body of one published message: the server's `max_payload`, or the `max_msg_size` of the
    /// dead-letter stream where that is smaller.
    pub max_payload: usize,
    /// The source stream keeps the message after its settlement (limits retention).
    pub source_keeps_body: bool,
}

/// One message to publish. `Nats-Expected-Stream` is added by the publisher; there is room for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Part {
    /// Header lines, `Nats-Msg-Id` among them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// The letter fits in no permitted form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{needed} bytes of headers and body do not fit into two messages of {max_payload} bytes, and the body must not be left out"
)]
pub struct TooLarge {
    /// Bytes of the original's headers and body.
    pub needed: usize,
    /// The budget.
    pub max_payload: usize,
}

/// Renders the letter: one part, or two that must both be confirmed before the original is settled.
///
/// # Errors
/// [`TooLarge`] when no permitted form fits; nothing may be settled then.
pub fn render(
    letter: &Letter<'_>,
    settings: &RecordSettings,
    budget: SizeBudget,
) -> Result<Vec<Part>, TooLarge> {
    let wanted = Plan::wanted(letter, settings);
    let facts = Facts::of(letter);
    // JSON objects of the metadata may take many bytes; they never stand in the way of the message itself.
    let mut plans = vec![wanted, Plan { objects: false, ..wanted }];
    if budget.source_keeps_body || settings.allow_body_loss {
        let without_body = wanted.without_body();
        let without_headers = Plan { headers: Carried::LeftOut, ..without_body };
        plans.extend([without_body, without_headers, Plan { objects: false, ..without_headers }]);
    }
    for plan in plans {
        let whole = match settings.format {
            Format::Json => json::whole(letter, &facts, settings, plan, budget)
                .or_else(|| original::whole(letter, &facts, settings, plan, budget)),
            // A subject of tens of kilobytes, which the MQTT gateway lets pass, fits into a body and into no header block.
            Format::Original => original::whole(letter, &facts, settings, plan, budget)
                .or_else(|| json::whole(letter, &facts, settings, plan, budget)),
        };
        if let Some(part) = whole {
            return Ok(vec![part]);
        }
        if let Some(parts) = original::halves(letter, &facts, settings, plan, budget) {
            return Ok(parts.into());
        }
    }
    let needed = letter.envelope.headers.total_bytes().saturating_add(letter.envelope.payload.len());
    Err(TooLarge { needed, max_payload: budget.max_payload })
}

/// Whether a piece of the original travels with the letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    /// It does.
    Whole,
    /// The settings do not ask for it.
    Unwanted,
    /// The server left it out.
    Omitted,
    /// It does not fit.
    LeftOut,
    /// The message is gone.
    Lost,
}

impl Carried {
    /// The reason that a reader of the letter finds.
    const fn unavailable(self) -> Option<&'static str> {
        match self {
            Self::Whole | Self::Unwanted => None,
            Self::Omitted => Some("headers_only"),
            Self::LeftOut => Some("exceeds_max_payload"),
            Self::Lost => Some("message_lost"),
        }
    }
}

/// What of the original travels with the letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    headers: Carried,
    body: Carried,
    /// With mission metadata and security labels, if there are any.
    objects: bool,
}

impl Plan {
    const fn wanted(letter: &Letter<'_>, settings: &RecordSettings) -> Self {
        if matches!(letter.envelope.body, Body::Lost) {
            return Self { headers: Carried::Lost, body: Carried::Lost, objects: false };
        }
        let headers = if settings.include_headers { Carried::Whole } else { Carried::Unwanted };
        let body = match letter.envelope.body {
            Body::Lost => Carried::Lost,
            _ if !settings.include_payload => Carried::Unwanted,
            Body::Omitted { .. } => Carried::Omitted,
            Body::Present => Carried::Whole,
        };
        Self { headers, body, objects: true }
    }

    /// Configured names of headers that travel along with a mark in place of their values.
    fn redacted<'a>(self, letter: &Letter<'_>, settings: &'a RecordSettings) -> Vec<&'a str> {
        let headers = &letter.envelope.headers;
        match (self.headers, headers.raw_block()) {
            (Carried::Whole, Some(block)) => settings.redact_headers.of_block(block).1,
            (Carried::Whole, None) => settings.redact_headers.found_in(headers),
            (Carried::Unwanted | Carried::Omitted | Carried::LeftOut | Carried::Lost, _) => Vec::new(),
        }
    }

    const fn without_body(self) -> Self {
        match self.body {
            Carried::Whole => Self { body: Carried::LeftOut, ..self },
            Carried::Unwanted | Carried::Omitted | Carried::LeftOut | Carried::Lost => self,
        }
    }
}

/// Facts that every form needs and that cost something to find.
#[derive(Debug)]
struct Facts {
    /// Lower-case hex; `None` when the server left the body out.
    sha256: Option<String>,
    failed_at: String,
    /// `None` of a message that is gone.
    stored_at: Option<String>,
    /// The reason text: at most 512 bytes, no control characters.
    error: String,
}

impl Facts {
    fn of(letter: &Letter<'_>) -> Self {
        let envelope = letter.envelope;
        Self {
            sha256: (envelope.body == Body::Present).then(|| text::sha256_hex(&envelope.payload)),
            failed_at: letter.failed_at.rfc3339(),
            stored_at: (envelope.body != Body::Lost).then(|| envelope.stored_at.rfc3339()),
            error: text::clean(&letter.rejection.detail, text::MAX_ERROR),
        }
    }
}

/// Letters within letters from here on are not written: the dead-letter stream feeds the source stream.
pub const MAX_DEPTH: u32 = 3;

/// How many letters of its own durable a message is wrapped in. Above 0 only when dead letters come back to the durable that
/// wrote them; whoever may publish may say so as well, so this never settles anything.
#[must_use]
pub fn depth(envelope: &Envelope) -> u32 {
    let text = |name: &str| envelope.headers.get(name).and_then(|value| std::str::from_utf8(value).ok());
    let source = &envelope.source;
    if text("Jetsink-Stream") != Some(&source.stream) || text("Jetsink-Consumer") != Some(&source.consumer) {
        return 0;
    }
    text("Jetsink-Letter-Depth").and_then(|depth| depth.parse().ok()).map_or(1, |depth: u32| depth.max(1))
}

/// The headers that every part of every form carries.
fn common_headers(letter: &Letter<'_>, part: PartNumber) -> Vec<(String, String)> {
    let envelope = letter.envelope;
    let source = &envelope.source;
    let id = message_id(envelope.identity(), &source.stream, &source.consumer, part);
    let clean = |value: &str| text::header_value(value, text::MAX_NAME);
    let depth = depth(envelope);
    let depth = (depth > 0).then(|| ("Jetsink-Letter-Depth", depth.saturating_add(1).to_string()));
    [
        ("Nats-Msg-Id", id),
        ("Nats-Sinks-Error-Type", letter.rejection.error_type.as_str().to_owned()),
        ("Nats-Sinks-Original-Subject", text::header_value(&envelope.subject, text::MAX_SUBJECT)),
        ("Jetsink-Reason", letter.rejection.reason.as_str().to_owned()),
        ("Jetsink-Stage", letter.rejection.stage.as_str().to_owned()),
        ("Jetsink-Stream", clean(&source.stream)),
        ("Jetsink-Stream-Sequence", envelope.stream_sequence.to_string()),
        ("Jetsink-Consumer", clean(&source.consumer)),
        ("Jetsink-Delivery-Count", envelope.delivery_count.to_string()),
    ]
    .into_iter()
    .chain(depth)
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// The part, if headers and body fit as the server counts them.
fn fitting(headers: Vec<(String, String)>, body: Bytes, budget: SizeBudget) -> Option<Part> {
    let block = header_block_bytes(&headers).saturating_add(EXPECTED_STREAM_LINE);
    let fits = block <= MAX_HEADER_BLOCK && block.saturating_add(body.len()) <= budget.max_payload;
    fits.then_some(Part { headers, body })
}

/// Bytes of a header block on the wire: `NATS/1.0\r\n`, each `Name: value\r\n`, `\r\n`.
fn header_block_bytes(headers: &[(String, String)]) -> usize {
    let lines: usize = headers.iter().map(|(name, value)| name.len() + value.len() + ": \r\n".len()).sum();
    "NATS/1.0\r\n\r\n".len() + lines
}

/// Shows the names of headers and sizes only.
impl fmt::Debug for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        formatter
            .debug_struct("Part")
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
