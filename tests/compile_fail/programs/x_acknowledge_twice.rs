//! One delivery is acknowledged once.

use jetsink::delivery::{Committed, Settlement};

fn settle(delivery: Committed) -> [Settlement; 2] {
    [delivery.acknowledge(), delivery.acknowledge()]
}

fn main() {}
