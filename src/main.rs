//! The jetsink command.

use std::process::ExitCode;

fn main() -> ExitCode {
    jetsink::cli::main()
}
