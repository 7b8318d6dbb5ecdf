//! `jetsink check`: offline. Schemas are read, since a wrong one is a mistake in the configuration. Keys are read as well, yet
//! one that is not on this machine is only worth a warning: a configuration is often checked where its secrets are not.

use std::process::ExitCode;

use super::{ConfigFile, EXIT_CONFIG, output};
use crate::checks::authenticity::Authenticity;
use crate::checks::{Gate, GateError, GateSettings};
use crate::nats::chain;

pub(super) fn check(file: &ConfigFile) -> ExitCode {
    let loaded = match file.load() {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let gate = &loaded.settings.gate;
    let without_keys = GateSettings { authenticity: Authenticity::NotRequired, ..gate.clone() };
    if let Err(error) = Gate::open(without_keys) {
        output::to_stderr(&format!("{}\nthe configuration is not valid: 1 problem\n", chain(&error)));
        return ExitCode::from(EXIT_CONFIG);
    }
    let mut text = String::from("configuration is valid\n");
    for warning in &loaded.settings.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    if let Err(error @ GateError::Key(_)) = Gate::open(gate.clone()) {
        text.push_str(&format!("warning: the daemon would not start here: {}\n", chain(&error)));
    }
    output::to_stdout(&text)
}
