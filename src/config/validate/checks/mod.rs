//! `[message_metadata]`, `[security_labels]`, `[message_authenticity]`, `[size_policy]`, `[pre_sink_policy]` →
//! [`GateSettings`].
//!
//! What is written and not done would be a hole that nobody sees: rules of a section that is off, a section that is on
//! without rules, and rules that ask for nothing are refused.

mod authenticity;
mod headers;
mod keys;
mod metadata;
mod policy;
mod sizes;

use super::Validator;
use crate::checks::GateSettings;
use crate::config::raw::Raw;

pub(super) fn validate(raw: &Raw, validator: &mut Validator<'_>) -> GateSettings {
    headers::check(raw, validator);
    GateSettings {
        authenticity: authenticity::validate(raw, validator),
        size: sizes::validate(&raw.size_policy, validator),
        policy: policy::validate(raw, validator),
        metadata: metadata::validate(raw, validator),
    }
}

/// Refuses rules of a section that is off, and a section that is on and has none.
fn check_switch(section: &str, enabled: bool, has_rules: bool, validator: &mut Validator<'_>) {
    let (rules, switch) = (format!("{section}.rules"), format!("{section}.enabled"));
    if !enabled && has_rules {
        validator.refuse(
            &[&rules, &switch],
            format!("there are rules, and {section} is off: none of them would be asked"),
            format!("set {switch} = true, or remove the rules"),
        );
    }
    if enabled && !has_rules {
        validator.refuse(
            &[&switch, &rules],
            format!("{section} is on without a rule: no message is checked, each is only unmatched"),
            format!("add [[{rules}]], or set {switch} = false"),
        );
    }
}

/// Refuses a text that is compared with trimmed ones and could never be the same.
fn check_trimmed(key: &str, text: &str, validator: &mut Validator<'_>) {
    if text.trim() != text {
        validator.refuse(&[key], "begins or ends with white space: it could never match", "remove it");
    }
}
