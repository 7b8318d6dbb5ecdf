//! Where the message that is verified comes from.

use bytes::Bytes;

use super::{Arguments, stored};
use crate::cli::message::{Message, MessageError, WithoutPayload, read_bytes};
use crate::clock::{Clock as _, SystemClock};
use crate::config::Settings;
use crate::dead_letter::{self, ParseError, Part};
use crate::envelope::{HeaderBlockError, Headers};
use crate::nats::{NatsError, StoredMessage};

/// Why there is no message to verify.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error("it is no dead letter")]
    DeadLetter(#[source] ParseError),
    #[error("the dead letter carries no {0} of the original, so its signature cannot be verified")]
    LeftOut(&'static str),
    #[error(
        "the dead letter has marks in place of the values of {names} (dead_letter.redact_headers), so a signature cannot be \
         verified by it; verify the original: --stream {stream} --sequence {sequence}"
    )]
    Redacted { names: String, stream: String, sequence: u64 },
    #[error("the headers of the message cannot be read by any client")]
    Headers(#[from] HeaderBlockError),
    #[error("a message has one sequence, and a dead letter has two parts at the most")]
    Sequences,
    #[error("cannot start")]
    Runtime(#[source] std::io::Error),
    #[error("cannot read the stream")]
    Server(#[from] NatsError),
}

/// The message that the arguments name.
pub(super) fn read(arguments: &Arguments, settings: Option<&Settings>) -> Result<Message, SourceError> {
    if let Some(path) = &arguments.dead_letter {
        return original(&[Part { headers: Vec::new(), body: read_bytes(path)? }]);
    }
    let from_stream = arguments.stream.as_ref().or(arguments.dead_letter_stream.as_ref());
    let (Some(stream), Some(settings)) = (from_stream, settings) else {
        return Ok(arguments.message.read(WithoutPayload::StandardInput)?);
    };
    let stored = stored::read(settings, stream, &arguments.sequence)?;
    match (stored.as_slice(), &arguments.stream) {
        ([only], Some(_)) => Ok(Message {
            subject: only.subject.clone(),
            headers: headers_of(&only.raw_headers)?,
            payload: only.payload.clone(),
            stored_at: only.stored_at,
            stream_sequence: only.sequence,
        }),
        (_, Some(_)) => Err(SourceError::Sequences),
        ([_] | [_, _], None) => {
            original(&stored.iter().map(part).collect::<Result<Vec<_>, HeaderBlockError>>()?)
        }
        (_, None) => Err(SourceError::Sequences),
    }
}

fn headers_of(block: &Bytes) -> Result<Headers, HeaderBlockError> {
    if block.is_empty() { Ok(Headers::new()) } else { Headers::parse_block(block) }
}

fn part(stored: &StoredMessage) -> Result<Part, HeaderBlockError> {
    let headers = headers_of(&stored.raw_headers)?;
    let lines =
        headers.iter().map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()));
    Ok(Part { headers: lines.collect(), body: stored.payload.clone() })
}

/// The original that a letter carries.
fn original(parts: &[Part]) -> Result<Message, SourceError> {
    let letter = dead_letter::parse(parts).map_err(SourceError::DeadLetter)?;
    if !letter.redacted.is_empty() {
        let (stream, sequence) = (letter.stream, letter.stream_sequence);
        return Err(SourceError::Redacted { names: letter.redacted.join(", "), stream, sequence });
    }
    Ok(Message {
        headers: letter.headers.ok_or(SourceError::LeftOut("headers"))?,
        payload: letter.body.ok_or(SourceError::LeftOut("body"))?,
        stored_at: letter.stored_at.unwrap_or_else(|| SystemClock.now()),
        subject: letter.subject,
        stream_sequence: letter.stream_sequence,
    })
}
