//! Only a source makes deliveries.

use bytes::Bytes;
use jetsink::delivery::Received;
use jetsink::envelope::{Envelope, Incarnation};

fn forge(envelope: Envelope) -> Received {
    Received::new(envelope, Bytes::new(), Incarnation(1))
}

fn main() {}
