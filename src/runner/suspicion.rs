//! How the server's delivered count narrows the pulls (design §5, adr/0016).
//!
//! The count rises with every nak, lapse, crash, cut and poisoned neighbour, so it proves nothing. It only says how much
//! company a message may have: the more often it came, the fewer neighbours pay when it kills the process once more.
//!
//! The count of a message is seen only once it is in hand, and then its neighbours of the same pull are in hand as well. So
//! after two crashes in a row the process is on probation: it takes one message at a time, new ones too, until everything that
//! was unsettled at its start has come back.

use std::time::Duration;

use tokio::time::Instant;

/// The number of messages that may be in hand, by what arrived lately.
#[derive(Debug)]
pub(super) struct Suspicion {
    cap: usize,
    ceiling: usize,
    probation: Option<Probation>,
}

/// What was unsettled when the process bound the durable: perhaps a process before it died of one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// The highest stream sequence delivered.
    pub delivered: u64,
    /// How many messages were delivered more than once, as far as the server counts them.
    pub redelivered: usize,
    /// After this they have all come back, or somebody else keeps them.
    pub longest_ack_wait: Duration,
}

/// One message in hand at a time.
#[derive(Debug)]
struct Probation {
    /// Everything up to this stream sequence is to be settled.
    delivered: u64,
    /// From here on a pull that brings no redelivery proves that none waits: the server sends them first.
    lapsed: Instant,
}

/// Delivered counts from here on: at most [`FEW`] in hand.
const DOUBTFUL: u64 = 3;
/// Delivered counts from here on: one in hand and nothing else.
const SUSPECT: u64 = 4;
const FEW: usize = 32;
/// With a crash limit up to this the second arrival is the last that is read: one crash is enough for a probation.
const LAST_CHANCE: u64 = 3;
/// A server redelivers a moment after the ack wait.
const MARGIN: Duration = Duration::from_secs(1);
/// A back-off list may hold steps of hours; nothing is slowed down for so long.
const LONGEST_PROBATION: Duration = Duration::from_secs(300);

impl Suspicion {
    /// After a start or a reconnect pulls begin at one: the server sends redeliveries first.
    pub(super) fn new(ceiling: usize, crash_limit: u64, left_behind: Option<LeftBehind>) -> Self {
        let left_behind = left_behind.filter(|left| left.redelivered > 0 || crash_limit <= LAST_CHANCE);
        let probation = left_behind.map(|left| Probation {
            delivered: left.delivered,
            lapsed: Instant::now() + left.longest_ack_wait.min(LONGEST_PROBATION) + MARGIN,
        });
        Self { cap: 1, ceiling, probation }
    }

    /// Whether a delivery must be alone in hand.
    pub(super) const fn is_suspect(delivery_count: u64) -> bool {
        delivery_count >= SUSPECT
    }

    /// Whether one message at a time is taken, since processes before this one died.
    pub(super) const fn is_on_probation(&self) -> bool {
        self.probation.is_some()
    }

    /// Begins again at one.
    pub(super) const fn restart(&mut self) {
        self.cap = 1;
    }

    /// Takes note of the durable's ack floor.
    pub(super) fn settled_up_to(&mut self, ack_floor: u64) {
        self.probation.take_if(|probation| probation.delivered <= ack_floor);
    }

    /// Takes note of what one pull brought: `highest` is the highest delivered count, 0 when nothing came. Nothing proves
    /// nothing: a pull that ends empty while an ack wait runs must not widen the next one, which then brings the suspect
    /// and a neighbour.
    pub(super) fn arrived(&mut self, highest: u64, now: Instant) {
        self.probation.take_if(|probation| highest <= 1 && probation.lapsed <= now);
        if highest == 0 || self.is_on_probation() {
            return;
        }
        self.cap = if highest >= SUSPECT {
            1
        } else if highest >= DOUBTFUL {
            self.cap.saturating_mul(2).min(FEW)
        } else {
            self.cap.saturating_mul(2).min(self.ceiling)
        };
    }

    /// How many messages may be in hand now.
    pub(super) const fn cap(&self) -> usize {
        self.cap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: LeftBehind =
        LeftBehind { delivered: 10, redelivered: 1, longest_ack_wait: Duration::from_secs(2) };

    fn arrivals(suspicion: &mut Suspicion, counts: &[u64]) -> Vec<usize> {
        let now = Instant::now();
        let arrive = |count: &u64| {
            suspicion.arrived(*count, now);
            suspicion.cap()
        };
        counts.iter().map(arrive).collect()
    }

    #[test]
    fn pulls_begin_at_one_and_double_up_to_the_ceiling() {
        let mut suspicion = Suspicion::new(100, 10, None);
        assert_eq!(suspicion.cap(), 1);
        assert_eq!(arrivals(&mut suspicion, &[1; 8]), [2, 4, 8, 16, 32, 64, 100, 100]);
    }

    #[test]
    fn a_third_delivery_narrows_to_a_few_and_a_fourth_to_one() {
        let mut suspicion = Suspicion::new(2000, 10, None);
        arrivals(&mut suspicion, &[2; 20]);
        assert_eq!(suspicion.cap(), 2000);
        assert_eq!(arrivals(&mut suspicion, &[3, 4, 0, 1]), [32, 1, 1, 2]);
    }

    #[test]
    fn one_crash_alone_narrows_nothing_unless_the_second_arrival_is_the_last() {
        let once = LeftBehind { redelivered: 0, ..LEFT };
        assert!(!Suspicion::new(100, 10, Some(once)).is_on_probation());
        assert!(Suspicion::new(100, 3, Some(once)).is_on_probation());
        assert!(Suspicion::new(100, 10, Some(LEFT)).is_on_probation());
        assert!(!Suspicion::new(100, 3, None).is_on_probation());
    }

    #[tokio::test(start_paused = true)]
    async fn on_probation_one_comes_at_a_time_until_every_ack_wait_has_passed() {
        let mut suspicion = Suspicion::new(100, 10, Some(LEFT));
        assert_eq!(arrivals(&mut suspicion, &[1, 2, 1, 0, 1]), [1; 5]);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(arrivals(&mut suspicion, &[2, 3, 2]), [1; 3], "redeliveries still come");
        assert_eq!(arrivals(&mut suspicion, &[1, 1]), [2, 4]);
    }

    #[test]
    fn probation_ends_when_all_that_was_delivered_is_settled() {
        let mut suspicion = Suspicion::new(100, 10, Some(LEFT));
        suspicion.settled_up_to(9);
        assert!(suspicion.is_on_probation());
        suspicion.settled_up_to(10);
        assert!(!suspicion.is_on_probation());
    }
}
