//! A settlement cannot be copied.

use jetsink::delivery::Settlement;

fn copy(settlement: &Settlement) -> [Settlement; 1] {
    [settlement.clone()]
}

fn main() {}
