//! `jetsink check`: offline.

use std::process::ExitCode;

use super::{ConfigFile, output};

pub(super) fn check(file: &ConfigFile) -> ExitCode {
    match file.load() {
        Err(code) => code,
        Ok(loaded) => {
            let mut text = String::from("configuration is valid\n");
            for warning in &loaded.settings.warnings {
                text.push_str(&format!("warning: {warning}\n"));
            }
            output::to_stdout(&text)
        }
    }
}
