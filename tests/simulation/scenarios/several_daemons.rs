//! Daemons that share a durable, and copies of one message.

use std::collections::HashSet;
use std::time::Duration;

use jetsink::delivery::{Guarantee, SettlementKind};
use jetsink::runner::DeliverySettings;
use jetsink::testing::model_stream::DurableConfig;
use jetsink::testing::{Conduct, Step};

use super::{count, publish, settle_and_check, stored_sequences, until, world_with};
use crate::world::{Setup, World};

const ACK_WAIT: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_daemon_with_a_full_disk_does_not_starve_its_sibling() {
    let mut world = World::new(Setup {
        durable: DurableConfig { ack_wait: ACK_WAIT, max_ack_pending: 10_000, ..DurableConfig::default() },
        delivery: DeliverySettings { batch_size: 50, ..DeliverySettings::default() },
        daemons: 2,
        own_warehouses: true,
        ..Setup::default()
    });
    world.start_all();
    world.warehouses[0].set_latency(Duration::from_secs(5));
    world.warehouses[1].set_latency(Duration::from_secs(5));
    publish(&world, 300);
    let both_hold = |world: &World| {
        world.daemons.iter().flatten().all(|daemon| daemon.metrics.in_hand_messages.value() >= 50)
    };
    until(&mut world, Duration::from_secs(60), "both have their share", both_hold).await;
    world.warehouses[0].set_conduct(Conduct::Down);
    for warehouse in &world.warehouses {
        warehouse.set_latency(Duration::from_millis(1));
    }
    let everything =
        |world: &World| world.warehouses.iter().map(jetsink::testing::Warehouse::len).sum::<usize>() >= 300;
    until(&mut world, ACK_WAIT * 2, "the sibling has stored everything", everything).await;
    assert!(!super::is_ready(&world, 0) && super::is_ready(&world, 1));
    settle_and_check(&mut world, ACK_WAIT, HashSet::new(), HashSet::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_lone_daemon_keeps_its_leases_while_the_sink_is_down() {
    let mut world = world_with(
        Setup {
            durable: DurableConfig { ack_wait: ACK_WAIT, ..DurableConfig::default() },
            ..Setup::default()
        },
        100,
    );
    world.warehouses[0].set_latency(Duration::from_secs(2));
    until(&mut world, Duration::from_secs(60), "some are in hand", |world| world.in_hand() >= 50).await;
    world.warehouses[0].set_conduct(Conduct::Down);
    world.pass(ACK_WAIT * 6).await;
    world.warehouses[0].set_conduct(Conduct::Works);
    settle_and_check(&mut world, Duration::from_secs(120), HashSet::new(), HashSet::new()).await;
    let again = count(&world, |step| matches!(step, Step::Delivered { count, .. } if *count > 1));
    assert_eq!(again, 0, "nothing came twice");
}

/// The second delivery comes while the first is written.
async fn second_delivery_in_hand(conduct: Conduct, records: usize) {
    let mut world = world_with(
        Setup {
            durable: DurableConfig { ack_wait: ACK_WAIT, ..DurableConfig::default() },
            guarantee: Guarantee::AtLeastOnce,
            ..Setup::default()
        },
        1,
    );
    world.warehouses[0].set_latency(Duration::from_secs(2));
    world.warehouses[0].set_conduct(conduct);
    until(&mut world, Duration::from_secs(10), "it is in hand", |world| world.in_hand() == 1).await;
    world.server.redeliver_now(1);
    let twice = |world: &World| count(world, |step| matches!(step, Step::Delivered { .. })) == 2;
    until(&mut world, Duration::from_secs(10), "it came twice", twice).await;
    world.pass(Duration::from_secs(1)).await;
    world.warehouses[0].set_conduct(Conduct::Works);
    settle_and_check(&mut world, Duration::from_secs(120), HashSet::new(), HashSet::new()).await;
    assert_eq!(stored_sequences(&world), vec![1; records]);
    let acks = count(&world, |step| matches!(step, Step::Settled { kind: SettlementKind::Ack, .. }));
    assert_eq!(acks, 2, "both deliveries are settled");
}

#[tokio::test(start_paused = true)]
async fn a_second_delivery_shares_the_commit_of_the_first() {
    second_delivery_in_hand(Conduct::Works, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_delivery_shares_the_commit_of_a_retry_of_the_first() {
    second_delivery_in_hand(Conduct::Transient { probe_passes: false }, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_delivery_shares_the_dead_letter_of_the_first() {
    let mut world = World::new(Setup::default());
    world.server.set_dead_letters(jetsink::testing::model_stream::DeadLetterConduct::Missing);
    let bad = HashSet::from([world.publish("src.a", true)]);
    world.start_all();
    until(&mut world, Duration::from_secs(10), "it is in hand", |world| world.in_hand() == 1).await;
    world.server.redeliver_now(1);
    world.pass(Duration::from_secs(10)).await;
    world.server.set_dead_letters(jetsink::testing::model_stream::DeadLetterConduct::Works);
    settle_and_check(&mut world, Duration::from_secs(120), bad, HashSet::new()).await;
    let acks = count(&world, |step| matches!(step, Step::Settled { kind: SettlementKind::Ack, .. }));
    assert_eq!((world.server.dead_letters().len(), acks), (1, 2));
}
