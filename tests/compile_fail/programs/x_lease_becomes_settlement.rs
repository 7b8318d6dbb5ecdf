//! A lease is not sent as a settlement.

use jetsink::delivery::{Acker, Confirm, Lease};

async fn settle(lease: Lease, acker: &dyn Acker) {
    let _settled = acker.settle(vec![lease], Confirm::Last).await;
}

fn main() {}
