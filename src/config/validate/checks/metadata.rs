//! `[message_metadata]` and `[security_labels]` → [`MetadataSettings`].

use super::{check_switch, check_trimmed};
use crate::checks::metadata::{
    AllowedLabels, MetadataHeaders, MetadataRule, MetadataSettings, MetadataValues, SecurityLabelSettings,
};
use crate::config::raw::{self, MessageMetadata, Raw, SecurityLabels};
use crate::config::text::{JsonObject, TextOrNothing};
use crate::config::validate::{Validator, subjects};

pub(super) fn validate(raw: &Raw, validator: &mut Validator<'_>) -> MetadataSettings {
    let metadata = &raw.message_metadata;
    MetadataSettings {
        headers: MetadataHeaders {
            priority: metadata.priority_header.clone(),
            classification: metadata.classification_header.clone(),
            labels: metadata.labels_header.clone(),
            mission_metadata: metadata.mission_metadata_header.clone(),
        },
        rules: rules(&metadata.rules, validator),
        defaults: defaults(metadata, validator),
        security_labels: security_labels(&raw.security_labels, validator),
    }
}

/// The fields of a rule or of the defaults, and what stands before their names in keys.
struct Fields<'raw> {
    prefix: &'raw str,
    priority: &'raw Option<TextOrNothing>,
    classification: &'raw Option<TextOrNothing>,
    labels: &'raw Option<Vec<String>>,
    mission_metadata: &'raw Option<JsonObject>,
}

fn defaults(raw: &MessageMetadata, validator: &mut Validator<'_>) -> MetadataValues {
    let fields = Fields {
        prefix: "message_metadata.default_",
        priority: &raw.default_priority,
        classification: &raw.default_classification,
        labels: &raw.default_labels,
        mission_metadata: &raw.default_mission_metadata,
    };
    values(&fields, validator)
}

fn rules(raw: &[raw::MetadataRule], validator: &mut Validator<'_>) -> Vec<MetadataRule> {
    let mut rules = Vec::new();
    for (index, rule) in raw.iter().enumerate() {
        let prefix = format!("message_metadata.rules[{index}].");
        let subject = subjects::pattern(&format!("{prefix}subject"), rule.subject.as_deref(), validator);
        let fields = Fields {
            prefix: &prefix,
            priority: &rule.priority,
            classification: &rule.classification,
            labels: &rule.labels,
            mission_metadata: &rule.mission_metadata,
        };
        let sets_nothing = rule.priority.is_none()
            && rule.classification.is_none()
            && rule.labels.is_none()
            && rule.mission_metadata.is_none();
        if sets_nothing {
            let names = ["priority", "classification", "labels", "mission_metadata"];
            validator.refuse_rule(
                &prefix,
                &names,
                "the rule sets nothing",
                "set one of them, or remove the rule",
            );
        }
        let values = values(&fields, validator);
        rules.extend(subject.map(|subject| MetadataRule { subject, values }));
    }
    rules
}

fn values(fields: &Fields<'_>, validator: &mut Validator<'_>) -> MetadataValues {
    let text =
        |text: &Option<TextOrNothing>| text.as_ref().map(|text| MetadataValues::text_of(text.as_str()));
    let mission_metadata = fields.mission_metadata.as_ref().map(|text| {
        MetadataValues::mission_metadata_of(text.as_str()).unwrap_or_else(|error| {
            let key = format!("{}mission_metadata", fields.prefix);
            validator.refuse(&[&key], error.to_string(), JSON_REMEDY);
            None
        })
    });
    MetadataValues {
        priority: text(fields.priority),
        classification: text(fields.classification),
        labels: fields
            .labels
            .as_ref()
            .map(|labels| MetadataValues::labels_of(labels.iter().map(String::as_str))),
        mission_metadata,
    }
}

const JSON_REMEDY: &str = "write one JSON object as text, '{\"unit\": \"7\"}' for instance";

fn security_labels(raw: &SecurityLabels, validator: &mut Validator<'_>) -> Option<SecurityLabelSettings> {
    let allowed = [
        ("security_labels.allowed_priorities", &raw.allowed_priorities),
        ("security_labels.allowed_classifications", &raw.allowed_classifications),
        ("security_labels.allowed_releasability", &raw.allowed_releasability),
        ("security_labels.allowed_handling_caveats", &raw.allowed_handling_caveats),
        ("security_labels.allowed_retention_categories", &raw.allowed_retention_categories),
    ];
    for (list, texts) in allowed {
        for (index, text) in texts.iter().enumerate() {
            check_trimmed(&format!("{list}[{index}]"), text, validator);
        }
        if !raw.enabled && !texts.is_empty() {
            refuse_unused(list, validator);
        }
    }
    if !raw.enabled && raw.default.is_some() {
        refuse_unused("security_labels.default", validator);
    }
    if !raw.enabled {
        check_switch("security_labels", false, !raw.rules.is_empty(), validator);
    }
    let settings = SecurityLabelSettings {
        header: raw.header.clone(),
        rules: Vec::new(),
        default: None,
        allowed: AllowedLabels {
            priorities: raw.allowed_priorities.clone(),
            classifications: raw.allowed_classifications.clone(),
            releasability: raw.allowed_releasability.clone(),
            handling_caveats: raw.allowed_handling_caveats.clone(),
            retention_categories: raw.allowed_retention_categories.clone(),
        },
        max_bytes: validator.count("security_labels.max_bytes", raw.max_bytes.0, 2, LONGEST_LABELS),
    };
    let default = raw.default.as_ref();
    let default = default.and_then(|text| profile("security_labels.default", text, &settings, validator));
    let rules = label_rules(raw, &settings, validator);
    raw.enabled.then_some(SecurityLabelSettings { rules, default, ..settings })
}

/// A header is no place for more.
const LONGEST_LABELS: u64 = 1 << 20;

fn refuse_unused(key: &str, validator: &mut Validator<'_>) {
    validator.refuse(
        &[key, "security_labels.enabled"],
        "is set, and security_labels is off: it would not count",
        "set security_labels.enabled = true, or remove it",
    );
}

fn label_rules(
    raw: &SecurityLabels,
    settings: &SecurityLabelSettings,
    validator: &mut Validator<'_>,
) -> Vec<(crate::subject::SubjectPattern, Option<String>)> {
    let mut rules = Vec::new();
    for (index, rule) in raw.rules.iter().enumerate() {
        let path = format!("security_labels.rules[{index}]");
        let subject = subjects::pattern(&format!("{path}.subject"), rule.subject.as_deref(), validator);
        let key = format!("{path}.profile");
        let profile = match &rule.profile {
            Some(text) => profile(&key, text, settings, validator),
            None => {
                validator.missing(&key, "write the labels as JSON object, or \"\" for explicitly none");
                None
            }
        };
        rules.extend(subject.map(|subject| (subject, profile)));
    }
    let patterns: Vec<_> = rules
        .iter()
        .enumerate()
        .map(|(index, (subject, _))| (format!("security_labels.rules[{index}]"), subject))
        .collect();
    subjects::warn_of_unreachable(&patterns, validator);
    rules
}

fn profile(
    key: &str,
    text: &JsonObject,
    settings: &SecurityLabelSettings,
    validator: &mut Validator<'_>,
) -> Option<String> {
    settings.profile_of(text.as_str()).unwrap_or_else(|error| {
        let rests_on = [key, "security_labels.max_bytes"];
        validator.refuse(
            &rests_on,
            error.to_string(),
            "write labels of the profile nats-sinks.security-label.v1",
        );
        None
    })
}
