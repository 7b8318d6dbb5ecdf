//! A sink that fails everybody, and records that fail alone.

use std::collections::HashSet;
use std::time::Duration;

use jetsink::reason::ReasonCode;
use jetsink::testing::model_stream::DurableConfig;
use jetsink::testing::{Conduct, RecordFault};

use super::{dead_letter_sequences, is_ready, publish, settle_and_check, until, world_with};
use crate::world::{Setup, World};

fn setup() -> Setup {
    Setup {
        durable: DurableConfig { max_ack_pending: 10_000, ..DurableConfig::default() },
        ..Setup::default()
    }
}

/// Two thousand messages are in hand when the sink begins to fail; it fails for a minute.
async fn outage(conduct: Conduct, says_so: bool) {
    let mut world = world_with(setup(), 6_000);
    world.warehouses[0].set_latency(Duration::from_secs(10));
    until(&mut world, Duration::from_secs(300), "2,000 in hand", |world| world.in_hand() >= 2_000).await;
    world.warehouses[0].set_conduct(conduct);
    world.warehouses[0].set_latency(Duration::from_millis(1));
    world.pass(Duration::from_secs(60)).await;
    assert!(!says_so || !is_ready(&world, 0), "an outage of a minute is said");
    world.warehouses[0].set_conduct(Conduct::Works);
    settle_and_check(&mut world, Duration::from_secs(300), HashSet::new(), HashSet::new()).await;
    assert_eq!(dead_letter_sequences(&world), Vec::<u64>::new());
    assert_eq!(world.warehouses[0].len(), 6_000);
    assert!(is_ready(&world, 0));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_down_for_a_minute_costs_nothing() {
    outage(Conduct::Down, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_fails_with_its_probe_for_a_minute_costs_nothing() {
    outage(Conduct::Transient { probe_passes: false }, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_whose_probe_passes_while_writes_fail_for_a_minute_costs_nothing() {
    outage(Conduct::Transient { probe_passes: true }, false).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_hangs_for_a_minute_costs_nothing() {
    outage(Conduct::Hangs, false).await;
}

/// One record among a thousand good ones has a fault of its own.
async fn one_bad_record(fault: RecordFault, reason: ReasonCode) {
    let mut world = World::new(setup());
    let messages = publish(&world, 1_001);
    world.warehouses[0].set_record_fault(500, Some(fault));
    world.start_all();
    let good_ones = |world: &World| world.warehouses[0].len() == 1_000;
    until(&mut world, Duration::from_secs(120), "every good record is stored", good_ones).await;
    settle_and_check(&mut world, Duration::from_secs(600), HashSet::new(), HashSet::from([messages[499]]))
        .await;
    assert_eq!(dead_letter_sequences(&world), [500]);
    assert_eq!(world.server.dead_letters()[0].reason, reason);
    assert_eq!(world.warehouses[0].len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_always_fails_is_dead_lettered_alone() {
    one_bad_record(RecordFault::Transient, ReasonCode::AttemptsExhausted).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_keeps_raising_sink_down_is_dead_lettered_alone() {
    one_bad_record(RecordFault::Down, ReasonCode::AttemptsExhausted).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_fails_its_whole_batch_is_dead_lettered_alone() {
    one_bad_record(RecordFault::SpoilsBatch, ReasonCode::AttemptsExhausted).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_refused_is_dead_lettered_alone() {
    one_bad_record(RecordFault::Refused, ReasonCode::SinkRefused).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_for_which_its_batch_is_refused_is_found_and_dead_lettered_alone() {
    one_bad_record(RecordFault::RefusedSomewhere, ReasonCode::SinkRefused).await;
}
