//! Deliveries that are read back from dead letters, for a redrive straight into the sink.

use bytes::Bytes;

use crate::delivery::Received;
use crate::envelope::{Envelope, Incarnation};

/// A delivery of a message that was settled long ago: it passes gate and sink as any other, and nothing can be settled by
/// it. Its reply is empty and its durable's life is none, so that an acker would drop it.
pub fn replayed(envelope: Envelope) -> Received {
    Received::new(envelope, Bytes::new(), Incarnation(0))
}
