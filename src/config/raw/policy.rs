//! `[pre_sink_policy]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnmatchedSubjectAction;
use crate::config::size::ByteSize;

/// Rules that a message must meet before it reaches the sink.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Policy {
    /// Ask for what the rules say.
    pub(in crate::config) enabled: bool,
    /// Whether a violation rejects the message, or is only counted and logged.
    pub(in crate::config) mode: PolicyMode,
    /// What happens to a message that no rule covers.
    pub(in crate::config) unmatched_subject_action: UnmatchedSubjectAction,
    /// Rules; all that match the subject apply.
    pub(in crate::config) rules: Vec<PolicyRule>,
}

/// Whether a violation rejects the message, or is only counted and logged.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum PolicyMode {
    #[default]
    Enforce,
    Warn,
}

/// What is asked of the messages of some subjects.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct PolicyRule {
    /// Pattern of the subjects.
    pub(in crate::config) subject: String,
    /// A priority.
    pub(in crate::config) require_priority: bool,
    /// A classification.
    pub(in crate::config) require_classification: bool,
    /// Every one of these labels.
    pub(in crate::config) required_labels: Vec<String>,
    /// Mission metadata.
    pub(in crate::config) require_mission_metadata: bool,
    /// No other top-level keys in mission metadata, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) allowed_mission_metadata_keys: Option<Vec<String>>,
    /// A body that is an encrypted payload envelope.
    pub(in crate::config) require_encrypted_payload: bool,
    /// The largest body; not above `size_policy.max_payload_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) max_payload_bytes: Option<ByteSize>,
    /// The lowest QoS of a message that came through MQTT: 0, 1 or 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) require_mqtt_qos: Option<u64>,
    /// A body that is strict JSON.
    pub(in crate::config) require_json: bool,
    /// File with a JSON Schema that the body fits, read at start; it refers to no other document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) json_schema: Option<String>,
}

impl Default for PolicyRule {
    fn default() -> Self {
        Self {
            subject: ">".into(),
            require_priority: false,
            require_classification: false,
            required_labels: Vec::new(),
            require_mission_metadata: false,
            allowed_mission_metadata_keys: None,
            require_encrypted_payload: false,
            max_payload_bytes: None,
            require_mqtt_qos: None,
            require_json: false,
            json_schema: None,
        }
    }
}
