//! The accounting of open pulls: how much the server may still send us. Pure.
//!
//! Messages do not name the pull that brought them, and the server serves open pulls in turn. So arrivals are counted against
//! the oldest pull that still expects one; when a pull ends, the server states how much of it was not used, and the
//! difference moves to the other pulls. The sum is what matters, and it is exact.
//!
//! A pull that is full by our count may still be open at the server, which counts by itself. It is remembered until its end
//! is announced, so that what the server then says of it is believed; what it says of a forgotten pull is not.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::delivery::Budget;

/// Pulls open at once. A second one goes out while the first is served, so that the server never waits for us.
const MOST_OPEN: usize = 2;

/// Pulls whose end may still be announced. An old server (2.9) says nothing of a pull that it has filled.
const MOST_REMEMBERED: usize = 16;

/// How a pull ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) enum End {
    /// It is not one of ours, or was forgotten: nothing follows from its end.
    Unknown,
    /// It brought nothing, as far as the server says.
    Empty,
    /// It brought something.
    Served,
}

/// What a pull asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) struct Ask {
    pub(in crate::nats) number: u64,
    pub(in crate::nats) messages: usize,
    pub(in crate::nats) bytes: usize,
}

/// What one pull may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) struct PullLimits {
    /// Messages, by our settings and the consumer's `max_batch`.
    pub(in crate::nats) messages: usize,
    /// Bytes, by our settings and the consumer's `max_bytes`.
    pub(in crate::nats) bytes: usize,
    /// The largest message that may come, with its subject and reply: a pull for less may never be served.
    pub(in crate::nats) largest_message: usize,
    /// Pulls the consumer lets wait.
    pub(in crate::nats) waiting: usize,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    ask: Ask,
    messages_left: usize,
    bytes_left: usize,
    deadline: Instant,
}

#[derive(Debug)]
pub(in crate::nats) struct OpenPulls {
    open: VecDeque<Open>,
    /// Pulls whose end was not announced yet.
    unannounced: VecDeque<Ask>,
    limits: PullLimits,
    last_number: u64,
}

impl OpenPulls {
    pub(in crate::nats) const fn new(limits: PullLimits) -> Self {
        Self { open: VecDeque::new(), unannounced: VecDeque::new(), limits, last_number: 0 }
    }

    /// What the next pull would ask for, if one may go out now. `budget` is what is free beyond everything in hand.
    pub(in crate::nats) fn next(&self, budget: Budget) -> Option<Ask> {
        if self.open.len() >= MOST_OPEN.min(self.limits.waiting.max(1)) {
            return None;
        }
        let messages = budget.messages.saturating_sub(self.messages_left()).min(self.limits.messages);
        let bytes = budget.bytes.saturating_sub(self.bytes_left()).min(self.limits.bytes);
        if messages == 0 || bytes < self.limits.largest_message {
            return None;
        }
        if let Some(first) = self.open.front() {
            let is_half_served = first.messages_left <= first.ask.messages / 2;
            let is_worthwhile = messages >= first.ask.messages / 2;
            if !is_half_served || !is_worthwhile {
                return None;
            }
        }
        Some(Ask { number: self.last_number + 1, messages, bytes })
    }

    /// The pull was sent.
    pub(in crate::nats) fn sent(&mut self, ask: Ask, deadline: Instant) {
        self.last_number = ask.number;
        self.unannounced.push_back(ask);
        if self.unannounced.len() > MOST_REMEMBERED {
            self.unannounced.pop_front();
        }
        self.open.push_back(Open { ask, messages_left: ask.messages, bytes_left: ask.bytes, deadline });
    }

    /// A message came.
    pub(in crate::nats) fn arrived(&mut self, bytes: usize) {
        if let Some(pull) = self.open.iter_mut().find(|pull| pull.messages_left > 0) {
            pull.messages_left -= 1;
            pull.bytes_left = pull.bytes_left.saturating_sub(bytes);
        }
        self.open.retain(|pull| pull.messages_left > 0);
    }

    /// The server announced the end of a pull; `unused` is how many messages of it were not sent, if it said so.
    pub(in crate::nats) fn ended(&mut self, number: u64, unused: Option<usize>) -> End {
        let Some(place) = self.unannounced.iter().position(|ask| ask.number == number) else {
            return End::Unknown;
        };
        let asked = self.unannounced.remove(place).map_or(0, |ask| ask.messages);
        let place = self.open.iter().position(|pull| pull.ask.number == number);
        let counted = place.and_then(|place| self.open.remove(place)).map_or(0, |pull| pull.messages_left);
        let unused = unused.map(|unused| unused.min(asked));
        if let (Some(unused), Some(other)) = (unused, self.open.front_mut()) {
            // What we counted against this pull beyond what it brought was brought by the other one, and the other way round.
            other.messages_left =
                (other.messages_left + counted).saturating_sub(unused).min(other.ask.messages);
            self.open.retain(|pull| pull.messages_left > 0);
        }
        if unused.unwrap_or(counted) < asked { End::Served } else { End::Empty }
    }

    /// Forgets every pull: after a reconnect the server has forgotten them as well.
    pub(in crate::nats) fn forget(&mut self) {
        self.open.clear();
        self.unannounced.clear();
    }

    /// Forgets pulls whose end the server must have announced by now.
    pub(in crate::nats) fn expire(&mut self, now: Instant) {
        let unannounced = &mut self.unannounced;
        self.open.retain(|pull| {
            let is_open = pull.deadline > now;
            if !is_open {
                unannounced.retain(|ask| ask.number != pull.ask.number);
            }
            is_open
        });
    }

