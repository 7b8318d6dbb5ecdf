//! A bad deploy rejects everything: the breaker holds (adr/0015).

use std::collections::HashSet;
use std::time::Duration;

use jetsink::runner::{BreakerSettings, DeliverySettings};
use jetsink::telemetry::NotReady;

use super::{dead_letter_sequences, is_ready, publish, settle_and_check, until};
use crate::world::{Setup, World};

const LIMIT: usize = 20;

fn setup(breaker: Option<BreakerSettings>) -> Setup {
    let delivery =
        DeliverySettings { batch_size: 20, max_in_flight_batches: 2, breaker, ..DeliverySettings::default() };
    Setup { delivery, ..Setup::default() }
}

fn breaker() -> Option<BreakerSettings> {
    Some(BreakerSettings { rejected: LIMIT, of: 50 })
}

fn holds(world: &World) -> bool {
    let daemon = world.daemons[0].as_ref().expect("it runs");
    daemon.health.reasons().iter().any(|(reason, _)| *reason == NotReady::TooManyRejections)
}

#[tokio::test(start_paused = true)]
async fn a_bad_deploy_does_not_empty_the_stream_into_the_dead_letters() {
    let mut world = World::new(setup(breaker()));
    publish(&world, 200);
    let bad: HashSet<_> = (0..1_000).map(|_| world.publish("src.a", true)).collect();
    world.start_all();
    until(&mut world, Duration::from_secs(60), "it holds and says so", holds).await;
    world.pass(Duration::from_secs(1_800)).await;
    assert!(holds(&world));
    assert_eq!(world.warehouses[0].len(), 200, "what came before is in the sink");
    assert_eq!(dead_letter_sequences(&world).len(), LIMIT, "no more than may be");
    // The mistake is mended; the restart judges by the new configuration, which sets no limit here.
    world.stop(0).await;
    world.setup = setup(None);
    world.start_all();
    settle_and_check(&mut world, Duration::from_secs(300), bad, HashSet::new()).await;
    assert_eq!(dead_letter_sequences(&world).len(), 1_000, "each one once");
}

#[tokio::test(start_paused = true)]
async fn after_a_burst_of_bad_messages_it_goes_on_by_itself() {
    let mut world = World::new(setup(breaker()));
    let bad: HashSet<_> = (0..30).map(|_| world.publish("src.a", true)).collect();
    publish(&world, 500);
    world.start_all();
    until(&mut world, Duration::from_secs(60), "it holds and says so", holds).await;
    settle_and_check(&mut world, Duration::from_secs(300), bad, HashSet::new()).await;
    assert_eq!(dead_letter_sequences(&world).len(), 30, "each one once");
    assert_eq!(world.warehouses[0].len(), 500);
    assert!(is_ready(&world, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_it_holds_gives_everything_back() {
    let mut world = World::new(setup(breaker()));
    let bad: HashSet<_> = (0..100).map(|_| world.publish("src.a", true)).collect();
    world.start_all();
    until(&mut world, Duration::from_secs(60), "it holds and says so", holds).await;
    let ended = world.stop(0).await.expect("it stops");
    assert!(ended.drained, "{ended:?}");
    world.setup = setup(None);
    world.start_all();
    settle_and_check(&mut world, Duration::from_secs(300), bad, HashSet::new()).await;
    assert_eq!(dead_letter_sequences(&world).len(), 100, "each one once");
}
