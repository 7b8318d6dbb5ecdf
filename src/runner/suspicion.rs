//! How the server's delivered count narrows the pulls (design §5).
//!
//! The count rises with every nak, lapse, crash, cut and poisoned neighbour, so it proves nothing. It only says how much
//! company a message may have: the more often it came, the fewer neighbours pay when it kills the process once more.

/// The number of messages that may be in hand, by what arrived lately.
#[derive(Debug)]
pub(super) struct Suspicion {
    cap: usize,
    ceiling: usize,
}

/// Delivered counts from here on: at most [`FEW`] in hand.
const DOUBTFUL: u64 = 3;
/// Delivered counts from here on: one in hand and nothing else.
const SUSPECT: u64 = 4;
const FEW: usize = 32;

impl Suspicion {
    /// After a start or a reconnect pulls begin at one: the server sends redeliveries first.
    pub(super) const fn new(ceiling: usize) -> Self {
        Self { cap: 1, ceiling }
    }

    /// Whether a delivery must be alone in hand.
    pub(super) const fn is_suspect(delivery_count: u64) -> bool {
        delivery_count >= SUSPECT
    }

    /// Begins again at one.
    pub(super) const fn restart(&mut self) {
        self.cap = 1;
    }

    /// Takes note of what one pull brought: `highest` is the highest delivered count, 0 when nothing came. Nothing proves
    /// nothing: a pull that ends empty while an ack wait runs must not widen the next one, which then brings the suspect
    /// and a neighbour.
    pub(super) fn arrived(&mut self, highest: u64) {
        if highest == 0 {
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

    #[test]
    fn pulls_begin_at_one_and_double_up_to_the_ceiling() {
        let mut suspicion = Suspicion::new(100);
        let mut caps = vec![suspicion.cap()];
        for _ in 0..8 {
            suspicion.arrived(1);
            caps.push(suspicion.cap());
        }
        assert_eq!(caps, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
    }

    #[test]
    fn a_third_delivery_narrows_to_a_few_and_a_fourth_to_one() {
        let mut suspicion = Suspicion::new(2000);
        for _ in 0..20 {
            suspicion.arrived(2);
        }
        assert_eq!(suspicion.cap(), 2000);
        suspicion.arrived(3);
        assert_eq!(suspicion.cap(), 32);
        suspicion.arrived(4);
        assert_eq!(suspicion.cap(), 1);
        suspicion.arrived(0);
        assert_eq!(suspicion.cap(), 1);
        suspicion.arrived(1);
        assert_eq!(suspicion.cap(), 2);
    }
}
