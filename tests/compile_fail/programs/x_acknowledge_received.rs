//! A delivery that nobody has judged cannot be acknowledged.

use jetsink::delivery::{Received, Settlement};

fn settle(delivery: Received) -> Settlement {
    delivery.acknowledge()
}

fn main() {}
