//! Messages that the server gave up on, or that somebody else terminated: they come read from their stream, to be
//! dead-lettered and nothing else. So do the records of messages that are gone.

use std::sync::Arc;

use tokio::time::timeout;

use super::core::Core;
use super::parking::Parking;
use super::round::{RoundOutcome, acknowledge};
use crate::delivery::Received;
use crate::envelope::Body;

/// Whether this is the record of a loss, and the message is in hand: then it is not lost, whatever became of its stream.
/// The record is dropped; who made it asks again later.
pub(super) fn is_in_hand_after_all(core: &Core, received: &Received) -> bool {
    let envelope = received.envelope();
    envelope.body == Body::Lost && core.in_hand.holds_sequence(envelope.stream_sequence)
}

/// Ends the way of such a message. What the sink remembers is committed already, by a daemon that did not get to its ack: it
/// is settled, and no dead letter says otherwise.
pub(super) async fn end(core: &Arc<Core>, parking: &Parking, received: Received) {
    let identity = received.identity();
    let remembered = timeout(core.settings.write_timeout, received.recall(&*core.ports.sink)).await;
    match remembered {
        Ok(Ok(committed)) => acknowledge(core, vec![committed], &mut RoundOutcome::default()).await,
        Ok(Err(received)) => {
            if let Ok(rejected) = received.into_rejected() {
                let is_lost = rejected.envelope().body == Body::Lost;
                core.metrics.messages_lost.add(usize::from(is_lost));
                core.notices.given_up(rejected.envelope(), rejected.rejection());
                parking.take(core, rejected);
            }
        }
        // The sink does not answer: the advisory comes again.
        Err(_) => {
            core.metrics.deliveries_dropped.increment();
            drop(core.in_hand.leave([identity]));
        }
    }
}
