//! What the metadata of a message is (formats §1): from its headers, else from a rule for its subject, else the default.
//! Header names are compared in any case, and the first header of a name counts.

mod labels;
mod mission;
mod security_labels;
mod settings;

use std::borrow::Cow;
use std::collections::HashSet;

pub use settings::{
    AllowedLabels, MAX_DOCUMENT_BYTES, MetadataError, MetadataHeaders, MetadataRule, MetadataSettings,
    MetadataValues, SecurityLabelSettings,
};

use crate::delivery::Rejection;
use crate::envelope::{Envelope, Headers, Metadata, SharedMetadata};

/// What was read of one message.
#[derive(Debug)]
pub(super) struct Reading {
    /// The metadata; without the field that is malformed.
    pub(super) metadata: SharedMetadata,
    /// The rejection that a malformed header causes once its turn has come (`mission_metadata_invalid`, …).
    pub(super) malformed: Option<Box<Rejection>>,
}

/// Reads the metadata of messages.
#[derive(Clone, Debug)]
pub(super) struct MetadataReader {
    settings: MetadataSettings,
}

impl MetadataReader {
    pub(super) const fn new(settings: MetadataSettings) -> Self {
        Self { settings }
    }

    pub(super) const fn headers(&self) -> &MetadataHeaders {
        &self.settings.headers
    }

    pub(super) fn read(&self, envelope: &Envelope) -> Reading {
        let (headers, names) = (&envelope.headers, &self.settings.headers);
        if headers.is_empty() {
            return Reading { metadata: SharedMetadata::NONE, malformed: None };
        }
        let text =
            |name| first(headers, name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let labels = first(headers, &names.labels);
        let metadata = Metadata {
            priority: text(&names.priority),
            classification: text(&names.classification),
            labels: labels.as_deref().map(split_labels).into_iter().flatten().map(str::to_owned).collect(),
            ..Metadata::default()
        };
        Reading { metadata: SharedMetadata::new(metadata), malformed: None }
    }
}

/// The first value of a header; bytes that are no UTF-8 become replacement characters.
pub(super) fn first<'a>(headers: &'a Headers, name: &'a str) -> Option<Cow<'a, str>> {
    headers.all_ignoring_case(name).next().map(|value| String::from_utf8_lossy(value))
}

/// The labels of a header value: split on `;`, trimmed, blanks and duplicates dropped.
pub(super) fn split_labels(value: &str) -> Vec<&str> {
    // A set, since a publisher may send thousands of labels.
    let mut seen = HashSet::new();
    value.split(';').map(str::trim).filter(|label| !label.is_empty() && seen.insert(*label)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::builders;

    #[test]
    fn labels_are_split_trimmed_and_unique() {
        assert_eq!(split_labels(" a;b ;; a ;\tc;"), ["a", "b", "c"]);
        assert!(split_labels(" ; ").is_empty());
    }

    #[test]
    fn the_first_header_of_a_name_in_any_case_counts() {
        let envelope = builders::envelope(1)
            .header("nats-sinks-priority", " high ")
            .header("Nats-Sinks-Priority", "low")
            .header("Nats-Sinks-Classification", "  ")
            .header("NATS-SINKS-LABELS", "x;y")
            .build();
        let metadata = MetadataReader::new(MetadataSettings::default()).read(&envelope).metadata;
        assert_eq!(metadata.priority.as_deref(), Some("high"));
        assert_eq!(metadata.classification, None);
        assert_eq!(metadata.labels, ["x", "y"]);
        assert!(!format!("{metadata:?}").contains("high"));
    }
}
