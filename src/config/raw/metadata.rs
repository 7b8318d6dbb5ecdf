//! `[message_metadata]` and `[security_labels]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages::widen;
use crate::checks::metadata::{MetadataHeaders, SecurityLabelSettings};
use crate::config::size::ByteSize;
use crate::config::text::{JsonObject, TextOrNothing};

/// Where metadata comes from: a header, else the first rule for the subject that sets the field, else the default.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct MessageMetadata {
    /// Header of the priority.
    pub(in crate::config) priority_header: String,
    /// Header of the classification.
    pub(in crate::config) classification_header: String,
    /// Header of the labels, split on `;`.
    pub(in crate::config) labels_header: String,
    /// Header of the mission metadata, a JSON object.
    pub(in crate::config) mission_metadata_header: String,
    /// Priority where neither header nor rule gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) default_priority: Option<TextOrNothing>,
    /// Classification where neither header nor rule gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) default_classification: Option<TextOrNothing>,
    /// Labels where neither header nor rule gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) default_labels: Option<Vec<String>>,
    /// Mission metadata where neither header nor rule gives it: a JSON object as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) default_mission_metadata: Option<JsonObject>,
    /// Rules; for each field the first that matches the subject and sets the field counts.
    pub(in crate::config) rules: Vec<MetadataRule>,
}

impl Default for MessageMetadata {
    fn default() -> Self {
        let headers = MetadataHeaders::default();
        Self {
            priority_header: headers.priority,
            classification_header: headers.classification,
            labels_header: headers.labels,
            mission_metadata_header: headers.mission_metadata,
            default_priority: None,
            default_classification: None,
            default_labels: None,
            default_mission_metadata: None,
            rules: Vec::new(),
        }
    }
}

/// Metadata of the messages of some subjects.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct MetadataRule {
    /// Pattern of the subjects. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) subject: Option<String>,
    /// The priority; a blank text is explicitly none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) priority: Option<TextOrNothing>,
    /// The classification; a blank text is explicitly none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) classification: Option<TextOrNothing>,
    /// The labels; an empty list is explicitly none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) labels: Option<Vec<String>>,
    /// The mission metadata, a JSON object as text; a blank text is explicitly none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) mission_metadata: Option<JsonObject>,
}

/// Security labels, profile `nats-sinks.security-label.v1`: a JSON object in a header, else from the first rule for the
/// subject, else the default.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct SecurityLabels {
    /// Read security labels; else their header is plain data.
    pub(in crate::config) enabled: bool,
    /// Header of the security labels.
    pub(in crate::config) header: String,
    /// Largest value of the header.
    pub(in crate::config) max_bytes: ByteSize,
    /// What `priority` may be; empty = anything.
    pub(in crate::config) allowed_priorities: Vec<String>,
    /// What `classification` may be; empty = anything.
    pub(in crate::config) allowed_classifications: Vec<String>,
    /// What each of `releasability` may be; empty = anything.
    pub(in crate::config) allowed_releasability: Vec<String>,
    /// What each of `handling_caveats` may be; empty = anything.
    pub(in crate::config) allowed_handling_caveats: Vec<String>,
    /// What `retention_category` may be; empty = anything.
    pub(in crate::config) allowed_retention_categories: Vec<String>,
    /// Labels where neither header nor rule gives them: a JSON object as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) default: Option<JsonObject>,
    /// Rules; the first that matches the subject counts.
    pub(in crate::config) rules: Vec<SecurityLabelRule>,
}

impl Default for SecurityLabels {
    fn default() -> Self {
        let settings = SecurityLabelSettings::default();
        Self {
            enabled: false,
            header: settings.header,
            max_bytes: ByteSize(widen(settings.max_bytes)),
            allowed_priorities: Vec::new(),
            allowed_classifications: Vec::new(),
            allowed_releasability: Vec::new(),
            allowed_handling_caveats: Vec::new(),
            allowed_retention_categories: Vec::new(),
            default: None,
            rules: Vec::new(),
        }
    }
}

/// Security labels of the messages of some subjects.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct SecurityLabelRule {
    /// Pattern of the subjects. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) subject: Option<String>,
    /// The labels, a JSON object as text; a blank text is explicitly none. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) profile: Option<JsonObject>,
}
