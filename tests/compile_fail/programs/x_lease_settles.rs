//! A lease extends; it never settles.

use jetsink::delivery::{Lease, Settlement};

fn settle(lease: Lease) -> Settlement {
    lease.acknowledge()
}

fn main() {}
