//! The jetsink command.

fn main() {}
