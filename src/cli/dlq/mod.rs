//! `jetsink dlq`: looking at dead letters, and doing something about them, over any dead-letter stream.
//!
//! Reading ([`ls`], [`stats`], [`show`], [`tail`], [`export`]) makes no consumer and needs read permissions only. What changes
//! something asks first, and takes a letter out of its stream only when its successor is confirmed.

mod advisories;
mod discard;
mod downwards;
mod export;
mod failure;
mod import;
mod init;
mod letters;
mod ls;
mod print;
mod progress;
mod redrive;
mod selection;
mod show;
mod source;
mod stats;
mod tail;
mod target;
mod wish;

use std::process::ExitCode;

use clap::Subcommand;

use self::failure::Failure;
use super::output;

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List dead letters, newest first
    Ls(ls::Arguments),
    /// Count dead letters by reason, stage, origin and subject
    Stats(stats::Arguments),
    /// Show one dead letter with its original
    Show(show::Arguments),
    /// Send dead letters again, and delete each when its successor is confirmed
    Redrive(redrive::Arguments),
    /// Delete dead letters for good, with a reason
    Discard(discard::Arguments),
    /// Write dead letters as lines of JSON, complete
    Export(export::Arguments),
    /// Publish exported dead letters again
    Import(import::Arguments),
    /// Show the last dead letters, and each new one as it comes
    Tail(tail::Arguments),
    /// Make the streams for dead letters and for advisories, or print the command that would
    Init(init::Arguments),
}

pub(super) fn run(command: &Command) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            output::to_stderr(&format!("jetsink dlq: cannot start: {error}\n"));
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(dispatch(command));
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Ls(arguments) => ls::run(arguments).await,
        Command::Stats(arguments) => stats::run(arguments).await,
        Command::Show(arguments) => show::run(arguments).await,
        Command::Redrive(arguments) => redrive::run(arguments).await,
        Command::Discard(arguments) => discard::run(arguments).await,
        Command::Export(arguments) => export::run(arguments).await,
        Command::Import(arguments) => import::run(arguments).await,
        Command::Tail(arguments) => tail::run(arguments).await,
        Command::Init(arguments) => init::run(arguments).await,
    }
}
