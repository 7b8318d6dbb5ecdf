//! `[pre_sink_policy]` → [`Policy`].

use std::path::PathBuf;

use super::{check_switch, check_trimmed};
use crate::checks::policy::{Policy, PolicyRule, PolicySettings};
use crate::config::raw::{self, PolicyMode, Raw, UnmatchedSubjectAction};
use crate::config::size;
use crate::config::validate::{Validator, subjects};

const SECTION: &str = "pre_sink_policy";

pub(super) fn validate(root: &Raw, validator: &mut Validator<'_>) -> Policy {
    let raw = &root.pre_sink_policy;
    check_switch(SECTION, raw.enabled, !raw.rules.is_empty(), validator);
    let mut rules = Vec::new();
    for (index, rule) in raw.rules.iter().enumerate() {
        let path = path_of(index);
        check_asks_for_something(&path, rule, validator);
        check_bodies(&path, rule, root, validator);
        rules.extend(rule_of(&path, rule, root, validator));
    }
    if !raw.enabled {
        validator.warn(
            "policy: off; pre_sink_policy is not enabled, every message of allowed size reaches the sink",
        );
        return Policy::NotRequired;
    }
    let only_warns = raw.mode == PolicyMode::Warn;
    let allow_unmatched = raw.unmatched_subject_action == UnmatchedSubjectAction::Allow;
    if only_warns {
        validator.warn(
            "pre_sink_policy.mode = \"warn\": messages that break the policy are counted and logged, and reach the sink",
        );
    } else if !allow_unmatched {
        let patterns: Vec<_> =
            rules.iter().enumerate().map(|(index, rule)| (path_of(index), &rule.subject)).collect();
        subjects::warn_of_rejected(SECTION, &patterns, &root.consumer.filter_subjects, validator);
    }
    Policy::Required(PolicySettings { only_warns, allow_unmatched, rules })
}

fn path_of(index: usize) -> String {
    format!("{SECTION}.rules[{index}]")
}

fn rule_of(
    path: &str,
    raw: &raw::PolicyRule,
    root: &Raw,
    validator: &mut Validator<'_>,
) -> Option<PolicyRule> {
    check_labels(path, &raw.required_labels, validator);
    let subject = subjects::pattern(&format!("{path}.subject"), Some(&raw.subject), validator)?;
    Some(PolicyRule {
        require_priority: raw.require_priority,
        require_classification: raw.require_classification,
        required_labels: raw.required_labels.clone(),
        require_mission_metadata: raw.require_mission_metadata,
        allowed_mission_metadata_keys: raw.allowed_mission_metadata_keys.clone(),
        require_encrypted_payload: raw.require_encrypted_payload,
        max_payload_bytes: max_payload_bytes(path, raw, root, validator),
        require_mqtt_qos: quality(path, raw, validator),
        require_json: raw.require_json,
        json_schema: raw.json_schema.as_ref().map(PathBuf::from),
        ..PolicyRule::new(subject)
    })
}

/// Such a rule covers its subjects, so that nothing there is unmatched, and lets everything pass.
fn check_asks_for_something(path: &str, rule: &raw::PolicyRule, validator: &mut Validator<'_>) {
    let asks = rule.require_priority
        || rule.require_classification
        || !rule.required_labels.is_empty()
        || rule.require_mission_metadata
        || rule.allowed_mission_metadata_keys.is_some()
        || rule.require_encrypted_payload
        || rule.max_payload_bytes.is_some()
        || rule.require_mqtt_qos.is_some_and(|least| least > 0)
        || rule.require_json
        || rule.json_schema.is_some();
    let names = [
        "subject",
        "require_priority",
        "require_classification",
        "required_labels",
        "require_mission_metadata",
        "allowed_mission_metadata_keys",
        "require_encrypted_payload",
        "max_payload_bytes",
        "require_mqtt_qos",
        "require_json",
        "json_schema",
    ];
    if !asks {
        validator.refuse_rule(
            &format!("{path}."),
            &names,
            "the rule asks for nothing: it would let every message of its subjects pass as covered",
            "ask for something (require_priority = true, for instance), or remove the rule and, if that is meant, set \
             pre_sink_policy.unmatched_subject_action = \"allow\"",
        );
    }
}

/// What looks at bodies needs them.
fn check_bodies(path: &str, rule: &raw::PolicyRule, root: &Raw, validator: &mut Validator<'_>) {
    let body_rules = [
        ("require_encrypted_payload", rule.require_encrypted_payload),
        ("max_payload_bytes", rule.max_payload_bytes.is_some()),
        ("require_json", rule.require_json),
        ("json_schema", rule.json_schema.is_some()),
    ];
    for (name, _) in body_rules.into_iter().filter(|(_, asks)| *asks) {
        validator.require(
            root.consumer.headers_only == raw::HeadersOnly::Refused,
            &[&format!("{path}.{name}"), "consumer.headers_only"],
            "looks at the body, and the durable leaves bodies out",
            "remove it, or set consumer.headers_only = \"refused\" and bind a durable with bodies",
        );
    }
}

fn check_labels(path: &str, labels: &[String], validator: &mut Validator<'_>) {
    for (index, label) in labels.iter().enumerate() {
        let key = format!("{path}.required_labels[{index}]");
        check_trimmed(&key, label, validator);
        validator.require(
            !label.contains(';'),
            &[&key],
            "holds a semicolon, which separates labels: it could never match",
            "write one label in each text",
        );
    }
}

fn max_payload_bytes(
    path: &str,
    raw: &raw::PolicyRule,
    root: &Raw,
    validator: &mut Validator<'_>,
) -> Option<usize> {
    let bytes = raw.max_payload_bytes?.0;
    let key = format!("{path}.max_payload_bytes");
    let of_all = root.size_policy.max_payload_bytes.0;
    if bytes > of_all {
        validator.refuse(
            &[&key, "size_policy.max_payload_bytes"],
            format!(
                "{} is above size_policy.max_payload_bytes = {}, which is checked first",
                size::format(bytes),
                size::format(of_all)
            ),
            "lower it, or raise size_policy.max_payload_bytes",
        );
    }
    Some(validator.count(&key, bytes, 0, u64::MAX))
}

fn quality(path: &str, raw: &raw::PolicyRule, validator: &mut Validator<'_>) -> Option<u8> {
    let least = validator.count(&format!("{path}.require_mqtt_qos"), raw.require_mqtt_qos?, 0, 2);
    u8::try_from(least).ok()
}
