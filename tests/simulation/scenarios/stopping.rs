//! The orderly stop.

use std::collections::HashSet;
use std::time::Duration;

use jetsink::runner::{DeliverySettings, Ended};
use jetsink::testing::{Conduct, Step};
use tokio::time::Instant;

use super::{count, settle_and_check, until, world_with};
use crate::world::{Setup, World};

const SHUTDOWN: Duration = Duration::from_secs(25);

fn setup() -> Setup {
    Setup {
        delivery: DeliverySettings {
            batch_size: 50,
            shutdown_timeout: SHUTDOWN,
            ..DeliverySettings::default()
        },
        ..Setup::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_full_flow_writes_what_is_in_hand_and_repeats_nothing() {
    let mut world = world_with(setup(), 3_000);
    world.warehouses[0].set_latency(Duration::from_millis(20));
    until(&mut world, Duration::from_secs(60), "full flow", |world| world.warehouses[0].len() >= 500).await;
    let ended = world.stop(0).await;
    assert_eq!(ended, Some(Ended { drained: true, unfinished: 0 }));
    assert_eq!(world.server.facts().map(|facts| facts.ack_pending), Some(0));
    world.start(0);
    settle_and_check(&mut world, Duration::from_secs(120), HashSet::new(), HashSet::new()).await;
    let again = count(&world, |step| matches!(step, Step::Delivered { count, .. } if *count > 1));
    assert_eq!(again, 0, "an orderly stop spends no delivery");
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_a_sink_that_hangs_ends_in_time_and_loses_nothing() {
    let mut world = world_with(setup(), 300);
    until(&mut world, Duration::from_secs(60), "some are stored", |world| world.warehouses[0].len() >= 30)
        .await;
    world.warehouses[0].set_conduct(Conduct::Hangs);
    until(&mut world, Duration::from_secs(60), "some are in hand", |world| world.in_hand() >= 30).await;
    let began = Instant::now();
    let ended = world.stop(0).await.expect("it stops");
    assert!(began.elapsed() <= SHUTDOWN + Duration::from_millis(1), "{:?}", began.elapsed());
    assert!(!ended.drained && ended.unfinished > 0, "{ended:?}");
    world.warehouses[0].set_conduct(Conduct::Works);
    world.start(0);
    settle_and_check(&mut world, Duration::from_secs(300), HashSet::new(), HashSet::new()).await;
    assert_eq!(world.warehouses[0].len(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_stop_on_hold_gives_everything_back_at_once() {
    let mut world = world_with(setup(), 300);
    world.warehouses[0].set_latency(Duration::from_secs(1));
    until(&mut world, Duration::from_secs(60), "some are in hand", |world| world.in_hand() >= 30).await;
    world.warehouses[0].set_conduct(Conduct::Down);
    let holds = |world: &World| !super::is_ready(world, 0);
    until(&mut world, Duration::from_secs(30), "it holds", holds).await;
    let ended = world.stop(0).await;
    assert_eq!(ended, Some(Ended { drained: true, unfinished: 0 }));
    world.warehouses[0].set_conduct(Conduct::Works);
    let began = Instant::now();
    world.start(0);
    settle_and_check(&mut world, Duration::from_secs(60), HashSet::new(), HashSet::new()).await;
    assert!(began.elapsed() < world.setup.durable.ack_wait, "nobody waits for an ack wait");
}
