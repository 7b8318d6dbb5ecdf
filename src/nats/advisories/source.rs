//! The source of the loop where advisories are read as well: deliveries of the durable, and beside them what it gave up on.

use tokio::sync::mpsc;

use crate::delivery::{BoxFuture, Budget, Received, Source, SourceError};
use crate::nats::pulls::pull::PullSource;

/// A durable's deliveries, and the messages that its advisories name.
#[derive(Debug)]
pub struct SourceWithGivenUp {
    deliveries: PullSource,
    given_up: mpsc::Receiver<Received>,
}

/// Where messages that the server gave up on are handed to the loop.
#[derive(Debug)]
pub struct GivenUpDoor(pub(in crate::nats) mpsc::Sender<Received>);

impl SourceWithGivenUp {
    /// Both, and the door for the second. One message at a time waits at the door.
    #[must_use]
    pub fn new(deliveries: PullSource) -> (Self, GivenUpDoor) {
        let (door, given_up) = mpsc::channel(1);
        (Self { deliveries, given_up }, GivenUpDoor(door))
    }
}

impl Source for SourceWithGivenUp {
    fn pull(&mut self, budget: Budget) -> BoxFuture<'_, Result<Vec<Received>, SourceError>> {
        Box::pin(async move {
            // What comes from there counts against the same permits.
            let has_room = budget.messages > 0 && budget.bytes > 0;
            tokio::select! {
                biased;
                Some(given_up) = self.given_up.recv(), if has_room => Ok(vec![given_up]),
                pulled = self.deliveries.pull(budget) => pulled,
            }
        })
    }

    fn open_pulls(&self) -> usize {
        self.deliveries.open_pulls()
    }
}
