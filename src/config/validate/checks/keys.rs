//! Keys of authenticity rules. What is read here is where a key stands, never the key.

use super::check_trimmed;
use crate::checks::authenticity::KeySettings;
use crate::clock::Timestamp;
use crate::config::raw::{AuthenticityKey, AuthenticityRule};
use crate::config::validate::{Validator, secrets};

/// The key of a rule, or its several keys. `path` is that of the rule.
pub(super) fn of_rule(path: &str, raw: &AuthenticityRule, validator: &mut Validator<'_>) -> Vec<KeySettings> {
    let list = format!("{path}.keys");
    if raw.keys.is_empty() {
        let only = AuthenticityKey {
            key_id: raw.key_id.clone(),
            key_file: raw.key_file.clone(),
            key_env: raw.key_env.clone(),
            key_credential: raw.key_credential.clone(),
            not_before: None,
            not_after: None,
        };
        let is_bad = validator.findings.is_bad(&list);
        return if is_bad { Vec::new() } else { key(path, &only, validator).into_iter().collect() };
    }
    if let Some(single) = keys_of_one(raw).into_iter().next() {
        validator.refuse(
            &[&format!("{path}.{single}"), &list],
            "one key and a list of keys at once",
            "move the key into the list, or remove one of the two",
        );
    }
    let mut found: Vec<KeySettings> = Vec::new();
    for (index, raw) in raw.keys.iter().enumerate() {
        let path = format!("{list}[{index}]");
        let Some(key) = key(&path, raw, validator) else { continue };
        validator.require(
            !found.iter().any(|before| before.key_id == key.key_id),
            &[&format!("{path}.key_id")],
            "a key before it in this rule has the same id",
            "give every key its own id: producers name the key by it",
        );
        found.push(key);
    }
    found
}

/// Refuses keys of an exempt rule.
pub(super) fn refuse_any(path: &str, raw: &AuthenticityRule, validator: &mut Validator<'_>) {
    let several = (!raw.keys.is_empty()).then_some("keys");
    let names: Vec<&str> = keys_of_one(raw).into_iter().chain(several).collect();
    if let Some(first) = names.first() {
        validator.refuse(
            &[&format!("{path}.{first}"), &format!("{path}.enabled")],
            format!("the rule is an exemption (enabled = false), and has a key ({})", names.join(", ")),
            "remove the key, or the exemption",
        );
    }
}

/// The keys for one key that are written.
fn keys_of_one(raw: &AuthenticityRule) -> Vec<&'static str> {
    let keys = [
        ("key_id", &raw.key_id),
        ("key_file", &raw.key_file),
        ("key_env", &raw.key_env),
        ("key_credential", &raw.key_credential),
    ];
    keys.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect()
}

fn key(path: &str, raw: &AuthenticityKey, validator: &mut Validator<'_>) -> Option<KeySettings> {
    let at = |name: &str| format!("{path}.{name}");
    let [id_key, file, variable, credential] = ["key_id", "key_file", "key_env", "key_credential"].map(at);
    match &raw.key_id {
        None => validator.missing(&id_key, "write the id that producers send with their signatures"),
        Some(id) => check_trimmed(&id_key, id, validator),
    }
    let places = [(&*file, &raw.key_file), (&*variable, &raw.key_env), (&*credential, &raw.key_credential)];
    let source = secrets::source("key", places, validator);
    if source.is_none() {
        validator.refuse(
            &[&file, &variable, &credential],
            "no place of the key is named",
            "add key_file, key_env or key_credential",
        );
    }
    let not_before = time(&at("not_before"), raw.not_before.as_deref(), validator);
    let not_after = time(&at("not_after"), raw.not_after.as_deref(), validator);
    if let (Some(first), Some(last)) = (not_before, not_after) {
        validator.require(
            first < last,
            &[&at("not_after"), &at("not_before")],
            "is not later than not_before: the key would verify nothing",
            "swap the two, or correct one",
        );
    }
    let (_, source) = source?;
    Some(KeySettings { key_id: raw.key_id.clone()?, source, not_before, not_after })
}

fn time(key: &str, text: Option<&str>, validator: &mut Validator<'_>) -> Option<Timestamp> {
    let time = Timestamp::from_rfc3339(text?);
    validator.require(
        time.is_some(),
        &[key],
        "is not a time of RFC 3339",
        "write date, time and offset in quotes: \"2026-12-31T23:59:59Z\"",
    );
    time
}
