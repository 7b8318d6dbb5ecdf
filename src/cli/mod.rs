//! The command line: `run`, `check`, `permissions`, `show-config`, `dlq`, `completions`, and the tools of producers and of whoever writes rules.
//!
//! Exit codes: 0 = fine, 1 = the answer is no (a message is not valid, a case failed), 2 = wrong usage, or `check --connect`
//! has warnings, 65 = an input cannot
//! be read (`EX_DATAERR`), 69 = the server cannot be reached (`EX_UNAVAILABLE`), 78 = the configuration is not valid
//! (`EX_CONFIG`); `run` has its own besides.

mod check;
mod completions;
mod dlq;
mod explain;
mod keygen;
mod message;
mod output;
mod permissions;
mod run;
mod show_config;
mod sign;
mod signing;
mod test_cases;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{self, ConfigError, Environment, Loaded};
use crate::nats::chain;

/// `EX_CONFIG` of sysexits.
pub const EXIT_CONFIG: u8 = 78;
/// `EX_DATAERR` of sysexits: an input cannot be read, or is not what it has to be.
const EXIT_DATA: u8 = 65;
/// `EX_UNAVAILABLE` of sysexits: the server cannot be reached, or does not have what was asked for.
const EXIT_UNAVAILABLE: u8 = 69;

/// Carries messages from NATS JetStream into durable places without losing one.
#[derive(Debug, Parser)]
#[command(name = "jetsink", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon
    Run(ConfigFile),
    /// Check a configuration, and with --connect also what it meets at the server
    Check(check::Arguments),
    /// Print the smallest permissions that a configuration needs, for the server's configuration
    Permissions(permissions::Arguments),
    /// Show the effective configuration, without secrets, and where each value comes from
    ShowConfig(show_config::Arguments),
    /// Make a key that signs messages, and show the rule that goes with it
    Keygen(keygen::Arguments),
    /// Sign a message: show the headers to publish it with
    Sign(sign::Arguments),
    /// Verify a message, a stored message, or the original of a dead letter
    Verify(verify::Arguments),
    /// Judge messages by the gate of a configuration and compare with what is expected
    Test(test_cases::Arguments),
    /// Say what a configuration would do with a message, and which rules apply
    Explain(explain::Arguments),
    /// Look at dead letters, send them again, or discard them
    #[command(subcommand)]
    Dlq(Box<dlq::Command>),
    /// Print shell completions
    Completions(completions::Arguments),
}

/// The configuration file.
#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration: .toml, .json, .yaml or .yml
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: PathBuf,
}

/// Reads the arguments of this process and does what they say.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => dispatch(&cli.command),
        Err(answer) => {
            // Help and version are answers on standard output; a reader that has gone away is no error.
            drop(answer.print());
            ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2))
        }
    }
}

fn dispatch(command: &Command) -> ExitCode {
    match command {
        Command::Run(file) => run::run(file),
        Command::Check(arguments) => check::check(arguments),
        Command::Permissions(arguments) => permissions::print(arguments),
        Command::ShowConfig(arguments) => show_config::show(arguments),
        Command::Keygen(arguments) => keygen::run(arguments),
        Command::Sign(arguments) => sign::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Test(arguments) => test_cases::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Dlq(command) => dlq::run(command),
        Command::Completions(arguments) => completions::print(arguments),
    }
}

impl ConfigFile {
    /// Loads the configuration with this process's environment; on failure everything that is wrong is on standard error.
    fn load(&self) -> Result<Loaded, ExitCode> {
        config::load(&self.config, &Environment::of_process()).map_err(|error| {
            report(&error);
            ExitCode::from(EXIT_CONFIG)
        })
    }
}

/// An input that is not what it has to be.
fn refuse_input(error: &dyn std::error::Error) -> ExitCode {
    output::to_stderr(&format!("{}\n", chain(error)));
    ExitCode::from(EXIT_DATA)
}

fn report(error: &ConfigError) {
    let mut text = error.to_string();
    if let ConfigError::Invalid(problems) = error {
        let count = problems.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        text.push_str(&format!("\nthe configuration is not valid: {count} {noun}"));
    }
    text.push('\n');
    output::to_stderr(&text);
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        for arguments in [
            &["jetsink", "run", "-c", "a.toml"] as &[&str],
            &["jetsink", "check", "--config", "a.toml"],
            &["jetsink", "check", "-c", "a.toml", "--connect", "--format", "json"],
            &["jetsink", "permissions", "-c", "a.toml", "--for", "dlq"],
            &["jetsink", "show-config", "-c", "a.toml", "--format", "json"],
            &["jetsink", "show-config", "--schema"],
            &["jetsink", "completions", "zsh"],
            &["jetsink", "keygen", "--algorithm", "hmac-sha256", "--out", "key"],
            &["jetsink", "sign", "-c", "a.toml", "--key-id", "k", "--key-env", "KEY", "--subject", "a"],
            &[
                "jetsink",
                "sign",
                "--algorithm",
                "ed25519",
                "--key-id",
                "k",
                "--key-file",
                "k",
                "--message",
                "m",
            ],
            &["jetsink", "verify", "-c", "a.toml", "--stream", "S", "--sequence", "1"],
            &["jetsink", "verify", "-c", "a.toml", "--dead-letter", "-"],
            &["jetsink", "explain", "-c", "a.toml", "--subject", "a", "-H", "A: b", "--payload", "-"],
            &["jetsink", "test", "-c", "a.toml", "cases.toml", "--without-keys"],
        ] {
            assert!(Cli::try_parse_from(arguments).is_ok(), "{arguments:?}");
        }
        for arguments in [
            &["jetsink"] as &[&str],
            &["jetsink", "check"],
            &["jetsink", "check", "-c", "a.toml", "--format", "json"],
            &["jetsink", "show-config"],
            &["jetsink", "keygen", "--algorithm", "ed25519"],
            &["jetsink", "sign", "-c", "a.toml", "--algorithm", "ed25519", "--key-id", "k", "--subject", "a"],
            &[
                "jetsink",
                "sign",
                "-c",
                "a",
                "--key-id",
                "k",
                "--key-env",
                "A",
                "--key-file",
                "b",
                "--subject",
                "a",
            ],
            &["jetsink", "verify", "-c", "a.toml"],
            &["jetsink", "verify", "-c", "a.toml", "--stream", "S"],
            &["jetsink", "verify", "-c", "a.toml", "--subject", "a", "--message", "m"],
            &["jetsink", "explain", "-c", "a.toml", "--subject", "a", "-H", "no colon"],
            &["jetsink", "explain", "-c", "a.toml"],
        ] {
            assert!(Cli::try_parse_from(arguments).is_err(), "{arguments:?}");
        }
    }
}
