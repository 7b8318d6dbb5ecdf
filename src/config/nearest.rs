//! What to say about a key that does not exist: the nearest one that does.

use super::keys::{self, Table};

/// The remedy for an unknown key at `path`.
pub(super) fn remedy(path: &str, root: &Table) -> String {
    if let Some(rule) = asks_for_a_key(path) {
        return format!(
            "keys do not stand in the configuration: use {rule}.key_file, {rule}.key_env or {rule}.key_credential"
        );
    }
    if let Some(secret) = secret_kind(path) {
        return format!(
            "secrets do not stand in the configuration: use nats.{secret}_file, nats.{secret}_env or \
             nats.{secret}_credential"
        );
    }
    let paths = known_paths(root);
    let (parent, name) = split(path);
    let parent_of_all = without_indices(parent);
    nearest_path(&keys::join(&parent_of_all, name), &paths).map_or_else(
        || "remove it; docs/configuration.md lists every key".into(),
        |known| match split(known) {
            (beside, known) if beside == parent_of_all => {
                format!("did you mean {}?", keys::join(parent, known))
            }
            (_, _) => format!("did you mean {known}?"),
        },
    )
}

/// `rules[3].keys[1]` as the keys of all its kind are written: `rules[].keys[]`.
fn without_indices(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut inside = false;
    for sign in path.chars() {
        inside &= sign != ']';
        if !inside {
            text.push(sign);
        }
        inside |= sign == '[';
    }
    text
}

/// The candidate that is nearest to `text`, if one is near enough to be meant.
pub(super) fn choice<'text>(text: &str, candidates: &'text [String]) -> Option<&'text str> {
    let text = text.to_lowercase();
    let allowed = (text.chars().count() / 3).clamp(1, 4);
    candidates
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&text, candidate), candidate.as_str()))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The key beside it with a similar name; else the same name in another table; else a similar path.
fn nearest_path<'text>(path: &str, known: &'text [String]) -> Option<&'text str> {
    let (parent, name) = split(path);
    let beside: Vec<String> = known
        .iter()
        .filter(|other| split(other).0 == parent)
        .map(|other| split(other).1.to_owned())
        .collect();
    let sibling = choice(name, &beside);
    if let Some(found) = sibling {
        return known.iter().find(|other| split(other) == (parent, found)).map(String::as_str);
    }
    known.iter().find(|other| split(other).1 == name).map(String::as_str).or_else(|| choice(path, known))
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// Tables and leaves.
fn known_paths(root: &Table) -> Vec<String> {
    let mut paths: Vec<String> = root.keys().cloned().collect();
    for (leaf, _) in keys::all(root) {
        // A list is a leaf by itself.
        if let Some((table, _)) = leaf.rsplit_once('.').filter(|(table, _)| !table.ends_with(']')) {
            paths.push(table.to_owned());
        }
        paths.push(leaf);
    }
    paths.sort();
    paths.dedup();
    paths
}

/// The rule, or the key of a rule, in which someone wanted to write a key in the clear.
fn asks_for_a_key(path: &str) -> Option<&str> {
    const NAMES: [&str; 10] = [
        "key",
        "secret",
        "secret_key",
        "shared_key",
        "shared_secret",
        "hmac_key",
        "public_key",
        "private_key",
        "key_base64",
        "key_value",
    ];
    let (rule, name) = split(path);
    (rule.starts_with("message_authenticity.rules[") && NAMES.contains(&name.to_lowercase().as_str()))
        .then_some(rule)
}

/// The secret that someone wanted to write in the clear.
fn secret_kind(path: &str) -> Option<&'static str> {
    match split(path).1.to_lowercase().as_str() {
        "password" | "pass" | "passwd" => Some("password"),
        "token" | "auth_token" => Some("token"),
        "nkey" | "nkey_seed" | "seed" => Some("nkey_seed"),
        "credentials" | "creds" | "jwt" => Some("credentials"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_named() {
        let root = keys::table();
        for (path, expected) in [
            ("delivery.batch_sise", "did you mean delivery.batch_size?"),
            ("Delivery", "did you mean delivery?"),
            ("consumer.batch_size", "did you mean delivery.batch_size?"),
            ("deadletter", "did you mean dead_letter?"),
            ("sink.directory", "did you mean sink.file.directory?"),
            ("delivery.retry.inital", "did you mean delivery.retry.initial?"),
            (
                "message_authenticity.rules[1].algoritm",
                "did you mean message_authenticity.rules[1].algorithm?",
            ),
            (
                "message_authenticity.rules[0].keys[2].not_befor",
                "did you mean message_authenticity.rules[0].keys[2].not_before?",
            ),
            (
                "message_authenticity.rules[0].not_after",
                "did you mean message_authenticity.rules[].keys[].not_after?",
            ),
            ("pre_sink_policy.rulez", "did you mean pre_sink_policy.rules?"),
            ("zzzzzzzz", "remove it; docs/configuration.md lists every key"),
        ] {
            assert_eq!(remedy(path, &root), expected, "{path}");
        }
        assert!(remedy("nats.password", &root).contains("nats.password_file"));
        let key = remedy("message_authenticity.rules[0].keys[1].secret", &root);
        assert!(key.contains("message_authenticity.rules[0].keys[1].key_file"), "{key}");
    }
}
