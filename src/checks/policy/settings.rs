//! What the operator asks of a message before it may be written (`[pre_sink_policy]`, formats §4).

use std::path::PathBuf;

use crate::subject::SubjectPattern;

/// What is asked by the pre-sink policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nothing: said in the log at start.
    #[default]
    NotRequired,
    /// What the rules say.
    Required(PolicySettings),
}

/// The rules of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySettings {
    /// `mode = "warn"`: violations are counted and logged, and the message passes.
    pub only_warns: bool,
    /// Whether a message that no rule covers passes; else it is rejected.
    pub allow_unmatched: bool,
    /// Every rule that matches the subject applies.
    pub rules: Vec<PolicyRule>,
}

/// What is asked of the messages of some subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The subjects.
    pub subject: SubjectPattern,
    /// A priority.
    pub require_priority: bool,
    /// A classification.
    pub require_classification: bool,
    /// Every one of these labels.
    pub required_labels: Vec<String>,
    /// Mission metadata.
    pub require_mission_metadata: bool,
    /// No other top-level keys in mission metadata, if it is there.
    pub allowed_mission_metadata_keys: Option<Vec<String>>,
    /// A body that is an encrypted payload envelope (formats §8).
    pub require_encrypted_payload: bool,
    /// Bytes of the body.
    pub max_payload_bytes: Option<usize>,
    /// The lowest QoS of a message that came through MQTT, 0 to 2.
    pub require_mqtt_qos: Option<u8>,
    /// A body that is strict JSON.
    pub require_json: bool,
    /// A file with a JSON Schema that the body fits. Read at start; references to other documents are refused.
    pub json_schema: Option<PathBuf>,
}

impl PolicyRule {
    /// A rule for these subjects that asks for nothing.
    #[must_use]
    pub const fn new(subject: SubjectPattern) -> Self {
        Self {
            subject,
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
