//! Raw values become settings. Every check says which keys it rests on: a check that rests on a key that is wrong already
//! says nothing more.

mod checks;
mod connection;
mod consumer;
mod dead_letter;
mod delivery;
mod names;
mod operations;
mod secrets;
mod sink;
mod subjects;

use std::path::Path;

use super::layer::{Findings, Places, place_of};
use super::raw::Raw;
use super::settings::Settings;

/// Checks everything. The settings count only if `findings` holds no problem afterwards.
pub(super) fn validate(
    raw: &Raw,
    file: &Path,
    places: &Places,
    instance: Option<&str>,
    findings: &mut Findings,
) -> Settings {
    let mut validator = Validator { file, places, findings };
    let (connection, context) = connection::validate(&raw.nats, &mut validator);
    let consumer = consumer::validate(&raw.consumer, &mut validator);
    let delivery = delivery::validate(raw, &mut validator);
    let dead_letter = dead_letter::validate(raw, &consumer, &mut validator);
    let gate = checks::validate(raw, &mut validator);
    let sink = sink::validate(raw, instance, &mut validator);
    let admin = operations::admin(&raw.admin, &mut validator);
    let logging = operations::logging(&raw.logging, &mut validator);
    Settings {
        connection,
        context,
        consumer,
        delivery,
        dead_letter,
        gate,
        sink,
        admin,
        logging,
        warnings: Vec::new(),
    }
}

/// Collects what the checks find.
struct Validator<'run> {
    file: &'run Path,
    places: &'run Places,
    findings: &'run mut Findings,
}

impl Validator<'_> {
    /// Notes that the values of `keys` do not go together, or that the one key's value is wrong. The first key that someone
    /// wrote is the one it is said of.
    fn refuse(&mut self, keys: &[&str], what: impl Into<String>, remedy: impl Into<String>) {
        if keys.iter().any(|key| self.findings.is_bad(key)) {
            return;
        }
        let said_of = keys.iter().find(|key| self.is_written(key)).or_else(|| keys.first());
        if let Some(key) = said_of {
            let place = place_of(self.places, self.file, key);
            self.findings.problems.push(super::Problem {
                place,
                key: Some((*key).to_owned()),
                what: what.into(),
                remedy: remedy.into(),
            });
        }
    }

    /// Refuses a rule for what it lacks: said of the rule itself, unless one of the named keys is wrong already. `prefix` is
    /// the path of the rule with the dot after it.
    fn refuse_rule(&mut self, prefix: &str, names: &[&str], what: &str, remedy: &str) {
        if names.iter().all(|name| !self.findings.is_bad(&format!("{prefix}{name}"))) {
            self.refuse(&[prefix.trim_end_matches('.')], what, remedy);
        }
    }

    /// Refuses unless the condition holds.
    fn require(&mut self, holds: bool, keys: &[&str], what: &str, remedy: &str) {
        if !holds {
            self.refuse(keys, what, remedy);
        }
    }

    /// A required key that is not there.
    fn missing(&mut self, key: &str, remedy: &str) {
        self.refuse(&[key], "is missing", remedy);
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.findings.warnings.push(text.into());
    }

    /// Whether someone wrote the key, or the head of the table, or a key in it.
    fn is_written(&self, key: &str) -> bool {
        self.places.contains_key(key) || self.has_keys(key)
    }

    /// Whether someone wrote a key in the table.
    fn has_keys(&self, table: &str) -> bool {
        self.places.keys().any(|path| path.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')))
    }

    /// A count within bounds, as the platform's size.
    fn count(&mut self, key: &str, value: u64, least: u64, most: u64) -> usize {
        match usize::try_from(value) {
            Ok(count) if (least..=most).contains(&value) => count,
            Ok(_) | Err(_) => {
                let remedy = if most == u64::MAX {
                    format!("write {least} or more")
                } else {
                    format!("write a number from {least} to {most}")
                };
                self.refuse(&[key], format!("{value} is out of range"), remedy);
                0
            }
        }
    }

    /// A duration of at least so much.
    fn at_least(&mut self, key: &str, value: std::time::Duration, least: std::time::Duration) {
        if value < least {
            let least = super::duration::format(least);
            self.refuse(
                &[key],
                format!("{} is too short", super::duration::format(value)),
                format!("write \"{least}\" or more"),
            );
        }
    }
}
