//! What rules ask for, in words.

use super::report::{FindingReport, Rule};
use crate::checks::authenticity::{Authenticity, KeySettings, SignatureRule};
use crate::checks::policy::{Policy, PolicyRule};

/// What happens to a subject that no rule covers.
pub(super) fn unmatched(allowed: bool) -> String {
    let action = if allowed { "such messages pass" } else { "such messages are rejected" };
    format!("no rule matches the subject; {action} (unmatched_subject_action)")
}

/// The rule for signatures with this index.
pub(super) fn signature_rule(authenticity: &Authenticity, index: usize) -> Option<Rule> {
    let Authenticity::Required(settings) = authenticity else { return None };
    let rule = settings.rules.get(index)?;
    Some(Rule {
        rule: format!("message_authenticity.rules[{index}]"),
        subject: rule.subject.to_string(),
        asked: rule.signature.as_ref().map_or_else(|| "nothing: enabled = false".into(), signature),
        finding: None,
    })
}

fn signature(rule: &SignatureRule) -> String {
    let keys: Vec<_> = rule.keys.iter().map(key).collect();
    let mut fields = rule.signed_fields.clone();
    fields.sort_unstable();
    let fields: Vec<_> = fields.iter().map(|field| field.as_str()).collect();
    let also = if fields.is_empty() { String::new() } else { format!(" and {}", fields.join(", ")) };
    format!("an {} signature of the payload{also}, by key {}", rule.algorithm.as_str(), keys.join(" or "))
}

fn key(key: &KeySettings) -> String {
    let mut text = key.key_id.clone();
    if let Some(from) = key.not_before {
        text.push_str(&format!(" (stored from {})", from.rfc3339()));
    }
    if let Some(until) = key.not_after {
        text.push_str(&format!(" (stored until {})", until.rfc3339()));
    }
    text
}

/// What the policy as a whole asks, where its rules do not say it.
pub(super) fn policy(policy: &Policy, none_matches: bool) -> Option<String> {
    match policy {
        Policy::NotRequired => Some("nothing: pre_sink_policy is off".into()),
        Policy::Required(settings) if none_matches => Some(unmatched(settings.allow_unmatched)),
        Policy::Required(settings) if settings.only_warns => Some("mode = \"warn\": it only warns".into()),
        Policy::Required(_) => None,
    }
}

/// The policy rule with this index.
pub(super) fn policy_rule(policy: &Policy, index: usize, finding: FindingReport) -> Option<Rule> {
    let Policy::Required(settings) = policy else { return None };
    let rule = settings.rules.get(index)?;
    Some(Rule {
        rule: format!("pre_sink_policy.rules[{index}]"),
        subject: rule.subject.to_string(),
        asked: of_policy_rule(rule),
        finding: Some(finding),
    })
}

fn of_policy_rule(rule: &PolicyRule) -> String {
    let list = |values: &[String]| values.join(", ");
    let asked = [
        rule.require_priority.then(|| "a priority".to_owned()),
        rule.require_classification.then(|| "a classification".to_owned()),
        (!rule.required_labels.is_empty()).then(|| format!("the labels {}", list(&rule.required_labels))),
        rule.require_mission_metadata.then(|| "mission metadata".to_owned()),
        rule.allowed_mission_metadata_keys
            .as_ref()
            .map(|keys| format!("no mission metadata keys but {}", list(keys))),
        rule.require_encrypted_payload.then(|| "an encrypted payload".to_owned()),
        rule.max_payload_bytes.map(|limit| format!("at most {limit} bytes of payload")),
        rule.require_mqtt_qos.map(|qos| format!("QoS {qos} or more of what came through MQTT")),
        rule.require_json.then(|| "a JSON payload".to_owned()),
        rule.json_schema.as_ref().map(|file| format!("a payload that fits {}", file.display())),
    ];
    let asked: Vec<_> = asked.into_iter().flatten().collect();
    if asked.is_empty() { "nothing".into() } else { asked.join("; ") }
}
