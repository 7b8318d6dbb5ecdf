//! A rejected delivery is not given back: that would spend its deliveries.

use jetsink::delivery::{Rejected, Settlement};

fn settle(delivery: Rejected) -> Settlement {
    delivery.release(None)
}

fn main() {}
