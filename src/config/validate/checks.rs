//! `[message_metadata]`, `[message_authenticity]`, `[size_policy]`, `[pre_sink_policy]` → [`GateSettings`].

use super::{Validator, names};
use crate::checks::authenticity::Authenticity;
use crate::checks::metadata::{MetadataHeaders, MetadataSettings};
use crate::checks::policy::Policy;
use crate::checks::{GateSettings, SizeLimits};
use crate::config::raw::{self, MessageMetadata, Raw, SizePolicy};
use crate::config::size;

pub(super) fn validate(raw: &Raw, validator: &mut Validator<'_>) -> GateSettings {
    GateSettings {
        authenticity: authenticity(&raw.message_authenticity, validator),
        size: sizes(&raw.size_policy, validator),
        policy: policy(&raw.pre_sink_policy, validator),
        metadata: MetadataSettings {
            headers: metadata(&raw.message_metadata, validator),
            ..MetadataSettings::default()
        },
    }
}

fn authenticity(raw: &raw::Authenticity, validator: &mut Validator<'_>) -> Authenticity {
    refuse_if_asked("message_authenticity", raw.enabled, !raw.rules.is_empty(), validator);
    validator
        .warn("authenticity: off; message_authenticity is not enabled, every message counts as authentic");
    Authenticity::NotRequired
}

fn policy(raw: &raw::Policy, validator: &mut Validator<'_>) -> Policy {
    refuse_if_asked("pre_sink_policy", raw.enabled, !raw.rules.is_empty(), validator);
    validator
        .warn("policy: off; pre_sink_policy is not enabled, every message of allowed size reaches the sink");
    Policy::NotRequired
}

/// Asked for and not done would be a hole that nobody sees, so it is refused.
fn refuse_if_asked(section: &str, enabled: bool, has_rules: bool, validator: &mut Validator<'_>) {
    let key = if enabled { "enabled" } else { "rules" };
    if enabled || has_rules {
        validator.refuse(
            &[&format!("{section}.{key}")],
            format!("{section} is not supported by this version"),
            format!("remove the rules and set {section}.enabled = false, or use a version that supports it"),
        );
    }
}

fn sizes(raw: &SizePolicy, validator: &mut Validator<'_>) -> SizeLimits {
    let pairs = [
        ("max_headers_bytes", raw.max_headers_bytes, "max_header_name_bytes", raw.max_header_name_bytes),
        ("max_headers_bytes", raw.max_headers_bytes, "max_header_value_bytes", raw.max_header_value_bytes),
        ("max_labels_bytes", raw.max_labels_bytes, "max_label_bytes", raw.max_label_bytes),
        (
            "max_normalized_record_bytes",
            raw.max_normalized_record_bytes,
            "max_payload_bytes",
            raw.max_payload_bytes,
        ),
    ];
    for (whole, whole_limit, part, part_limit) in pairs {
        if whole_limit.0 < part_limit.0 {
            validator.refuse(
                &[&format!("size_policy.{whole}"), &format!("size_policy.{part}")],
                format!(
                    "the limit of the whole ({}) is below {part} ({}), the limit of a part of it",
                    size::format(whole_limit.0),
                    size::format(part_limit.0)
                ),
                format!("raise {whole}, or lower {part}"),
            );
        }
    }
    let mut limit =
        |name: &str, value, least| validator.count(&format!("size_policy.{name}"), value, least, u64::MAX);
    SizeLimits {
        max_payload_bytes: limit("max_payload_bytes", raw.max_payload_bytes.0, 0),
        max_header_count: limit("max_header_count", raw.max_header_count, 0),
        max_header_name_bytes: limit("max_header_name_bytes", raw.max_header_name_bytes.0, 0),
        max_header_value_bytes: limit("max_header_value_bytes", raw.max_header_value_bytes.0, 0),
        max_headers_bytes: limit("max_headers_bytes", raw.max_headers_bytes.0, 0),
        max_label_count: limit("max_label_count", raw.max_label_count, 0),
        max_label_bytes: limit("max_label_bytes", raw.max_label_bytes.0, 0),
        max_labels_bytes: limit("max_labels_bytes", raw.max_labels_bytes.0, 0),
        max_mission_metadata_bytes: limit("max_mission_metadata_bytes", raw.max_mission_metadata_bytes.0, 0),
        max_standard_metadata_bytes: limit(
            "max_standard_metadata_bytes",
            raw.max_standard_metadata_bytes.0,
            0,
        ),
        max_normalized_record_bytes: limit(
            "max_normalized_record_bytes",
            raw.max_normalized_record_bytes.0,
            0,
        ),
        max_batch_messages: limit("max_batch_messages", raw.max_batch_messages, 1),
    }
}

fn metadata(raw: &MessageMetadata, validator: &mut Validator<'_>) -> MetadataHeaders {
    let headers = [
        ("message_metadata.priority_header", &raw.priority_header),
        ("message_metadata.classification_header", &raw.classification_header),
        ("message_metadata.labels_header", &raw.labels_header),
        ("message_metadata.mission_metadata_header", &raw.mission_metadata_header),
    ];
    for (index, (key, name)) in headers.iter().enumerate() {
        if let Some(fault) = names::header_fault_of(name) {
            validator.refuse(&[key], fault, "write printable ASCII without blanks and colons");
        }
        let twin = headers.iter().take(index).find(|(_, other)| other.eq_ignore_ascii_case(name));
        if let Some((other, _)) = twin {
            validator.refuse(
                &[key, other],
                format!("{key} and {other} name the same header"),
                "give each its own header",
            );
        }
    }
    MetadataHeaders {
        priority: raw.priority_header.clone(),
        classification: raw.classification_header.clone(),
        labels: raw.labels_header.clone(),
        mission_metadata: raw.mission_metadata_header.clone(),
    }
}
