//! A rejected delivery cannot be acknowledged before its dead letter is confirmed.

use jetsink::delivery::{Rejected, Settlement};

fn settle(delivery: Rejected) -> Settlement {
    delivery.acknowledge()
}

fn main() {}
