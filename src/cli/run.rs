//! `jetsink run`.

use std::process::ExitCode;

use super::{ConfigFile, output};

pub(super) fn run(file: &ConfigFile) -> ExitCode {
    match file.load() {
        Err(code) => code,
        Ok(_) => {
            output::to_stderr("run is not part of this build\n");
            ExitCode::FAILURE
        }
    }
}
