//! Why a message was not written: the closed set of reason codes.
//!
//! A code is a metric label, the `reason` field of a dead letter and an anchor in docs/reason-codes.md, so its text never
//! changes once released (formats §2, §3, §6).

use std::fmt;

/// Where on its way a message was rejected; the `stage` of a dead letter (formats §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// The authenticity check.
    Authenticity,
    /// The size policy.
    Size,
    /// The pre-sink policy.
    Policy,
    /// The sink refused the record.
    Sink,
    /// The way of the delivery itself: attempts or arrivals used up.
    Delivery,
}

impl Stage {
    /// Every stage, in the order of a message's way.
    pub const ALL: &'static [Self] =
        &[Self::Authenticity, Self::Size, Self::Policy, Self::Sink, Self::Delivery];

    /// The text that dead letters and metrics carry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authenticity => "authenticity",
            Self::Size => "size",
            Self::Policy => "policy",
            Self::Sink => "sink",
            Self::Delivery => "delivery",
        }
    }
}

/// The class of a failure as the ancestor's readers know it; the `error_type` of a dead letter (formats §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// Authenticity and policy.
    PolicyViolation,
    /// The size policy.
    SizePolicyViolation,
    /// The sink refused the record for good.
    PermanentSink,
    /// The record could not be encoded.
    Serialization,
    /// A metadata header is malformed.
    Validation,
    /// Every attempt was used up, ours or the server's.
    AttemptsExhausted,
    /// The message cannot be handed to a client, seems to kill it, was terminated or is gone.
    UndeliverableMessage,
}

impl ErrorType {
    /// The text that dead letters carry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PolicyViolation => "PolicyViolationError",
            Self::SizePolicyViolation => "SizePolicyViolationError",
            Self::PermanentSink => "PermanentSinkError",
            Self::Serialization => "SerializationError",
            Self::Validation => "ValidationError",
            Self::AttemptsExhausted => "AttemptsExhaustedError",
            Self::UndeliverableMessage => "UndeliverableMessageError",
        }
    }
}

/// Why a message was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReasonCode {
    /// The rule asks for a signature and the algorithm header is missing or blank.
    AlgorithmHeaderMissing,
    /// The message names another algorithm than its rule.
    AlgorithmMismatch,
    /// The key id header is missing or blank.
    KeyIdHeaderMissing,
    /// No key of the rule has the id that the message names, or none was valid when the stream stored it.
    KeyIdMismatch,
    /// The signature header is missing or blank.
    SignatureHeaderMissing,
    /// The signature is no strict base64, too long, or does not fit the message.
    SignatureInvalid,
    /// A header that the check rests on is there twice, or in two spellings.
    AuthenticityHeaderAmbiguous,
    /// No authenticity rule matches the subject, and unmatched subjects are rejected.
    SubjectNotCoveredByAuthenticityPolicy,
    /// The payload is above `size_policy.max_payload_bytes`.
    PayloadTooLarge,
    /// More headers than `size_policy.max_header_count`.
    HeaderCountTooLarge,
    /// A header name is above `size_policy.max_header_name_bytes`.
    HeaderNameTooLarge,
    /// A header value is above `size_policy.max_header_value_bytes`.
    HeaderValueTooLarge,
    /// Names and values together are above `size_policy.max_headers_bytes`.
    HeadersTooLarge,
    /// More labels than `size_policy.max_label_count`.
    LabelCountTooLarge,
    /// A label is above `size_policy.max_label_bytes`.
    LabelTooLarge,
    /// The labels together are above `size_policy.max_labels_bytes`.
    LabelsTooLarge,
    /// Mission metadata is above `size_policy.max_mission_metadata_bytes`.
    MissionMetadataTooLarge,
    /// The mission metadata header is no JSON object within the bounds of formats §1.
    MissionMetadataInvalid,
    /// The security labels header is no profile `nats-sinks.security-label.v1`.
    SecurityLabelsInvalid,
    /// A security label is not in its allow-list.
    SecurityLabelNotAllowed,
    /// The record without its payload is above `size_policy.max_standard_metadata_bytes`.
    StandardMetadataTooLarge,
    /// The record is above `size_policy.max_normalized_record_bytes`.
    NormalizedRecordTooLarge,
    /// A policy rule requires a priority.
    PriorityRequired,
    /// A policy rule requires a classification.
    ClassificationRequired,
    /// A policy rule requires a label that the message lacks.
    RequiredLabelMissing,
    /// A policy rule requires mission metadata.
    MissionMetadataRequired,
    /// Mission metadata has a key that a policy rule does not allow.
    MissionMetadataKeyNotAllowed,
    /// A policy rule requires an encrypted payload.
    EncryptedPayloadRequired,
    /// The message came through MQTT with a lower QoS than a policy rule asks.
    MqttQosTooLow,
    /// The payload does not fit the JSON Schema of a policy rule.
    SchemaViolation,
    /// No policy rule matches the subject, and unmatched subjects are rejected.
    SubjectNotCoveredByPolicy,
    /// A policy rule or `payload_mode = "json_only"` asks for JSON and the payload is not strict JSON.
    PayloadNotJson,
    /// The sink cannot store this record under the name it would need.
    NameTooLong,
    /// The sink refused this record for a reason of its own.
    SinkRefused,
    /// The record failed `delivery.max_attempts` times while the sink was healthy.
    AttemptsExhausted,
    /// The message arrived `delivery.crash_limit` times and was never settled.
    SuspectedCrash,
    /// No client can be handed the message: its header block or subject ends the connection.
    UndeliverableMessage,
    /// The server delivered the message as often as the durable's `max_deliver` allows, and nobody settled it.
    DeliveriesExhausted,
    /// Somebody else terminated the message.
    TerminatedElsewhere,
    /// The server gave up on the message, or somebody terminated it, and its body is gone: this is the record of the loss.
    MessageLost,
}

