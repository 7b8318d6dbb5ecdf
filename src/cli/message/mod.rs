//! A message that a tool is given: by arguments, by a file, or by a case of a test.

mod arguments;
mod file;
mod header_lines;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

pub(super) use arguments::{MessageArguments, WithoutPayload};
pub(super) use header_lines::HeaderLines;

use crate::clock::Timestamp;
use crate::envelope::{Body, Envelope, Headers, SharedMetadata, SourceNames};
use crate::subject::{SubjectError, SubjectPattern};

/// The largest file that is read: no server takes a larger message.
const LARGEST: u64 = 64 << 20;

/// A message before any gate has seen it.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) subject: String,
    pub(super) headers: Headers,
    pub(super) payload: Bytes,
    /// When the stream stored it, which decides about keys with a validity window.
    pub(super) stored_at: Timestamp,
    /// Its sequence where it comes from a stream.
    pub(super) stream_sequence: u64,
}

/// Why there is no message. No text quotes a header value or a body.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("cannot read {}: {source}", place(path))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is larger than {LARGEST} bytes", place(path))]
    TooLarge { path: PathBuf },
    #[error("{}: {what}", place(path))]
    Malformed { path: PathBuf, what: String },
    #[error("the subject is not one that a message can have: {0}")]
    Subject(SubjectError),
    #[error("the subject holds a wildcard; a message is published to one subject")]
    Wildcard,
    #[error("the header line {0}")]
    Header(&'static str),
}

impl Message {
    /// The message as a delivery that arrived for the first time.
    pub(super) fn envelope(&self, source: Arc<SourceNames>) -> Envelope {
        Envelope {
            subject: self.subject.clone(),
            headers: self.headers.clone(),
            payload: self.payload.clone(),
            body: Body::Present,
            source,
            stream_sequence: self.stream_sequence,
            consumer_sequence: self.stream_sequence,
            delivery_count: 1,
            stored_at: self.stored_at,
            pending: 0,
            metadata: SharedMetadata::NONE,
        }
    }
}

/// Shows sizes only.
impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Message")
            .field("headers", &self.headers)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// A subject that a message can be published to.
pub(super) fn check_subject(subject: &str) -> Result<(), MessageError> {
    let pattern = SubjectPattern::parse(subject).map_err(MessageError::Subject)?;
    if pattern.is_literal() { Ok(()) } else { Err(MessageError::Wildcard) }
}

/// The whole of a file, or of standard input when its name is `-`.
pub(super) fn read_bytes(path: &Path) -> Result<Bytes, MessageError> {
    let mut bytes = Vec::new();
    let limit = LARGEST + 1;
    let read = if is_stdin(path) {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    match read {
        Err(source) => Err(MessageError::Unreadable { path: path.to_path_buf(), source }),
        Ok(_) if u64::try_from(bytes.len()).is_ok_and(|length| length <= LARGEST) => Ok(bytes.into()),
        Ok(_) => Err(MessageError::TooLarge { path: path.to_path_buf() }),
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn place(path: &Path) -> String {
    if is_stdin(path) { "standard input".into() } else { path.display().to_string() }
}
