//! A rejected delivery cannot be terminated before its dead letter is confirmed.

use jetsink::delivery::{Rejected, Settlement};

fn settle(delivery: Rejected) -> Settlement {
    delivery.terminate()
}

fn main() {}
