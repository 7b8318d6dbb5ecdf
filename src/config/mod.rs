//! Configuration: raw (serde) → settings (validated). No effects but reading the file.
//!
//! The way: the file (`document`) and the environment (`environment`) become layers of values that know their places;
//! `inspect` reports every unknown key and wrong value and takes it out; figment merges what remains into the `raw`
//! structs; `validate` checks them against each other and makes [`Settings`]. Nothing is clamped or repaired: either there
//! are settings, or there is a list of everything that is wrong. Keys and defaults stand in the raw structs only; the table
//! of keys, the JSON Schema and `show-config` derive from them.

mod document;
mod duration;
mod effective;
mod environment;
mod inspect;
mod instance;
mod keys;
mod layer;
mod lines;
mod nearest;
mod problem;
mod raw;
mod server_url;
mod settings;
mod size;
mod text;
mod tree;
mod validate;

#[cfg(test)]
mod tests;

use std::path::Path;

use figment::Figment;
use figment::providers::Serialized;

pub use effective::{Effective, Entry, Origin};
pub use environment::Environment;
pub use problem::{ConfigError, Place, Problem};
pub use settings::{Settings, SinkSettings};

use layer::{Findings, Layer, Places};
use raw::Raw;

/// A configuration that is valid.
#[derive(Debug)]
pub struct Loaded {
    /// What the components get.
    pub settings: Settings,
    /// What is in effect and where it comes from, without secrets.
    pub effective: Effective,
}

/// Loads the file, TOML, JSON or YAML by its extension, and the overrides of the environment.
///
/// # Errors
/// [`ConfigError::Invalid`] holds everything that is wrong; the others say why there is no text to look at.
pub fn load(path: &Path, environment: &Environment) -> Result<Loaded, ConfigError> {
    let table = keys::table();
    let mut findings = Findings::default();
    let mut file = document::load(path, &mut findings)?;
    let unreadable = !findings.problems.is_empty() && file.tree.is_empty();
    let mut overrides = environment.layer(&table, &mut findings);
    inspect::inspect(&mut file, &table, path, &mut findings);
    inspect::inspect(&mut overrides, &table, path, &mut findings);
    if unreadable {
        // Without the file every required key would be called missing.
        return Err(invalid(findings));
    }
    let raw = match merge(&file, &overrides) {
        Some(raw) => raw,
        None => return Err(invalid_as_a_whole(path, findings)),
    };
    let places = file.places_overridden_by(overrides);
    finish(path, environment, &raw, &places, findings)
}

/// A duration as the configuration writes it: `30s`, `1h30m`.
///
/// # Errors
/// What is wrong with the text; it is not quoted.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// A size as the configuration writes it: `8 MiB`.
///
/// # Errors
/// What is wrong with the text; it is not quoted.
pub fn parse_size(text: &str) -> Result<u64, String> {
    size::parse(text).map_err(|error| error.to_string())
}

/// The JSON Schema of the configuration.
#[must_use]
pub fn schema() -> serde_json::Value {
    keys::schema()
}

fn merge(file: &Layer, overrides: &Layer) -> Option<Raw> {
    Figment::from(Serialized::defaults(&file.tree))
        .merge(Serialized::defaults(&overrides.tree))
        .extract()
        .ok()
}

fn finish(
    path: &Path,
    environment: &Environment,
    raw: &Raw,
    places: &Places,
    mut findings: Findings,
) -> Result<Loaded, ConfigError> {
    let settings = validate::validate(raw, path, places, environment.instance().as_deref(), &mut findings);
    if !findings.problems.is_empty() {
        return Err(invalid(findings));
    }
    Ok(Loaded {
        effective: Effective::new(raw, places),
        settings: Settings { warnings: findings.warnings, ..settings },
    })
}

fn invalid(mut findings: Findings) -> ConfigError {
    findings.problems.sort();
    findings.problems.dedup();
    ConfigError::Invalid(findings.problems)
}

/// Reached only if inspection let something through that serde refuses. Its text may quote values, so it is not shown.
fn invalid_as_a_whole(path: &Path, mut findings: Findings) -> ConfigError {
    findings.problems.push(Problem {
        place: Place::File { path: path.to_path_buf(), line: None },
        key: None,
        what: "the values do not fit the keys".into(),
        remedy: "compare the file with config/jetsink.toml and report this as a fault of jetsink".into(),
    });
    invalid(findings)
}
