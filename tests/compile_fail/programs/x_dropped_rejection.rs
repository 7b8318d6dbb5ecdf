//! A rejected delivery that is left lying is noticed.

#![deny(unused_must_use)]

use jetsink::delivery::{Admitted, Rejection};

fn refuse(delivery: Admitted, rejection: Rejection) {
    delivery.reject(rejection);
}

fn main() {}
