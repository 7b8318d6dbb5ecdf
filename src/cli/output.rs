//! Writing answers. A reader that has gone away (`jetsink show-config | head`) is no error; a full disk is.

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Writes an answer to standard output.
pub(super) fn to_stdout(text: &str) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            to_stderr(&format!("cannot write the answer: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Writes an answer to standard output as JSON.
pub(super) fn json_to_stdout(answer: &impl Serialize) -> ExitCode {
    match serde_json::to_string_pretty(answer) {
        Ok(text) => to_stdout(&format!("{text}\n")),
        Err(error) => {
            to_stderr(&format!("cannot write the answer: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Writes a message to standard error. If that fails there is nowhere left to say so.
pub(super) fn to_stderr(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// A text of a message on one line of a terminal: control characters are shown and not obeyed.
pub(super) fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_no_commands() {
        assert_eq!(on_one_line("a\u{1b}[2J\nb\u{2028}ü"), "a\\u{1b}[2J\\nb\\u{2028}ü");
    }
}
