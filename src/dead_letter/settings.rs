//! What a dead letter carries (`[dead_letter]`, formats §6).

use super::redact::Redaction;

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
