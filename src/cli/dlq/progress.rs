//! Progress on a terminal, and the question before something is changed.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;
use crate::cli::output;

const EVERY: Duration = Duration::from_millis(200);
/// Lines about single letters; what is beyond is only counted.
const LINES: usize = 20;

/// A line on standard error that is written over again and again. Silent when that is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    shown: Option<Instant>,
    terminal: bool,
    lines: usize,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: None, terminal: io::stderr().is_terminal(), lines: 0 }
    }

    /// Shows how far it is.
    pub(super) fn show(&mut self, done: u64, of: u64) {
        let now = Instant::now();
        if !self.terminal || self.shown.is_some_and(|shown| now.duration_since(shown) < EVERY) {
            return;
        }
        self.shown = Some(now);
        let filled = usize::try_from(done.saturating_mul(30) / of.max(1)).unwrap_or(0).min(30);
        output::to_stderr(&format!("\r[{:<30}] {done} of {of}\x1b[K", "#".repeat(filled)));
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            output::to_stderr("\r\x1b[K");
        }
    }

    /// Says something about one letter; of many only the first ones.
    pub(super) fn line(&mut self, text: &str) {
        self.clear();
        self.lines += 1;
        if self.lines <= LINES {
            output::to_stderr(&format!("{text}\n"));
        } else if self.lines == LINES + 1 {
            output::to_stderr("further ones are only counted\n");
        }
    }
}

/// Asks, unless it was answered by `--yes`. Without a terminal nobody can answer.
pub(super) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::refused(format!(
            "{question}: standard input is no terminal, so nobody can be asked; say --yes"
        )));
    }
    output::to_stderr(&format!("{question}? [y/N] "));
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::refused("nothing was done"))
    }
}
