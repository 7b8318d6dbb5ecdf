//! `jetsink test`: messages and what the gate of a configuration has to say of them, for the operator's own CI.

mod cases;
mod expected;
mod judge;
mod print;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use self::judge::Judge;
use super::output::{self, Format};
use super::{ConfigFile, EXIT_CONFIG, refuse_input};
use crate::nats::chain;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
    /// The cases (TOML); docs/signing.md shows the form
    #[arg(value_name = "CASES")]
    cases: PathBuf,
    /// Read no key: cases with `assume_signed = true` skip the authenticity check, and the answer says so
    #[arg(long)]
    without_keys: bool,
    /// How to write the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let loaded = match arguments.file.load() {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let cases = match cases::read(&arguments.cases) {
        Ok(cases) => cases,
        Err(error) => return refuse_input(&error),
    };
    let judge = match Judge::open(&loaded.settings, arguments.without_keys) {
        Ok(judge) => judge,
        Err(error) => {
            let hint =
                "--without-keys reads no key and skips authenticity for cases with assume_signed = true";
            output::to_stderr(&format!("the gate cannot be opened: {}\n{hint}\n", chain(&error)));
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    let results: Vec<_> = cases.iter().map(|case| judge.judge(case)).collect();
    let written = match arguments.format {
        Format::Text => output::to_stdout(&print::text(&results)),
        Format::Json => output::json_to_stdout(&print::Summary::of(&results)),
    };
    let all_passed = results.iter().all(judge::CaseResult::passed);
    if all_passed { written } else { ExitCode::FAILURE }
}
