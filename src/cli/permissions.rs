//! `jetsink permissions`: offline.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::{ConfigFile, output};
use crate::app::plan;
use crate::nats::{apply_context, chain};
use crate::preflight::{For, block, needed};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
    /// For whom
    #[arg(long = "for", value_enum, default_value_t = Whom::Daemon)]
    whom: Whom,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Whom {
    /// `jetsink run`
    Daemon,
    /// `jetsink dlq`
    Dlq,
    /// `jetsink check --connect`: the same as the daemon
    Check,
}

pub(super) fn print(arguments: &Arguments) -> ExitCode {
    let mut settings = match arguments.file.load() {
        Ok(loaded) => loaded.settings,
        Err(code) => return code,
    };
    if let Some(context) = settings.context.clone()
        && let Err(error) = apply_context(&context, &mut settings.connection)
    {
        // The context may give a prefix or a domain; it need not be on this machine.
        output::to_stderr(&format!("warning: without the context {context}: {}\n", chain(&error)));
    }
    let whom = match arguments.whom {
        Whom::Daemon => For::Daemon,
        Whom::Dlq => For::DeadLetters,
        Whom::Check => For::Check,
    };
    let plan = plan(&settings);
    let mut text = String::new();
    if plan.dead_letters.as_ref().is_some_and(|letters| letters.stream.is_none()) {
        text.push_str(
            "# dead_letter.stream is not set: its name is * below; set it, and the block gets smaller\n",
        );
    }
    text.push_str(&block(&needed(&plan, whom)));
    output::to_stdout(&text)
}
