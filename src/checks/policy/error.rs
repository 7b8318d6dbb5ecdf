//! Why the rules of a policy cannot be used.

use std::path::PathBuf;

use super::schema::SchemaError;

/// Why the rules of a policy cannot be used. Rules are counted from 0, as they stand in the file.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// No message can carry this label, so every message would be rejected.
    #[error(
        "pre_sink_policy.rules[{rule}].required_labels: no message can carry the label {label:?}; labels are split on \
         `;` and trimmed: give each one by itself, without white space around it"
    )]
    Label {
        /// The rule.
        rule: usize,
        /// The label.
        label: String,
    },
    /// MQTT knows the numbers 0 to 2.
    #[error("pre_sink_policy.rules[{rule}].require_mqtt_qos: MQTT has no QoS {qos}; set 0, 1 or 2")]
    MqttQos {
        /// The rule.
        rule: usize,
        /// The number.
        qos: u8,
    },
    /// The schema of a rule.
    #[error("pre_sink_policy.rules[{rule}].json_schema: {} cannot be used", path.display())]
    Schema {
        /// The rule.
        rule: usize,
        /// The file.
        path: PathBuf,
        /// Why.
        source: SchemaError,
    },
}
