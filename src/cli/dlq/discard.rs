//! `jetsink dlq discard`: dead letters go for good, with a reason and a line for the audit.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::letters::Letter;
use super::print::object;
use super::progress::{Progress, confirm};
use super::selection::Selection;
use super::source::Source;
use super::target::{Opened, Target};
use crate::cli::output;
use crate::clock::{Clock as _, SystemClock};
use crate::nats::{Answer, NatsError, Requests, Ticket};

/// Deletions under way at once, and audit lines that are synced together.
const UNDER_WAY: usize = 256;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    selection: Selection,
    /// Sequences of dead letters, instead of flags that select
    #[arg(value_name = "SEQ")]
    sequences: Vec<u64>,
    /// Every dead letter; needed when neither sequences nor flags select
    #[arg(long)]
    all: bool,
    /// Why; it stands in the audit line of each
    #[arg(long = "because", value_name = "TEXT")]
    because: String,
    /// Append the audit lines to this file, on the disk before a letter is deleted; else they go to standard error
    #[arg(long, value_name = "FILE")]
    audit_file: Option<PathBuf>,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
}

/// Where audit lines go.
enum Audit {
    File(PathBuf, File),
    StandardError,
}

impl Audit {
    fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::StandardError) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|error| Failure::File(path.display().to_string(), error))?;
        Ok(Self::File(path.to_owned(), file))
    }

    /// Writes the lines; in a file they are on the disk when this returns.
    fn write(&mut self, lines: &str) -> Result<(), Failure> {
        match self {
            Self::StandardError => output::to_stderr(lines),
            Self::File(path, file) => {
                let written = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data());
                written.map_err(|error| Failure::File(path.display().to_string(), error))?;
            }
        }
        Ok(())
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.sequences.is_empty() && arguments.selection.is_everything() && !arguments.all {
        return Err(Failure::refused("name sequences, select by flags, or say --all"));
    }
    let mut opened = arguments.target.open().await?;
    let limit = arguments.limit.unwrap_or(u64::MAX);
    if !arguments.yes {
        let count = arguments.source(&opened)?.count(&mut opened.pages, limit).await?;
        let stream = opened.pages.stream();
        confirm(&format!("discard {count} dead letters of {stream} for good"), false)?;
    }
    let mut audit = Audit::open(arguments.audit_file.as_deref())?;
    let mut requests = Requests::open(&opened.connection).await?;
    let mut source = arguments.source(&opened)?;
    let mut progress = Progress::new();
    let (mut discarded, mut kept, mut taken) = (0u64, 0u64, 0u64);
    loop {
        let mut letters = Vec::new();
        while letters.len() < UNDER_WAY && taken < limit {
            let Some((letter, _)) = source.next(&mut opened.pages).await? else { break };
            taken += 1;
            letters.push(letter);
        }
        if letters.is_empty() {
            break;
        }
        let lines: String = letters.iter().map(|letter| arguments.audit_line(&opened, letter)).collect();
        audit.write(&lines)?;
        let refused = delete(&opened, &mut requests, &letters).await?;
        for (sequence, why) in &refused {
            progress.line(&format!("{sequence}: not deleted: {why}"));
        }
        kept += u64::try_from(refused.len()).unwrap_or(0);
        discarded += u64::try_from(letters.len().saturating_sub(refused.len())).unwrap_or(0);
        let (done, total) = source.progress();
        progress.show(done, total);
    }
    progress.clear();
    std::io::stdout().lock().write_all(format!("discarded {discarded}, kept {kept}\n").as_bytes())?;
    output::to_stderr(&source.tally().remarks());
    opened.close().await;
    if kept > 0 { Err(Failure::Partly) } else { Ok(()) }
}

impl Arguments {
    fn source(&self, opened: &Opened) -> Result<Source<'_>, Failure> {
        let bounds = self.selection.bounds(&opened.state);
        Source::new(&self.sequences, &self.selection, bounds, opened.state.messages)
    }

    fn audit_line(&self, opened: &Opened, letter: &Letter) -> String {
        let mut line = object(letter);
        line.insert("action".into(), "discard".into());
        line.insert("because".into(), Value::String(self.because.clone()));
        line.insert("at".into(), SystemClock.now().rfc3339().into());
        line.insert("dead_letter_stream".into(), opened.pages.stream().into());
        format!("{}\n", json!(line))
    }
}

/// Deletes every part of the letters; gives those that were refused, with the server's words.
async fn delete(
    opened: &Opened,
    requests: &mut Requests,
    letters: &[Letter],
) -> Result<BTreeMap<u64, String>, Failure> {
    let mut owners: BTreeMap<Ticket, u64> = BTreeMap::new();
    for letter in letters {
        for sequence in letter.sequences() {
            let sent = requests.delete(opened.pages.stream(), sequence).await;
            let ticket = sent.map_err(|error| NatsError::Connect(error.to_string()))?;
            owners.insert(ticket, letter.sequence);
        }
    }
    let mut refused = BTreeMap::new();
    while let Some((ticket, answer)) = requests.next(opened.request_timeout).await? {
        if let (Some(sequence), Answer::Deleted(Err(why))) = (owners.get(&ticket), answer) {
            refused.insert(*sequence, why.to_string());
        }
    }
    Ok(refused)
}
