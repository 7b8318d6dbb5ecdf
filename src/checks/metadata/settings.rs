//! Where metadata comes from (`[message_metadata]`, `[security_labels]`, formats §1).

use crate::subject::SubjectPattern;

/// Everything that reading metadata needs. For each field: the header where it is there (a blank one says explicitly
/// *nothing*), else the first rule for the subject that sets the field, else the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataSettings {
    /// Names of the headers.
    pub headers: MetadataHeaders,
    /// Rules for subjects, in order.
    pub rules: Vec<MetadataRule>,
    /// Where no rule sets a field.
    pub defaults: MetadataValues,
    /// Security labels; `None` = their header is plain data.
    pub security_labels: Option<SecurityLabelSettings>,
}

/// Names of the headers that carry metadata, compared in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataHeaders {
    /// Priority.
    pub priority: String,
    /// Classification.
    pub classification: String,
    /// Labels, split on `;`.
    pub labels: String,
    /// Mission metadata, a JSON object.
    pub mission_metadata: String,
}

impl Default for MetadataHeaders {
    fn default() -> Self {
        Self {
            priority: "Nats-Sinks-Priority".into(),
            classification: "Nats-Sinks-Classification".into(),
            labels: "Nats-Sinks-Labels".into(),
            mission_metadata: "Nats-Sinks-Mission-Metadata".into(),
        }
    }
}

/// Values for the messages of some subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRule {
    /// The subjects.
    pub subject: SubjectPattern,
    /// The values.
    pub values: MetadataValues,
}

/// Values that a rule or the defaults set. The outer `None` = not set here; `Some(None)` = explicitly nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataValues {
    /// Priority, trimmed and not empty.
    pub priority: Option<Option<String>>,
    /// Classification, trimmed and not empty.
    pub classification: Option<Option<String>>,
    /// Labels: trimmed, no blanks, no duplicates, none with a `;`.
    pub labels: Option<Vec<String>>,
    /// Mission metadata: one JSON object within the bounds of formats §1, in its canonical spelling.
    pub mission_metadata: Option<Option<String>>,
}

/// Security labels, profile `nats-sinks.security-label.v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityLabelSettings {
    /// The header, compared in any case.
    pub header: String,
    /// Rules for subjects, in order: the profile's JSON object as text; `None` = explicitly nothing.
    pub rules: Vec<(SubjectPattern, Option<String>)>,
    /// Where neither header nor rule gives one.
    pub default: Option<String>,
    /// An empty list allows everything.
    pub allowed: AllowedLabels,
    /// Bytes of the header's value.
    pub max_bytes: usize,
}

/// What the labels may be; an empty list allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedLabels {
    /// Of `priority`.
    pub priorities: Vec<String>,
    /// Of `classification`.
    pub classifications: Vec<String>,
    /// Of each item of `releasability`.
    pub releasability: Vec<String>,
    /// Of each item of `handling_caveats`.
    pub handling_caveats: Vec<String>,
    /// Of `retention_category`.
    pub retention_categories: Vec<String>,
}
