//! An envelope carries no right to settle.

use jetsink::delivery::{Settlement, WriteBatch};

fn settle(batch: &WriteBatch) -> Option<Settlement> {
    batch.envelopes().next().map(|envelope| envelope.acknowledge())
}

fn main() {}
