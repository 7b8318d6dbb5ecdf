//! The right to settle cannot be taken out of an admitted delivery.

use jetsink::delivery::Admitted;

fn take(delivery: Admitted) {
    let _handle = delivery.handle;
}

fn main() {}
