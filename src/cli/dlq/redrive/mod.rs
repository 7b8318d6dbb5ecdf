//! `jetsink dlq redrive`: to the original subject, to another, or through the configured pipeline into its sink.
//!
//! A letter leaves its stream only when its successor is confirmed. Killed half-way and run again, what was published and not
//! deleted is published once more under the same message id, and the stream says that it has it already.

mod message;
mod through;
mod to_subject;

use std::io::Write as _;

use clap::Args;
use serde_json::json;

use self::message::Plan;
pub(super) use self::message::is_command;
use super::failure::Failure;
use super::letters::{Letter, recovered};
use super::print::{Format, visible};
use super::progress::{Progress, confirm};
use super::selection::Selection;
use super::source::Source;
use super::target::{Opened, Target};
use crate::cli::output;
use crate::subject::SubjectPattern;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    selection: Selection,
    /// Sequences of dead letters, instead of flags that select
    #[arg(value_name = "SEQ")]
    sequences: Vec<u64>,
    /// Publish to this subject instead of the original's
    #[arg(long, value_name = "SUBJECT", value_parser = literal_subject)]
    to: Option<String>,
    /// Straight through the gate and into the sink of the configuration (-c), so that no other consumer sees it
    #[arg(long, requires = "config", conflicts_with_all = ["to", "keep_message_id", "without_headers", "max_redrives"])]
    through_pipeline: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// At most so many a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Leave alone what was sent again so often
    #[arg(long, value_name = "N", default_value_t = 3)]
    max_redrives: u64,
    /// Say the original's Nats-Msg-Id again: for signatures over it; a stream that saw it within its window swallows it
    #[arg(long)]
    keep_message_id: bool,
    /// Send the body only
    #[arg(long)]
    without_headers: bool,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
    /// How to write the result
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

fn literal_subject(text: &str) -> Result<String, String> {
    let pattern = SubjectPattern::parse(text).map_err(|error| error.to_string())?;
    if pattern.is_literal() { Ok(text.to_owned()) } else { Err("it holds a wildcard".into()) }
}

/// What became of the letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Confirmed, the letter deleted.
    redriven: u64,
    /// Of these, how many the stream or the sink had already.
    already_there: u64,
    /// Not sent, or not confirmed: the letter stays.
    kept: u64,
    /// Confirmed, yet the letter could not be deleted.
    not_deleted: u64,
}

impl Outcome {
    fn text(self, format: Format) -> String {
        match format {
            Format::Json => {
                let Self { redriven, already_there, kept, not_deleted } = self;
                let object = json!({ "redriven": redriven, "already_there": already_there, "kept": kept,
                                     "not_deleted": not_deleted });
                format!("{object}\n")
            }
            Format::Table => {
                let mut text = format!("redriven {}", self.redriven);
                if self.already_there > 0 {
                    text.push_str(&format!(" ({} of them were there already)", self.already_there));
                }
                text.push_str(&format!(", kept {}", self.kept));
                if self.not_deleted > 0 {
                    text.push_str(&format!(", sent and not deleted {}", self.not_deleted));
                }
                text.push('\n');
                text
            }
        }
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut opened = arguments.target.open().await?;
    if arguments.dry_run {
        dry_run(arguments, &mut opened).await?;
        opened.close().await;
        return Ok(());
    }
    ask(arguments, &mut opened).await?;
    let mut progress = Progress::new();
    let source = arguments.source(&opened)?;
    let (outcome, ended) = if arguments.through_pipeline {
        through::redrive(arguments, &mut opened, source, &mut progress).await?
    } else {
        to_subject::redrive(arguments, &mut opened, source, &mut progress).await
    };
    progress.clear();
    std::io::stdout().write_all(outcome.text(arguments.format).as_bytes())?;
    opened.close().await;
    ended?;
    if outcome.kept + outcome.not_deleted > 0 { Err(Failure::Partly) } else { Ok(()) }
}

impl Arguments {
    fn source(&self, opened: &Opened) -> Result<Source<'_>, Failure> {
        let bounds = self.selection.bounds(&opened.state);
        Source::new(&self.sequences, &self.selection, bounds, opened.state.messages)
    }

    fn limit(&self) -> u64 {
        self.limit.unwrap_or(u64::MAX)
    }

    fn plan(&self, opened: &Opened) -> Plan {
        Plan {
            to: self.to.clone(),
            max_redrives: self.max_redrives,
            keep_message_id: self.keep_message_id,
            without_headers: self.without_headers,
            max_payload: opened.connection.max_payload(),
        }
    }

    fn destination(&self) -> String {
        match (&self.to, self.through_pipeline) {
            (_, true) => "through the pipeline".to_owned(),
            (Some(to), false) => format!("to {to}"),
            (None, false) => "to their original subjects".to_owned(),
        }
    }
}

async fn ask(arguments: &Arguments, opened: &mut Opened) -> Result<(), Failure> {
    if arguments.yes {
        return Ok(());
    }
    let source = arguments.source(opened)?;
    let count = source.count(&mut opened.pages, arguments.limit()).await?;
    let stream = opened.pages.stream();
    confirm(&format!("redrive {count} dead letters of {stream} {}", arguments.destination()), false)
}

/// Says for each letter what would be done, and why not.
async fn dry_run(arguments: &Arguments, opened: &mut Opened) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let mut source = arguments.source(opened)?;
    let plan = arguments.plan(opened);
    let (mut would, mut kept) = (0u64, 0u64);
    while would < arguments.limit() {
        let Some((letter, stored)) = source.next(&mut opened.pages).await? else { break };
        let stream = opened.pages.stream().to_owned();
        let original = recovered(&mut opened.pages, &letter, stored.as_ref()).await?;
        let fate = if arguments.through_pipeline {
            original.and_then(|original| {
                original.body.map(|_| None).ok_or_else(|| "it does not carry the body".into())
            })
        } else {
            let place =
                message::Place { stream: &stream, sequence: letter.sequence, stored_at: letter.stored_at };
            original
                .and_then(|original| message::rebuild(original, place, &plan))
                .map(|message| Some(message.subject))
        };
        would += u64::from(fate.is_ok());
        kept += u64::from(fate.is_err());
        out.write_all(line(&letter, &fate, arguments).as_bytes())?;
    }
    if arguments.format == Format::Table {
        writeln!(out, "would redrive {would} {}, keep {kept}", arguments.destination())?;
    }
    out.flush()?;
    output::to_stderr(&source.tally().remarks());
    Ok(())
}

fn line(letter: &Letter, fate: &Result<Option<String>, String>, arguments: &Arguments) -> String {
    let sequence = letter.sequence;
    match (arguments.format, fate) {
        (Format::Json, fate) => {
            let subject = fate.as_ref().ok().and_then(Option::as_ref);
            let object = json!({ "sequence": sequence, "redrive": fate.is_ok(), "to": subject,
                                 "kept_because": fate.as_ref().err() });
            format!("{object}\n")
        }
        (Format::Table, Ok(Some(subject))) => {
            format!("{sequence:>8}  {}  -> {}\n", visible(letter.reason()), visible(subject))
        }
        (Format::Table, Ok(None)) => format!("{sequence:>8}  {}  -> pipeline\n", visible(letter.reason())),
        (Format::Table, Err(why)) => format!("{sequence:>8}  {}  kept: {why}\n", visible(letter.reason())),
    }
}
