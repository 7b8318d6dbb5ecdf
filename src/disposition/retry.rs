//! Bounded, growing, jittered delays. No loop in this process retries without one (design §5).

use std::time::Duration;

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first delay; also the floor.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
    /// The factor from one delay to the next; at least 1.
    pub multiplier: f64,
    /// The share of a delay that is random, 0 to 1: with 0.5 a delay lies between half of its nominal value and all of it.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(250),
            max: Duration::from_secs(30),
            multiplier: 2.0,
            jitter: 0.5,
        }
    }
}

impl Backoff {
    /// The delay before try number `failures + 1`, `failures` ≥ 1. Never below half of `initial` and never above `max`.
    #[must_use]
    pub fn delay(&self, failures: u32, rng: &mut Rng) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let nominal = (self.initial.as_secs_f64() * self.multiplier.max(1.0).powi(exponent))
            .clamp(self.initial.as_secs_f64(), self.max.max(self.initial).as_secs_f64());
        let jitter = self.jitter.clamp(0.0, 0.5);
        Duration::from_secs_f64(nominal * (1.0 - jitter * rng.fraction()))
    }
}

/// A small deterministic generator (splitmix64) for jitter: injected, so that a simulation is exact from its seed. Not for
/// secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that always gives the same numbers for the same seed.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to and without 1.
    pub fn fraction(&mut self) -> f64 {
        let bits = u32::try_from(self.next_u64() >> 32).unwrap_or(0);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    /// A number from 0 up to and without `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::*;

    proptest! {
        #[test]
        fn a_delay_keeps_its_floor_and_its_ceiling(
            initial in 1u64..5_000, max in 1u64..100_000, multiplier in 0.0f64..10.0, jitter in 0.0f64..2.0,
            failures in 0u32..1_000, seed in any::<u64>(),
        ) {
            let backoff = Backoff {
                initial: Duration::from_millis(initial), max: Duration::from_millis(max), multiplier, jitter,
            };
            let delay = backoff.delay(failures, &mut Rng::seeded(seed));
            prop_assert!(delay >= backoff.initial / 2 - Duration::from_nanos(1));
            prop_assert!(delay <= backoff.max.max(backoff.initial));
        }
    }

    #[test]
    fn delays_grow_by_the_multiplier() {
        let backoff = Backoff { jitter: 0.0, ..Backoff::default() };
        let mut rng = Rng::seeded(1);
        let delays: Vec<_> = (1..=4).map(|failures| backoff.delay(failures, &mut rng).as_millis()).collect();
        assert_eq!(delays, [250, 500, 1000, 2000]);
    }
}
