//! A payload inside a JSON record (formats §7).

/// How payloads stand in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadMode {
    /// Strict JSON as it is, anything else in an envelope.
    JsonOrEnvelope,
    /// Strict JSON as it is, anything else refused.
    JsonOnly,
    /// Always an envelope: text where it is UTF-8, else bytes.
    TextEnvelope,
    /// Always an envelope of bytes.
    BytesEnvelope,
}
