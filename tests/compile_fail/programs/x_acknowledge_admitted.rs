//! A delivery that passed the gate and was not written cannot be acknowledged.

use jetsink::delivery::{Admitted, Settlement};

fn settle(delivery: Admitted) -> Settlement {
    delivery.acknowledge()
}

fn main() {}
