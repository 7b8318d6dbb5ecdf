//! `jetsink run`.

use std::process::ExitCode;

use super::ConfigFile;

pub(super) fn run(file: &ConfigFile) -> ExitCode {
    match file.load() {
        Err(code) => code,
        Ok(loaded) => crate::app::run(loaded.settings),
    }
}
