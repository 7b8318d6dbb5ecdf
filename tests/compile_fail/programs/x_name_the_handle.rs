//! The single-use right to settle has no name outside the seal.

use jetsink::delivery::settlement::Handle;

fn keep(_handle: Handle) {}

fn main() {}
