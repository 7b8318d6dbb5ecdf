//! Turns: the order in which batches become durable, apart from the order in which they are encoded.

use tokio::sync::oneshot;

/// A place in the queue. The sink awaits it before it makes anything durable.
#[derive(Debug)]
#[must_use = "a turn that is not awaited breaks the order of writes"]
pub struct Turn(Option<oneshot::Receiver<()>>);

impl Turn {
    /// A turn that is there at once: for retries, and for orders that need none.
    pub const fn now() -> Self {
        Self(None)
    }

    /// Returns when every batch before this one has ended its first try.
    pub async fn wait(self) {
        if let Some(before) = self.0 {
            // A sender that is dropped has ended its try as well.
            let _ended = before.await;
        }
    }
}

/// Held by a batch while its first try lasts; dropping it lets the next batch have its turn.
#[derive(Debug)]
pub struct TurnOver(#[expect(dead_code, reason = "its drop is the signal")] oneshot::Sender<()>);

/// Hands out turns, first come, first served.
#[derive(Debug, Default)]
pub struct TurnQueue {
    last: Option<oneshot::Receiver<()>>,
}

impl TurnQueue {
    /// The next turn, and what ends it.
    pub fn take(&mut self) -> (Turn, TurnOver) {
        let (sender, receiver) = oneshot::channel();
        (Turn(self.last.replace(receiver)), TurnOver(sender))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_comes_when_the_one_before_is_over() {
        let mut queue = TurnQueue::default();
        let (first, first_over) = queue.take();
        let (second, _second_over) = queue.take();
        first.wait().await;
        let mut second = std::pin::pin!(second.wait());
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        drop(first_over);
        second.await;
    }
}
