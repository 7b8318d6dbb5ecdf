//! An outcome of sending that nobody looks at is noticed.

#![deny(unused_must_use)]

use jetsink::delivery::{Acker, Confirm, Settlement};

async fn settle(settlement: Settlement, acker: &dyn Acker) {
    acker.settle(vec![settlement], Confirm::Last).await;
}

fn main() {}
