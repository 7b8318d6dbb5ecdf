//! Writing answers. A reader that has gone away (`jetsink show-config | head`) is no error; a full disk is.

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

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

/// Writes a message to standard error. If that fails there is nowhere left to say so.
pub(super) fn to_stderr(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}