    pub(in crate::nats) fn count(&self) -> usize {
        self.open.len()
    }

    /// When the oldest pull is given up.
    pub(in crate::nats) fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().map(|pull| pull.deadline).min()
    }

    fn messages_left(&self) -> usize {
        self.open.iter().map(|pull| pull.messages_left).sum()
    }

    fn bytes_left(&self) -> usize {
        self.open.iter().map(|pull| pull.bytes_left).sum()
    }
}

/// A pull is given up this long after it should have expired at the server.
pub(in crate::nats) const GRACE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};

    use super::*;

    const LIMITS: PullLimits =
        PullLimits { messages: 1000, bytes: 8 << 20, largest_message: 64 << 10, waiting: 512 };
    const BUDGET: Budget = Budget { messages: 2000, bytes: 32 << 20 };

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(7)
    }

    #[test]
    fn a_second_pull_goes_out_when_the_first_is_half_served() {
        let mut pulls = OpenPulls::new(LIMITS);
        let first = pulls.next(BUDGET).unwrap();
        assert_eq!((first.messages, first.bytes), (1000, 8 << 20));
        pulls.sent(first, later());
        assert_eq!(pulls.next(BUDGET), None);
        for _ in 0..500 {
            pulls.arrived(600);
        }
        let rest = Budget { messages: 1500, bytes: (32 << 20) - 500 * 600 };
        let second = pulls.next(rest).unwrap();
        assert_eq!((second.number, second.messages), (2, 1000));
    }

    #[test]
    fn no_pull_goes_out_that_the_largest_message_would_not_fit() {
        let pulls = OpenPulls::new(LIMITS);
        assert_eq!(pulls.next(Budget { messages: 10, bytes: (64 << 10) - 1 }), None);
        assert_eq!(pulls.next(Budget { messages: 0, bytes: 32 << 20 }), None);
    }

    #[test]
    fn what_an_ended_pull_did_not_use_corrects_the_other() {
        let mut pulls = OpenPulls::new(PullLimits { messages: 10, ..LIMITS });
        pulls.sent(pulls.next(BUDGET).unwrap(), later());
        for _ in 0..5 {
            pulls.arrived(1);
        }
        pulls.sent(pulls.next(BUDGET).unwrap(), later());
        // Four more come; we count them against the first, but the server took two from each.
        for _ in 0..4 {
            pulls.arrived(1);
        }
        assert_eq!(pulls.messages_left(), 11);
        assert_eq!(pulls.ended(1, Some(3)), End::Served);
        assert_eq!(pulls.messages_left(), 8);
        assert_eq!(pulls.ended(2, Some(8)), End::Served);
        assert_eq!(pulls.count(), 0);
    }

    #[test]
    fn a_pull_that_is_full_by_our_count_is_still_believed_when_it_ends() {
        let mut pulls = OpenPulls::new(PullLimits { messages: 4, ..LIMITS });
        pulls.sent(pulls.next(BUDGET).unwrap(), later());
        pulls.arrived(1);
        pulls.arrived(1);
        pulls.sent(pulls.next(BUDGET).unwrap(), later());
        // Two more come by the second pull; the first seems full, and then expires with two unused.
        pulls.arrived(1);
        pulls.arrived(1);
        assert_eq!((pulls.count(), pulls.messages_left()), (1, 4));
        assert_eq!(pulls.ended(1, Some(2)), End::Served);
        assert_eq!((pulls.count(), pulls.messages_left()), (1, 2));
    }

    #[test]
    fn the_end_of_a_forgotten_pull_changes_nothing() {
        let mut pulls = OpenPulls::new(LIMITS);
        pulls.sent(pulls.next(BUDGET).unwrap(), later());
        pulls.forget();
        pulls.sent(pulls.next(BUDGET).unwrap(), later());
        assert_eq!(pulls.ended(1, Some(1000)), End::Unknown);
        assert_eq!((pulls.count(), pulls.messages_left()), (1, 1000));
        assert_eq!(pulls.ended(2, Some(1000)), End::Empty);
        assert_eq!(pulls.count(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ask,
        Arrive(usize),
        End(u64, Option<usize>),
        Forget,
    }

    proptest! {
        #[test]
        fn what_may_come_never_exceeds_what_was_asked(
            steps in proptest::collection::vec(prop_oneof![
                Just(Step::Ask),
                (0usize..2000).prop_map(Step::Arrive),
                (0u64..20, any::<Option<u8>>()).prop_map(|(number, unused)| Step::End(number, unused.map(usize::from))),
                Just(Step::Forget),
            ], 0..200),
        ) {
            let mut pulls = OpenPulls::new(PullLimits { messages: 10, ..LIMITS });
            let budget = Budget { messages: 25, bytes: 1 << 20 };
            for step in steps {
                match step {
                    Step::Ask => if let Some(ask) = pulls.next(budget) { pulls.sent(ask, later()); },
                    Step::Arrive(bytes) => pulls.arrived(bytes),
                    Step::End(number, unused) => {
                        let before = pulls.messages_left();
                        let end = pulls.ended(number, unused);
                        prop_assert!(end != End::Unknown || pulls.messages_left() == before);
                    }
                    Step::Forget => pulls.forget(),
                }
                prop_assert!(pulls.messages_left() <= budget.messages);
                prop_assert!(pulls.bytes_left() <= budget.bytes);
                prop_assert!(pulls.count() <= MOST_OPEN);
            }
        }
    }
}
