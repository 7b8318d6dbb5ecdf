//! What goes wrong in one simulated run, and when: all of it from one seed.

use std::time::Duration;

use super::model_stream::{DeadLetterConduct, Network};
use super::scripted_sink::Conduct;
use crate::disposition::Rng;

/// One thing that goes wrong, or is mended.
#[derive(Clone, Debug, PartialEq)]
pub enum Disturbance {
    /// The sink behaves like this from now on.
    Sink(Conduct),
    /// The dead-letter stream behaves like this from now on.
    DeadLetters(DeadLetterConduct),
    /// The network behaves like this from now on.
    Network(Network),
    /// A daemon is cut off, for so long.
    Cut(Duration),
    /// A daemon's client dies of something it read.
    BreakClient,
    /// The server is killed and comes back after so long.
    KillServer(Duration),
    /// The server redelivers something at once that a daemon has in hand.
    RedeliverNow,
    /// A daemon is killed and started again after so long.
    Crash(Duration),
    /// A daemon is asked to stop, and is started again after it has ended and so long.
    Stop(Duration),
    /// The durable is deleted and created anew.
    RecreateConsumer,
    /// The stream is purged.
    Purge,
    /// With every daemon down the stream is restored to an earlier state.
    RollBack,
}

/// A disturbance and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFault {
    /// Since the start of the run.
    pub at: Duration,
    /// What happens then.
    pub disturbance: Disturbance,
}

/// Everything that goes wrong in one run, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// The disturbances.
    pub faults: Vec<PlannedFault>,
}

impl FaultPlan {
    /// `count` disturbances from `rng`, all of them before `horizon`. What lasts is mended by whoever runs the plan, at
    /// `horizon`.
    #[must_use]
    pub fn seeded(rng: &mut Rng, horizon: Duration, count: u64) -> Self {
        let mut faults: Vec<_> = (0..count)
            .map(|_| PlannedFault { at: horizon.mul_f64(rng.fraction()), disturbance: disturbance(rng) })
            .collect();
        faults.sort_by_key(|fault| fault.at);
        Self { faults }
    }
}

fn disturbance(rng: &mut Rng) -> Disturbance {
    match rng.below(100) {
        0..34 => Disturbance::Sink(conduct(rng)),
        34..46 => Disturbance::DeadLetters(dead_letters(rng)),
        46..60 => Disturbance::Network(network(rng)),
        60..68 => Disturbance::Cut(pause(rng)),
        68..71 => Disturbance::BreakClient,
        71..77 => Disturbance::KillServer(pause(rng)),
        77..81 => Disturbance::RedeliverNow,
        81..90 => Disturbance::Crash(pause(rng)),
        90..96 => Disturbance::Stop(pause(rng)),
        96..98 => Disturbance::RecreateConsumer,
        98 => Disturbance::Purge,
        _ => Disturbance::RollBack,
    }
}

fn conduct(rng: &mut Rng) -> Conduct {
    match rng.below(12) {
        0..5 => Conduct::Works,
        5 => Conduct::Transient { probe_passes: true },
        6 => Conduct::Transient { probe_passes: false },
        7 => Conduct::Down,
        8 => Conduct::Hangs,
        9 => Conduct::StoresHalf,
        10 => Conduct::LosesAnswer,
        _ => Conduct::HangsAfterStoring,
    }
}

fn dead_letters(rng: &mut Rng) -> DeadLetterConduct {
    match rng.below(8) {
        0..4 => DeadLetterConduct::Works,
        4 => DeadLetterConduct::Missing,
        5 => DeadLetterConduct::Full,
        6 => DeadLetterConduct::Silent,
        _ => DeadLetterConduct::AnswerLost,
    }
}

fn network(rng: &mut Rng) -> Network {
    let mut network = Network::default();
    match rng.below(6) {
        0 => network.lost_settlements = 0.3,
        1 => network.lost_confirmations = 0.3,
        2 => network.lost_deliveries = 0.1,
        3 => {
            network.late_deliveries = 0.05;
            network.lateness = Duration::from_secs(8);
        }
        4 => network.settlement_latency = Duration::from_millis(1 + rng.below(1500)),
        _ => {}
    }
    network
}

fn pause(rng: &mut Rng) -> Duration {
    Duration::from_millis(1 + rng.below(12_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_plan_in_order_of_time() {
        let horizon = Duration::from_secs(60);
        let plan = FaultPlan::seeded(&mut Rng::seeded(7), horizon, 40);
        assert_eq!(plan, FaultPlan::seeded(&mut Rng::seeded(7), horizon, 40));
        assert_ne!(plan, FaultPlan::seeded(&mut Rng::seeded(8), horizon, 40));
        assert!(plan.faults.is_sorted_by_key(|fault| fault.at));
        assert!(plan.faults.iter().all(|fault| fault.at < horizon));
    }
}
