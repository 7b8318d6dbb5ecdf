//! `jetsink dlq ls`.

use std::io::Write as _;
use std::ops::ControlFlow;

use clap::Args;

use super::downwards::newest_first;
use super::failure::Failure;
use super::print::{Format, HEAD, object, row};
use super::selection::Selection;
use super::target::Target;
use crate::cli::output;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    selection: Selection,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// At most so many, the newest
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut opened = arguments.target.open().await?;
    let mut out = std::io::BufWriter::new(std::io::stdout());
    if arguments.format == Format::Table {
        out.write_all(HEAD.as_bytes())?;
    }
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let bounds = arguments.selection.bounds(&opened.state);
    let tally = newest_first(&mut opened.pages, &arguments.selection, bounds, |letter| {
        if left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        left -= 1;
        match arguments.format {
            Format::Table => out.write_all(row(letter).as_bytes())?,
            Format::Json => {
                serde_json::to_writer(&mut out, &object(letter)).map_err(std::io::Error::from)?;
                out.write_all(b"\n")?;
            }
        }
        Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })
    .await?;
    out.flush()?;
    drop(out);
    output::to_stderr(&tally.remarks());
    opened.close().await;
    Ok(())
}
