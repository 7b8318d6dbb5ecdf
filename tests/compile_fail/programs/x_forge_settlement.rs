//! A settlement cannot be made by hand.

use jetsink::delivery::{Settlement, SettlementKind};

fn forge() -> Settlement {
    Settlement { handle: unreachable!(), kind: SettlementKind::Ack }
}

fn main() {}
