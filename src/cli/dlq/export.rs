//! `jetsink dlq export`: dead letters as lines of JSON, complete, so that `import` can publish them again as they were.
//!
//! A letter in two parts gives two lines. Each line is one stored message: where it was, its header block and its body, both
//! in base64.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::letters::Letter;
use super::progress::Progress;
use super::selection::Selection;
use super::source::Source;
use super::target::Target;
use crate::cli::output;
use crate::nats::StreamMessage;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    selection: Selection,
    /// Sequences of dead letters, instead of flags that select
    #[arg(value_name = "SEQ")]
    sequences: Vec<u64>,
    /// Write to this file, which must not exist; it is on the disk at the end. Else to standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// One exported message.
#[derive(Serialize, Deserialize)]
pub(super) struct Line {
    /// The dead-letter stream.
    pub(super) stream: String,
    /// The sequence there.
    pub(super) sequence: u64,
    /// When it was stored there.
    pub(super) stored_at: String,
    /// The subject it was stored under.
    pub(super) subject: String,
    /// The header block.
    pub(super) headers_base64: String,
    /// The body.
    pub(super) body_base64: String,
}

impl Line {
    fn of(stream: &str, message: &StreamMessage) -> Self {
        let mut block = b"NATS/1.0\r\n".to_vec();
        for (name, value) in message.headers.iter() {
            block.extend_from_slice(name.as_bytes());
            block.extend_from_slice(b": ");
            block.extend_from_slice(value);
            block.extend_from_slice(b"\r\n");
        }
        block.extend_from_slice(b"\r\n");
        let block = if message.headers.is_empty() { Vec::new() } else { block };
        Self {
            stream: stream.to_owned(),
            sequence: message.sequence,
            stored_at: message.stored_at.rfc3339(),
            subject: message.subject.clone(),
            headers_base64: STANDARD.encode(block),
            body_base64: STANDARD.encode(&message.body),
        }
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut opened = arguments.target.open().await?;
    let stream = opened.pages.stream().to_owned();
    let file = arguments
        .output
        .as_ref()
        .map(|path| File::create_new(path).map_err(|error| Failure::File(path.display().to_string(), error)));
    let file = file.transpose()?;
    let synced = file.as_ref().map(File::try_clone).transpose()?;
    let mut out: BufWriter<Box<dyn Write + Send>> = BufWriter::new(match file {
        Some(file) => Box::new(file),
        None => Box::new(std::io::stdout()),
    });
    let bounds = arguments.selection.bounds(&opened.state);
    let mut source = Source::new(&arguments.sequences, &arguments.selection, bounds, opened.state.messages)?;
    let mut progress = Progress::new();
    let mut exported = 0u64;
    while let Some((letter, stored)) = source.next(&mut opened.pages).await? {
        for message in messages(&mut opened.pages, &letter, stored).await? {
            serde_json::to_writer(&mut out, &Line::of(&stream, &message)).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        exported += 1;
        let (done, total) = source.progress();
        progress.show(done, total);
    }
    out.flush()?;
    if let Some(file) = synced {
        file.sync_all()?;
    }
    progress.clear();
    output::to_stderr(&format!("exported {exported} dead letters of {stream}\n{}", source.tally().remarks()));
    opened.close().await;
    Ok(())
}

async fn messages(
    pages: &mut crate::nats::StreamPages,
    letter: &Letter,
    stored: Option<StreamMessage>,
) -> Result<Vec<StreamMessage>, Failure> {
    if let Some(message) = stored {
        return Ok(vec![message]);
    }
    let mut parts = Vec::new();
    for sequence in letter.sequences() {
        let part = pages.get(sequence).await?;
        parts.push(part.ok_or_else(|| {
            Failure::refused(format!("message {sequence} was deleted while it was exported"))
        })?);
    }
    Ok(parts)
}
