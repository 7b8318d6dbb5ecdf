//! A sink cannot reach the right to settle through its batch.

use jetsink::delivery::WriteBatch;

fn reach(batch: &WriteBatch) -> usize {
    batch.records.len()
}

fn main() {}
