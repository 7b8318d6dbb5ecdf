//! `[message_authenticity]` → [`Authenticity`].

use super::{check_switch, keys};
use crate::checks::authenticity::{
    Algorithm, Authenticity, AuthenticityHeaders, AuthenticityRule, AuthenticitySettings, SignatureRule,
    SignedField,
};
use crate::config::raw::{self, Raw, UnmatchedSubjectAction};
use crate::config::validate::{Validator, subjects};

const SECTION: &str = "message_authenticity";

pub(super) fn validate(root: &Raw, validator: &mut Validator<'_>) -> Authenticity {
    let raw = &root.message_authenticity;
    check_switch(SECTION, raw.enabled, !raw.rules.is_empty(), validator);
    let mut rules = Vec::new();
    for (index, rule) in raw.rules.iter().enumerate() {
        let path = path_of(index);
        rules.extend(rule_of(&path, rule, validator));
        check_signed_fields(&path, rule, root, validator);
    }
    if !raw.enabled {
        validator.warn(
            "authenticity: off; message_authenticity is not enabled, every message counts as authentic",
        );
        return Authenticity::NotRequired;
    }
    check_bodies(root, validator);
    let allow_unmatched = raw.unmatched_subject_action == UnmatchedSubjectAction::Allow;
    let patterns: Vec<_> =
        rules.iter().enumerate().map(|(index, rule)| (path_of(index), &rule.subject)).collect();
    subjects::warn_of_unreachable(&patterns, validator);
    if allow_unmatched {
        validator.warn(
            "message_authenticity.unmatched_subject_action = \"allow\": a message that no rule covers counts as authentic",
        );
    } else {
        subjects::warn_of_rejected(SECTION, &patterns, &root.consumer.filter_subjects, validator);
    }
    let headers = AuthenticityHeaders {
        algorithm: raw.algorithm_header.clone(),
        key_id: raw.key_id_header.clone(),
        signature: raw.signature_header.clone(),
    };
    Authenticity::Required(AuthenticitySettings { headers, rules, allow_unmatched })
}

fn path_of(index: usize) -> String {
    format!("{SECTION}.rules[{index}]")
}

fn rule_of(
    path: &str,
    raw: &raw::AuthenticityRule,
    validator: &mut Validator<'_>,
) -> Option<AuthenticityRule> {
    let subject = subjects::pattern(&format!("{path}.subject"), raw.subject.as_deref(), validator);
    if !raw.enabled {
        keys::refuse_any(path, raw, validator);
        return subject.map(|subject| AuthenticityRule { subject, signature: None });
    }
    let keys = keys::of_rule(path, raw, validator);
    let Some(algorithm) = raw.algorithm else {
        validator.missing(&format!("{path}.algorithm"), "write \"hmac-sha256\" or \"ed25519\"");
        return None;
    };
    let algorithm = match algorithm {
        raw::Algorithm::HmacSha256 => Algorithm::HmacSha256,
        raw::Algorithm::Ed25519 => Algorithm::Ed25519,
    };
    let signed_fields = raw.signed_fields.iter().copied().map(field_of).collect();
    let signature = Some(SignatureRule { algorithm, keys, signed_fields });
    subject.map(|subject| AuthenticityRule { subject, signature })
}

const fn field_of(raw: raw::SignedField) -> SignedField {
    match raw {
        raw::SignedField::Subject => SignedField::Subject,
        raw::SignedField::MessageId => SignedField::MessageId,
        raw::SignedField::Priority => SignedField::Priority,
        raw::SignedField::Classification => SignedField::Classification,
        raw::SignedField::Labels => SignedField::Labels,
        raw::SignedField::MissionMetadata => SignedField::MissionMetadata,
        raw::SignedField::SecurityLabels => SignedField::SecurityLabels,
    }
}

fn check_signed_fields(path: &str, rule: &raw::AuthenticityRule, root: &Raw, validator: &mut Validator<'_>) {
    for (index, field) in rule.signed_fields.iter().enumerate() {
        let key = format!("{path}.signed_fields[{index}]");
        validator.require(
            !rule.signed_fields.iter().take(index).any(|before| before == field),
            &[&key],
            "stands there twice",
            "keep one of them",
        );
        validator.require(
            *field != raw::SignedField::SecurityLabels || root.security_labels.enabled,
            &[&key, "security_labels.enabled"],
            "security labels are signed, and security_labels is off: they would not be read",
            "set security_labels.enabled = true, or take security_labels out of the signed fields",
        );
    }
    if rule.enabled && !rule.signed_fields.contains(&raw::SignedField::Subject) {
        validator.warn(format!(
            "{path}: the subject is not signed; a message is authentic on every subject of the rule, whichever it was made \
             for"
        ));
    }
}

/// A signature covers the body, so there must be one.
fn check_bodies(root: &Raw, validator: &mut Validator<'_>) {
    let asks = root.message_authenticity.rules.iter().any(|rule| rule.enabled);
    validator.require(
        !asks || root.consumer.headers_only == raw::HeadersOnly::Refused,
        &["message_authenticity.enabled", "consumer.headers_only"],
        "signatures cover bodies, and the durable leaves them out: every message would be rejected",
        "set consumer.headers_only = \"refused\" and bind a durable with bodies, or set message_authenticity.enabled = false",
    );
}
