//! A sink sees envelopes; it cannot take the deliveries out of its batch.

use jetsink::delivery::{Admitted, WriteBatch};

fn take(batch: WriteBatch) -> Vec<Admitted> {
    batch.into_records()
}

fn main() {}
