//! What the metadata headers of a message say (formats §1). Header names are compared in any case, and the first header of
//! a name counts.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use super::settings::MetadataHeaders;
use crate::envelope::Headers;

/// Metadata that records and dead letters carry as fields of their own.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StandardMetadata {
    /// Trimmed; a header that is blank or absent is `None`.
    pub priority: Option<String>,
    /// Trimmed; a header that is blank or absent is `None`.
    pub classification: Option<String>,
    /// Split on `;`, trimmed, without blanks and duplicates, in order.
    pub labels: Vec<String>,
}

impl StandardMetadata {
    /// Reads the headers.
    #[must_use]
    pub fn read(headers: &Headers, names: &MetadataHeaders) -> Self {
        let text =
            |name| first(headers, name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let labels = first(headers, &names.labels);
        Self {
            priority: text(&names.priority),
            classification: text(&names.classification),
            labels: labels.as_deref().map(split_labels).into_iter().flatten().map(str::to_owned).collect(),
        }
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

/// Shows no value.
impl fmt::Debug for StandardMetadata {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StandardMetadata").field("labels", &self.labels.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_split_trimmed_and_unique() {
        assert_eq!(split_labels(" a;b ;; a ;\tc;"), ["a", "b", "c"]);
        assert!(split_labels(" ; ").is_empty());
    }

    #[test]
    fn the_first_header_of_a_name_in_any_case_counts() {
        let mut headers = Headers::new();
        headers.append("nats-sinks-priority", " high ");
        headers.append("Nats-Sinks-Priority", "low");
        headers.append("Nats-Sinks-Classification", "  ");
        headers.append("NATS-SINKS-LABELS", "x;y");
        let metadata = StandardMetadata::read(&headers, &MetadataHeaders::default());
        assert_eq!(metadata.priority.as_deref(), Some("high"));
        assert_eq!(metadata.classification, None);
        assert_eq!(metadata.labels, ["x", "y"]);
        assert!(!format!("{metadata:?}").contains("high"));
    }
}
