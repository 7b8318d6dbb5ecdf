//! The proof of a dead letter cannot be made by hand.

use jetsink::delivery::{DeadLettered, PublishReceipt};
use jetsink::reason::ReasonCode;

fn forge(receipt: PublishReceipt) -> DeadLettered {
    DeadLettered { handle: unreachable!(), reason: ReasonCode::SinkRefused, receipt }
}

fn main() {}
