//! The dead-letter stream does not confirm.

use std::collections::HashSet;
use std::time::Duration;

use jetsink::runner::DeliverySettings;
use jetsink::telemetry::NotReady;
use jetsink::testing::Step;
use jetsink::testing::model_stream::{DeadLetterConduct, DurableConfig};

use super::{count, dead_letter_sequences, is_ready, publish, settle_and_check, until};
use crate::world::{Setup, World};

const MAX_PARKED: usize = 10;

fn setup() -> Setup {
    Setup {
        delivery: DeliverySettings {
            batch_size: 10,
            max_in_flight_batches: 2,
            max_parked: Some(MAX_PARKED),
            ..DeliverySettings::default()
        },
        durable: DurableConfig { ack_wait: Duration::from_secs(10), ..DurableConfig::default() },
        ..Setup::default()
    }
}

async fn good_ones_flow_until_the_parking_is_full(conduct: DeadLetterConduct) {
    let mut world = World::new(setup());
    world.server.set_dead_letters(conduct);
    let mut bad = HashSet::new();
    for _ in 0..MAX_PARKED {
        bad.insert(world.publish("src.a", true));
        publish(&world, 20);
    }
    world.start_all();
    let good = MAX_PARKED * 20;
    let flows = |world: &World| world.warehouses[0].len() == good;
    until(&mut world, Duration::from_secs(120), "good ones flow past parked ones", flows).await;
    let says_so = |world: &World| {
        let daemon = world.daemons[0].as_ref().expect("it runs");
        daemon.health.reasons().iter().any(|(reason, _)| *reason == NotReady::DeadLetterUnavailable)
    };
    until(&mut world, Duration::from_secs(10), "it says so", says_so).await;

    for _ in 0..50 {
        bad.insert(world.publish("src.a", true));
    }
    publish(&world, 200);
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(world.warehouses[0].len(), good, "with the parking full nothing more is taken");
    let settled =
        count(&world, |step| matches!(step, Step::Settled { identity, .. } if bad.contains(identity)));
    assert_eq!(settled, 0, "no ack, no term, no nak without a dead letter");

    world.server.set_dead_letters(DeadLetterConduct::Works);
    let expected: HashSet<_> = bad.iter().map(|identity| identity.sequence).collect();
    settle_and_check(&mut world, Duration::from_secs(120), bad, HashSet::new()).await;
    let letters = dead_letter_sequences(&world);
    assert_eq!(letters.len(), expected.len(), "each one once");
    assert_eq!(letters.into_iter().collect::<HashSet<_>>(), expected);
    assert_eq!(world.warehouses[0].len(), good + 200);
    assert!(is_ready(&world, 0));
}

#[tokio::test(start_paused = true)]
async fn without_a_dead_letter_stream_good_ones_flow_until_the_parking_is_full() {
    good_ones_flow_until_the_parking_is_full(DeadLetterConduct::Missing).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_full_dead_letter_stream_good_ones_flow_until_the_parking_is_full() {
    good_ones_flow_until_the_parking_is_full(DeadLetterConduct::Full).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_silent_dead_letter_stream_good_ones_flow_until_the_parking_is_full() {
    good_ones_flow_until_the_parking_is_full(DeadLetterConduct::Silent).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_whose_confirmation_is_lost_is_stored_once() {
    let mut world = World::new(setup());
    world.server.set_dead_letters(DeadLetterConduct::AnswerLost);
    let bad = HashSet::from([world.publish("src.a", true)]);
    world.start_all();
    world.pass(Duration::from_secs(60)).await;
    let settled = count(&world, |step| matches!(step, Step::Settled { .. }));
    assert_eq!((settled, dead_letter_sequences(&world)), (0, vec![1]));
    world.server.set_dead_letters(DeadLetterConduct::Works);
    settle_and_check(&mut world, Duration::from_secs(60), bad, HashSet::new()).await;
    assert_eq!(dead_letter_sequences(&world), [1]);
}
