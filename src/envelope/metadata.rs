//! What the producer, or a rule for the subject, says about a message beside its body (formats §1).

use std::fmt;
use std::sync::Arc;

/// Metadata that records and dead letters carry as fields of their own. The gate reads it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Trimmed; a blank one is `None`.
    pub priority: Option<String>,
    /// Trimmed; a blank one is `None`.
    pub classification: Option<String>,
    /// Trimmed, without blanks and duplicates, in order.
    pub labels: Vec<String>,
    /// One JSON object in its canonical spelling (formats §2).
    pub mission_metadata: Option<String>,
    /// A profile `nats-sinks.security-label.v1`: one JSON object in its canonical spelling.
    pub security_labels: Option<String>,
}

/// No metadata.
static NOTHING: Metadata = Metadata {
    priority: None,
    classification: None,
    labels: Vec::new(),
    mission_metadata: None,
    security_labels: None,
};

/// The metadata of one message, shared where a rule gives it; nothing costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedMetadata(Option<Arc<Metadata>>);

impl SharedMetadata {
    /// No metadata, or none that was read.
    pub const NONE: Self = Self(None);

    /// Shares it.
    #[must_use]
    pub fn new(metadata: Metadata) -> Self {
        if metadata == NOTHING { Self::NONE } else { Self(Some(Arc::new(metadata))) }
    }
}

impl std::ops::Deref for SharedMetadata {
    type Target = Metadata;

    fn deref(&self) -> &Metadata {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

/// Shows no value.
impl fmt::Debug for Metadata {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metadata").field("labels", &self.labels.len()).finish_non_exhaustive()
    }
}
