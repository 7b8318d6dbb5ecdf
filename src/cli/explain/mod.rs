//! `jetsink explain`: what a configuration would do with one message, check by check. Nothing is connected to or written.

mod asked;
pub(super) mod report;
mod text;

use std::process::ExitCode;

use clap::{ArgGroup, Args};

use self::report::Report;
use super::message::{MessageArguments, WithoutPayload};
use super::output::{self, Format};
use super::{ConfigFile, refuse_input};
use crate::checks::explain::explain;
use crate::envelope::SourceNames;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["subject", "message"]))]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
    #[command(flatten)]
    message: MessageArguments,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let loaded = match arguments.file.load() {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let message = match arguments.message.read(WithoutPayload::Empty) {
        Ok(message) => message,
        Err(error) => return refuse_input(&error),
    };
    let settings = &loaded.settings;
    let envelope =
        message.envelope(SourceNames::shared(&settings.consumer.stream, &settings.consumer.durable));
    let explanation = explain(&settings.gate, &envelope);
    let report = Report::new(settings, &envelope, &explanation);
    match arguments.format {
        Format::Text => output::to_stdout(&text::render(&report)),
        Format::Json => output::json_to_stdout(&report),
    }
}
