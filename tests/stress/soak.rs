//! A long run: one server, two daemons on one durable, and a fault every few seconds, drawn from one seed.
//!
//! `JETSINK_SOAK_SECONDS` and `JETSINK_SOAK_SEED` set the length and the seed; `tests/soak.sh` does.

use std::time::Duration;

use jetsink::disposition::Rng;
use tokio::time::Instant;

use crate::faults::Scene;

/// Among the other tests.
const USUAL_SECONDS: u64 = 60;
const USUAL_SEED: u64 = 1;

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable)
        .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable}: {text:?} is no number")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_every_few_seconds_loses_nothing_and_costs_no_memory() {
    let seconds = number("JETSINK_SOAK_SECONDS", USUAL_SECONDS);
    let seed = number("JETSINK_SOAK_SEED", USUAL_SEED);
    println!("soak: {seconds} s, seed {seed}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rng = Rng::seeded(seed);
    let mut scene = Scene::start().await;
    let mut memory = Vec::new();
    while Instant::now() < end {
        scene.fault(&mut rng).await;
        memory.push(scene.resident_bytes());
    }
    scene.ends_well().await;
    stays_flat(&memory);
}

/// The memory of the daemon that is never restarted: the last quarter of the run against the second.
fn stays_flat(memory: &[u64]) {
    let quarter = memory.len() / 4;
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    if quarter == 0 {
        return;
    }
    let (early, late) = (median(&memory[quarter..2 * quarter]), median(&memory[3 * quarter..]));
    println!(
        "resident memory: median of the second quarter {} KiB, of the last {} KiB, most {} KiB",
        early / 1024,
        late / 1024,
        memory.iter().max().unwrap_or(&0) / 1024
    );
    assert!(late <= early + early / 4 + 8 * 1024 * 1024, "memory grows: {early} to {late} bytes");
}
