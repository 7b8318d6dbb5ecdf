//! Where metadata comes from (`[message_metadata]`, `[security_labels]`, formats §1).

use super::labels;
use super::mission;
use super::security_labels::Profile;
use crate::json::JsonError;
use crate::subject::SubjectPattern;

/// Bytes that mission metadata, and by default a profile of security labels, may have as it is given (formats §1).
pub const MAX_DOCUMENT_BYTES: usize = 8192;

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

/// What configuration may set: each value is read by the function that reads the header of a message.
impl MetadataValues {
    /// A priority or a classification: trimmed; a blank one is explicitly nothing.
    #[must_use]
    pub fn text_of(text: &str) -> Option<String> {
        labels::text(text)
    }

    /// Labels: each text split on `;`, trimmed, blanks and duplicates dropped in order.
    #[must_use]
    pub fn labels_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        labels::unique(texts.into_iter().flat_map(|text| text.split(';')))
    }

    /// Mission metadata: one JSON object as text, in its canonical spelling; a blank text is explicitly nothing.
    ///
    /// # Errors
    /// It is no JSON object within the bounds of formats §1.
    pub fn mission_metadata_of(text: &str) -> Result<Option<String>, MetadataError> {
        mission::read(text.as_bytes())
    }
}

/// Why a value may not be metadata. Says nothing of the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// A header that has to be text is none.
    #[error("{field}: it is not UTF-8 text")]
    NotText {
        /// Which metadata.
        field: &'static str,
    },
    /// Mission metadata that is no JSON object within the bounds.
    #[error("mission metadata: {0}")]
    MissionMetadata(JsonError),
    /// Security labels that are no JSON object within the bounds.
    #[error("security labels: {0}")]
    SecurityLabels(JsonError),
    /// Security labels that break a rule of their profile.
    #[error("security labels: {field} {fault}")]
    Profile {
        /// The field, or `a field` for one that the profile does not know.
        field: &'static str,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A security label that is not in its allow-list.
    #[error("security labels: {field} is not one of the allowed values")]
    NotAllowed {
        /// The field.
        field: &'static str,
    },
}

/// Security labels, profile `nats-sinks.security-label.v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityLabelSettings {
    /// The header, compared in any case.
    pub header: String,
    /// Rules for subjects, in order: what [`SecurityLabelSettings::profile_of`] gives; `None` = explicitly nothing.
    pub rules: Vec<(SubjectPattern, Option<String>)>,
    /// Where neither header nor rule gives one; what [`SecurityLabelSettings::profile_of`] gives.
    pub default: Option<String>,
    /// An empty list allows everything.
    pub allowed: AllowedLabels,
    /// Bytes of the header's value.
    pub max_bytes: usize,
}

impl Default for SecurityLabelSettings {
    fn default() -> Self {
        Self {
            header: "Nats-Sinks-Security-Labels".into(),
            rules: Vec::new(),
            default: None,
            allowed: AllowedLabels::default(),
            max_bytes: MAX_DOCUMENT_BYTES,
        }
    }
}

impl SecurityLabelSettings {
    /// A profile for a rule or the default, as text in its canonical spelling; a blank text is explicitly nothing. What it
    /// lacks is filled from the metadata of each message. `header`, `rules` and `default` have no influence on it.
    ///
    /// # Errors
    /// It is no profile, or a value of it is not allowed.
    pub fn profile_of(&self, text: &str) -> Result<Option<String>, MetadataError> {
        let profile = Profile::read(text.as_bytes(), self)?;
        Ok(profile.map(|profile| profile.text()))
    }
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
