//! The file of cases.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use toml::Spanned;

use super::expected::{Expectation, ExpectedMetadata};
use crate::cli::message::{HeaderLines, Message, MessageError, check_subject, read_bytes};
use crate::cli::signing::SignWith;
use crate::clock::{Clock as _, SystemClock, Timestamp};

/// One case: a message, and what the gate has to say of it.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) message: Message,
    /// How the message is signed before it is judged.
    pub(super) sign: Option<SignWith>,
    /// Whether the authenticity check may be skipped when no key is read.
    pub(super) assume_signed: bool,
    pub(super) expected: Expectation,
    pub(super) metadata: ExpectedMetadata,
}

/// Why there are no cases.
#[derive(Debug, thiserror::Error)]
pub(super) enum CasesError {
    #[error(transparent)]
    Unreadable(MessageError),
    #[error("{}: it is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    #[error("{}: there is no [[case]]", path.display())]
    Empty { path: PathBuf },
    #[error("{}:{line}: {what}", path.display())]
    Wrong { path: PathBuf, line: usize, what: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    case: Vec<Spanned<RawCase>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: String,
    subject: String,
    #[serde(default)]
    headers: HeaderLines,
    payload: Option<String>,
    payload_base64: Option<String>,
    payload_file: Option<PathBuf>,
    stored_at: Option<String>,
    sign: Option<SignWith>,
    #[serde(default)]
    assume_signed: bool,
    expect: Spanned<String>,
    stage: Option<Spanned<String>>,
    #[serde(default)]
    metadata: ExpectedMetadata,
}

/// Reads the cases. Files that they name are looked for beside the file.
pub(super) fn read(path: &Path) -> Result<Vec<Case>, CasesError> {
    let bytes = read_bytes(path).map_err(CasesError::Unreadable)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| CasesError::NotText { path: path.to_path_buf() })?;
    let file = CaseFile { path, text };
    let document: Document = toml::from_str(text)
        .map_err(|error| file.wrong(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    if document.case.is_empty() {
        return Err(CasesError::Empty { path: path.to_path_buf() });
    }
    let mut names = HashSet::new();
    let mut cases = Vec::with_capacity(document.case.len());
    for raw in document.case {
        let at = raw.span().start;
        let case = file.case(raw)?;
        if !names.insert(case.name.clone()) {
            return Err(file.wrong(at, "another case has the same name".into()));
        }
        cases.push(case);
    }
    Ok(cases)
}

struct CaseFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl CaseFile<'_> {
    fn wrong(&self, offset: usize, what: String) -> CasesError {
        let line = 1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        CasesError::Wrong { path: self.path.to_path_buf(), line, what }
    }

    fn beside(&self, file: &Path) -> PathBuf {
        self.path.with_file_name("").join(file)
    }

    fn case(&self, raw: Spanned<RawCase>) -> Result<Case, CasesError> {
        let at = raw.span().start;
        let raw = raw.into_inner();
        let wrong = |what: String| self.wrong(at, what);
        check_subject(&raw.subject).map_err(|error| wrong(error.to_string()))?;
        let expected = Expectation::parse(
            raw.expect.get_ref(),
            raw.stage.as_ref().map(|stage| stage.get_ref().as_str()),
        )
        .map_err(|what| self.wrong(raw.expect.span().start, what))?;
        let stored_at = match raw.stored_at {
            None => SystemClock.now(),
            Some(text) => {
                Timestamp::from_rfc3339(&text).ok_or_else(|| wrong("stored_at is no RFC 3339 time".into()))?
            }
        };
        let payload = match (raw.payload, raw.payload_base64, raw.payload_file) {
            (None, None, None) => Bytes::new(),
            (Some(text), None, None) => text.into(),
            (None, Some(text), None) => {
                STANDARD.decode(text).map_err(|_| wrong("payload_base64 is no base64".into()))?.into()
            }
            (None, None, Some(file)) => {
                read_bytes(&self.beside(&file)).map_err(|error| wrong(error.to_string()))?
            }
            _ => return Err(wrong("payload, payload_base64 and payload_file: only one of them".into())),
        };
        Ok(Case {
            message: Message {
                subject: raw.subject,
                headers: raw.headers.0,
                payload,
                stored_at,
                stream_sequence: 0,
            },
            name: raw.name,
            sign: raw.sign.map(|sign| sign.beside(self.path)),
            assume_signed: raw.assume_signed,
            expected,
            metadata: raw.metadata,
        })
    }
}
