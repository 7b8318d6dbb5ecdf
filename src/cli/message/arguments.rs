//! The arguments that give a message.

use std::fmt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;

use super::header_lines::{append_line, split_line};
use super::{Message, MessageError, check_subject, file, read_bytes};
use crate::clock::{Clock as _, SystemClock, Timestamp};
use crate::envelope::Headers;

/// A message by its parts, or by one file. Commands put `subject` and `message` into a group of which one is required.
#[derive(Debug, Args)]
pub(in crate::cli) struct MessageArguments {
    /// The subject
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// A header line, `Name: value`; may be given several times
    #[arg(short = 'H', long = "header", value_name = "LINE", value_parser = HeaderArgument::parse, requires = "subject")]
    headers: Vec<HeaderArgument>,
    /// The file with the body, `-` for standard input
    #[arg(long, value_name = "FILE", requires = "subject")]
    payload: Option<PathBuf>,
    /// A file with the whole message as JSON: `subject`, `headers`, `payload` or `payload_base64`, `stored_at`
    #[arg(long, value_name = "FILE")]
    message: Option<PathBuf>,
    /// When the stream stored it, RFC 3339; decides about keys with a validity window. Now, if it is not given
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stored_at: Option<Timestamp>,
}

/// What stands for the body when no argument gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum WithoutPayload {
    /// Standard input.
    StandardInput,
    /// An empty body.
    Empty,
}

/// One header line of the command line. `Debug` shows no value.
#[derive(Clone)]
struct HeaderArgument {
    name: String,
    value: String,
}

impl MessageArguments {
    /// The message.
    pub(in crate::cli) fn read(&self, without_payload: WithoutPayload) -> Result<Message, MessageError> {
        let mut message = match (&self.message, &self.subject) {
            (Some(path), _) => file::read(path)?,
            (None, Some(subject)) => self.by_parts(subject, without_payload)?,
            // The parser of arguments asks for one of them.
            (None, None) => return Err(MessageError::Header("comes without a subject")),
        };
        if let Some(stored_at) = self.stored_at {
            message.stored_at = stored_at;
        }
        Ok(message)
    }

    fn by_parts(&self, subject: &str, without_payload: WithoutPayload) -> Result<Message, MessageError> {
        check_subject(subject)?;
        let mut headers = Headers::new();
        for line in &self.headers {
            append_line(&mut headers, &line.name, &line.value)?;
        }
        let payload = match (&self.payload, without_payload) {
            (Some(path), _) => read_bytes(path)?,
            (None, WithoutPayload::StandardInput) => read_bytes(Path::new("-"))?,
            (None, WithoutPayload::Empty) => Bytes::new(),
        };
        Ok(Message {
            subject: subject.to_owned(),
            headers,
            payload,
            stored_at: SystemClock.now(),
            stream_sequence: 0,
        })
    }
}

impl HeaderArgument {
    fn parse(line: &str) -> Result<Self, MessageError> {
        let (name, value) = split_line(line)?;
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Debug for HeaderArgument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, formatter)
    }
}

fn parse_time(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::from_rfc3339(text).ok_or("it is no time such as 2026-12-01T08:00:00Z")
}
