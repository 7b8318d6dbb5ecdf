//! The right to acknowledge cannot be copied.

use jetsink::delivery::{Committed, Settlement};

fn copy(delivery: &Committed) -> Settlement {
    delivery.clone().acknowledge()
}

fn main() {}
