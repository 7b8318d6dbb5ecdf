//! Only what reads a stream instead of pulling makes messages that can only be dead-lettered.

use bytes::Bytes;
use jetsink::delivery::{Received, Rejection};
use jetsink::envelope::{Envelope, Incarnation};

fn forge(envelope: Envelope, verdict: Rejection) -> Received {
    Received::from_stream(envelope, Bytes::new(), Incarnation(1), verdict)
}

fn main() {}
