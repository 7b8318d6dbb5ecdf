//! An acknowledgement that is not sent is noticed.

#![deny(unused_must_use)]

use jetsink::delivery::Committed;

fn settle(delivery: Committed) {
    delivery.acknowledge();
}

fn main() {}