impl ReasonCode {
    /// Every code, in the order of docs/reason-codes.md.
    pub const ALL: &'static [Self] = &[
        Self::AlgorithmHeaderMissing,
        Self::AlgorithmMismatch,
        Self::KeyIdHeaderMissing,
        Self::KeyIdMismatch,
        Self::SignatureHeaderMissing,
        Self::SignatureInvalid,
        Self::AuthenticityHeaderAmbiguous,
        Self::SubjectNotCoveredByAuthenticityPolicy,
        Self::PayloadTooLarge,
        Self::HeaderCountTooLarge,
        Self::HeaderNameTooLarge,
        Self::HeaderValueTooLarge,
        Self::HeadersTooLarge,
        Self::LabelCountTooLarge,
        Self::LabelTooLarge,
        Self::LabelsTooLarge,
        Self::MissionMetadataTooLarge,
        Self::MissionMetadataInvalid,
        Self::SecurityLabelsInvalid,
        Self::SecurityLabelNotAllowed,
        Self::StandardMetadataTooLarge,
        Self::NormalizedRecordTooLarge,
        Self::PriorityRequired,
        Self::ClassificationRequired,
        Self::RequiredLabelMissing,
        Self::MissionMetadataRequired,
        Self::MissionMetadataKeyNotAllowed,
        Self::EncryptedPayloadRequired,
        Self::MqttQosTooLow,
        Self::SchemaViolation,
        Self::SubjectNotCoveredByPolicy,
        Self::PayloadNotJson,
        Self::NameTooLong,
        Self::SinkRefused,
        Self::AttemptsExhausted,
        Self::SuspectedCrash,
        Self::UndeliverableMessage,
        Self::DeliveriesExhausted,
        Self::TerminatedElsewhere,
        Self::MessageLost,
    ];

    /// The text that dead letters and metrics carry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AlgorithmHeaderMissing => "algorithm_header_missing",
            Self::AlgorithmMismatch => "algorithm_mismatch",
            Self::KeyIdHeaderMissing => "key_id_header_missing",
            Self::KeyIdMismatch => "key_id_mismatch",
            Self::SignatureHeaderMissing => "signature_header_missing",
            Self::SignatureInvalid => "signature_invalid",
            Self::AuthenticityHeaderAmbiguous => "authenticity_header_ambiguous",
            Self::SubjectNotCoveredByAuthenticityPolicy => "subject_not_covered_by_authenticity_policy",
            Self::PayloadTooLarge => "payload_too_large",
            Self::HeaderCountTooLarge => "header_count_too_large",
            Self::HeaderNameTooLarge => "header_name_too_large",
            Self::HeaderValueTooLarge => "header_value_too_large",
            Self::HeadersTooLarge => "headers_too_large",
            Self::LabelCountTooLarge => "label_count_too_large",
            Self::LabelTooLarge => "label_too_large",
            Self::LabelsTooLarge => "labels_too_large",
            Self::MissionMetadataTooLarge => "mission_metadata_too_large",
            Self::MissionMetadataInvalid => "mission_metadata_invalid",
            Self::SecurityLabelsInvalid => "security_labels_invalid",
            Self::SecurityLabelNotAllowed => "security_label_not_allowed",
            Self::StandardMetadataTooLarge => "standard_metadata_too_large",
            Self::NormalizedRecordTooLarge => "normalized_record_too_large",
            Self::PriorityRequired => "priority_required",
            Self::ClassificationRequired => "classification_required",
            Self::RequiredLabelMissing => "required_label_missing",
            Self::MissionMetadataRequired => "mission_metadata_required",
            Self::MissionMetadataKeyNotAllowed => "mission_metadata_key_not_allowed",
            Self::EncryptedPayloadRequired => "encrypted_payload_required",
            Self::MqttQosTooLow => "mqtt_qos_too_low",
            Self::SchemaViolation => "schema_violation",
            Self::SubjectNotCoveredByPolicy => "subject_not_covered_by_policy",
            Self::PayloadNotJson => "payload_not_json",
            Self::NameTooLong => "name_too_long",
            Self::SinkRefused => "sink_refused",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::SuspectedCrash => "suspected_crash",
            Self::UndeliverableMessage => "undeliverable_message",
            Self::DeliveriesExhausted => "deliveries_exhausted",
            Self::TerminatedElsewhere => "terminated_elsewhere",
            Self::MessageLost => "message_lost",
        }
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_fit_a_metric_label() {
        let mut texts: Vec<_> = ReasonCode::ALL.iter().map(|code| code.as_str()).collect();
        assert!(texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), ReasonCode::ALL.len());
    }
}
