//! `jetsink dlq tail`: the last dead letters, and then each new one. It reads; there is no consumer.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use tokio::time::{MissedTickBehavior, interval};

use super::downwards::newest_first;
use super::failure::Failure;
use super::letters::{Letter, Upwards};
use super::print::{Format, HEAD, object, row, visible};
use super::selection::Selection;
use super::target::Target;
use crate::nats::NatsError;

const EVERY: Duration = Duration::from_millis(250);
/// Looks in a row that may fail before it gives up: about half a minute of an outage.
const PATIENCE: u32 = 6;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    selection: Selection,
    /// So many of those that are there already
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    last: usize,
    /// Only new ones
    #[arg(long, conflicts_with = "last")]
    new: bool,
    /// End when those that are there already are told
    #[arg(long, conflicts_with = "new")]
    no_follow: bool,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut opened = arguments.target.open().await?;
    let mut out = std::io::stdout();
    if arguments.format == Format::Table {
        out.write_all(HEAD.as_bytes())?;
    }
    let wanted = if arguments.new { 0 } else { arguments.last };
    let mut last = Vec::new();
    if wanted > 0 {
        let bounds = arguments.selection.bounds(&opened.state);
        newest_first(&mut opened.pages, &arguments.selection, bounds, |letter| {
            last.push(letter.clone());
            Ok(if last.len() >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .await?;
    }
    for letter in last.iter().rev() {
        tell(&mut out, arguments.format, letter)?;
    }
    if arguments.no_follow {
        opened.close().await;
        return Ok(());
    }
    let mut seen = opened.state.last;
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = 0;
    loop {
        tick.tick().await;
        let newest = match opened.pages.state().await {
            Ok(state) => state.last,
            Err(error @ NatsError::Missing(_)) => return Err(error.into()),
            Err(_) if failures < PATIENCE => {
                failures += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        failures = 0;
        if newest <= seen {
            // A stream that was made anew begins at one again.
            seen = seen.min(newest);
            continue;
        }
        let mut upwards = Upwards::new(&arguments.selection, (seen.saturating_add(1), newest));
        while let Some((letter, _)) = upwards.next(&mut opened.pages).await? {
            tell(&mut out, arguments.format, &letter)?;
        }
        seen = newest;
    }
}

fn tell(out: &mut impl Write, format: Format, letter: &Letter) -> Result<(), Failure> {
    let mut text = match format {
        Format::Table => row(letter),
        Format::Json => format!("{}\n", serde_json::Value::Object(object(letter))),
    };
    if format == Format::Table
        && let Some(error) = &letter.summary.error
    {
        text.push_str(&format!("          {}\n", visible(error)));
    }
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
