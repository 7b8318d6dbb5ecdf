//! Only the search in the stream makes messages that no client can be handed.

use bytes::Bytes;
use jetsink::delivery::Received;
use jetsink::envelope::{Envelope, Incarnation};

fn forge(envelope: Envelope) -> Received {
    Received::undeliverable(envelope, Bytes::new(), Incarnation(1), "")
}

fn main() {}
