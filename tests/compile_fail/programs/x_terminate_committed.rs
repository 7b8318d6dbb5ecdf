//! What is in the sink is acknowledged, never terminated.

use jetsink::delivery::{Committed, Settlement};

fn settle(delivery: Committed) -> Settlement {
    delivery.terminate()
}

fn main() {}
