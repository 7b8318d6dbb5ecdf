//! The jetsink command.

use std::process::ExitCode;

/// A third of the daemon's processor time went to the C library's allocator (adr/0018).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    jetsink::cli::main()
}
