//! What shares a commit among deliveries of one message cannot be made by hand.

use jetsink::delivery::{CommitProof, Received};

fn forge(delivery: &Received) -> CommitProof {
    CommitProof { identity: delivery.identity() }
}

fn main() {}
