//! What a dead letter carries (`[dead_letter]`, formats §6).

/// The form of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object with the body in base64.
    Json,
    /// The original bytes as the body, the facts as `Jetsink-*` headers.
    Original,
}

/// What goes into the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The form.
    pub format: Format,
    /// Carry `error_type` and `error`.
    pub include_error: bool,
    /// Carry the original headers.
    pub include_headers: bool,
    /// Headers whose values are replaced.
    pub redact_headers: Redaction,
    /// Carry the body.
    pub include_payload: bool,
    /// A body that fits in no form may be left out although the source stream does not keep it.
    pub allow_body_loss: bool,
}

impl Default for RecordSettings {
    fn default() -> Self {
        Self {
            format: Format::Json,
            include_error: true,
            include_headers: true,
            redact_headers: Redaction::default(),
            include_payload: true,
            allow_body_loss: false,
        }
    }
}

/// The headers whose values a letter does not carry, compared in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redaction {
    pub(super) names: Vec<String>,
}

impl Redaction {
    /// Nobody expects the values of these to lie in a stream that others read.
    pub const USUAL: [&'static str; 5] =
        ["Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key"];

    /// Redacts these names.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect() }
    }

    /// The names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Default for Redaction {
    fn default() -> Self {
        Self::new(Self::USUAL)
    }
}

/// A fact of the letter as one token of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectToken {
    /// Where it was rejected.
    Stage,
    /// The reason code.
    Reason,
    /// The stream that stored the original.
    Stream,
    /// The durable that delivered it.
    Consumer,
}
