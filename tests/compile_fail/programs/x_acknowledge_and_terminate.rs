//! One delivery is settled in one way.

use jetsink::delivery::{DeadLettered, Settlement};

fn settle(delivery: DeadLettered) -> [Settlement; 2] {
    [delivery.acknowledge(), delivery.terminate()]
}

fn main() {}
