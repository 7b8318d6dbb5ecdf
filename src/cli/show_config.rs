//! `jetsink show-config`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::{ConfigFile, output};
use crate::config;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The configuration: .toml, .json, .yaml or .yml
    #[arg(short = 'c', long = "config", value_name = "FILE", required_unless_present = "schema")]
    config: Option<PathBuf>,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Toml)]
    format: Format,
    /// Print the JSON Schema of the configuration instead
    #[arg(long, conflicts_with_all = ["config", "format"])]
    schema: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Toml,
    Json,
}

pub(super) fn show(arguments: &Arguments) -> ExitCode {
    let Some(config) = &arguments.config else {
        return output::to_stdout(&format!("{:#}\n", config::schema()));
    };
    match (ConfigFile { config: config.clone() }).load() {
        Err(code) => code,
        Ok(loaded) => match arguments.format {
            Format::Toml => output::to_stdout(&loaded.effective.to_toml()),
            Format::Json => output::to_stdout(&format!("{:#}\n", loaded.effective.to_json())),
        },
    }
}
