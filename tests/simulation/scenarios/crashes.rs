//! Daemons that die.

use std::collections::HashSet;
use std::time::Duration;

use jetsink::delivery::Guarantee;
use jetsink::disposition::Rng;
use jetsink::reason::ReasonCode;
use jetsink::testing::Step;
use jetsink::testing::model_stream::{DurableConfig, Network};
use tokio::time::Instant;

use super::{count, dead_letter_sequences, publish, settle_and_check, until, world_with};
use crate::world::{Setup, World};

const ACK_WAIT: Duration = Duration::from_secs(10);

fn setup() -> Setup {
    Setup {
        durable: DurableConfig { ack_wait: ACK_WAIT, max_ack_pending: 10_000, ..DurableConfig::default() },
        ..Setup::default()
    }
}

#[tokio::test(start_paused = true)]
async fn three_crashes_with_two_thousand_in_hand_are_no_livelock() {
    let mut world = world_with(setup(), 2_000);
    for crash in 0..3 {
        world.warehouses[0].set_latency(Duration::from_secs(60));
        let loaded = |world: &World| {
            let pending = world.server.facts().map_or(0, |facts| facts.ack_pending);
            // The third life is on probation: it takes one message at a time.
            pending == 2_000 && world.in_hand() >= if crash == 2 { 1 } else { 1_000 }
        };
        if crash == 0 {
            until(&mut world, Duration::from_secs(600), "2,000 in hand", |world| world.in_hand() >= 2_000)
                .await;
        } else {
            until(&mut world, Duration::from_secs(600), "many in hand again", loaded).await;
        }
        world.crash(0, Duration::from_secs(1));
        world.pass(Duration::from_secs(1)).await;
    }
    world.warehouses[0].set_latency(Duration::from_millis(1));
    let began = Instant::now();
    settle_and_check(&mut world, Duration::from_secs(300), HashSet::new(), HashSet::new()).await;
    assert!(began.elapsed() < ACK_WAIT * 2 + Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(dead_letter_sequences(&world), Vec::<u64>::new());
    assert_eq!(world.warehouses[0].len(), 2_000);
}

/// One message kills whoever reads it; its neighbours must not pay.
async fn poison(neighbours: usize, position: usize) {
    let mut world = World::new(setup());
    let messages = publish(&world, neighbours + 1);
    let poison = messages[position];
    world.poison.insert(poison.sequence);
    world.start_all();
    settle_and_check(&mut world, Duration::from_secs(3_600), HashSet::new(), HashSet::from([poison])).await;
    assert_eq!(dead_letter_sequences(&world), [poison.sequence]);
    assert_eq!(world.server.dead_letters()[0].reason, ReasonCode::SuspectedCrash);
    assert_eq!(world.warehouses[0].len(), neighbours);
    let limit = usize::try_from(world.setup.delivery.crash_limit).expect("a small number");
    assert_eq!(world.crashes, limit - 1, "the delivery that reaches the limit is not read any more");
}

#[tokio::test(start_paused = true)]
async fn poison_is_dead_lettered_at_the_crash_limit_and_its_neighbours_are_not() {
    poison(50, 25).await;
}

#[tokio::test(start_paused = true)]
async fn poison_at_the_head_is_dead_lettered_and_its_neighbours_are_not() {
    poison(1_000, 0).await;
}

#[tokio::test(start_paused = true)]
async fn poison_in_a_flood_is_dead_lettered_and_its_neighbours_are_not() {
    poison(3_000, 1_500).await;
}

#[tokio::test(start_paused = true)]
async fn neighbours_of_poison_pay_nothing_while_other_messages_keep_coming() {
    for (crash_limit, seed) in [(10, 1), (10, 2), (4, 3), (3, 4), (3, 5)] {
        let mut setup = Setup { seed, ..setup() };
        setup.delivery.crash_limit = crash_limit;
        let mut world = World::new(setup);
        let messages = publish(&world, 20);
        let poison = messages[3];
        world.poison.insert(poison.sequence);
        world.start_all();
        let end = Instant::now() + Duration::from_secs(1_800);
        while world.server.dead_letters().is_empty() && Instant::now() < end {
            publish(&world, 1);
            world.pass(Duration::from_millis(200)).await;
        }
        settle_and_check(&mut world, Duration::from_secs(600), HashSet::new(), HashSet::from([poison])).await;
        assert_eq!(dead_letter_sequences(&world), [poison.sequence], "crash limit {crash_limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn poison_anywhere_is_dead_lettered_and_its_neighbours_are_not() {
    for seed in 1..=40 {
        let mut rng = Rng::seeded(seed);
        let neighbours = usize::try_from(5 + rng.below(400)).expect("a small number");
        let position = usize::try_from(rng.below(neighbours as u64)).expect("a small number");
        poison(neighbours, position).await;
    }
}

/// Every message arrives up to the crash limit although it is stored, since no ack gets through.
async fn acks_never_arrive(guarantee: Guarantee) -> World {
    let mut setup = setup();
    setup.guarantee = guarantee;
    setup.delivery.crash_limit = 4;
    let mut world = world_with(setup, 20);
    world.server.set_network(Network { lost_settlements: 1.0, ..Network::default() });
    for _ in 0..4 {
        world.pass(ACK_WAIT / 2).await;
        world.crash(0, ACK_WAIT);
        world.pass(ACK_WAIT + Duration::from_secs(1)).await;
    }
    world.server.set_network(Network::default());
    let arrivals = |world: &World| count(world, |step| matches!(step, Step::Delivered { count: 4.., .. }));
    until(&mut world, ACK_WAIT * 3, "the crash limit is reached", |world| arrivals(world) > 0).await;
    settle_and_check(&mut world, Duration::from_secs(300), HashSet::new(), HashSet::new()).await;
    world
}

#[tokio::test(start_paused = true)]
async fn what_the_sink_remembers_is_no_suspected_crash() {
    let world = acks_never_arrive(Guarantee::EffectivelyOnce).await;
    assert_eq!(dead_letter_sequences(&world), Vec::<u64>::new());
    assert_eq!(world.warehouses[0].len(), 20);
}

#[tokio::test(start_paused = true)]
async fn what_the_sink_forgets_is_stored_or_dead_lettered() {
    let world = acks_never_arrive(Guarantee::AtLeastOnce).await;
    let suspected = world.server.dead_letters();
    assert!(!suspected.is_empty(), "without a memory nobody can tell it from a crash");
    assert!(suspected.iter().all(|letter| letter.reason == ReasonCode::SuspectedCrash));
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_server_forgets_is_not_stored_twice_by_a_sink_with_a_memory() {
    let mut setup = setup();
    setup.durable.forgetful = true;
    setup.guarantee = Guarantee::EffectivelyOnce;
    let mut world = world_with(setup, 500);
    until(&mut world, Duration::from_secs(60), "some are stored", |world| world.warehouses[0].len() >= 100)
        .await;
    world.server.kill_server();
    world.pass(Duration::from_secs(1)).await;
    world.server.reconnect_all();
    settle_and_check(&mut world, Duration::from_secs(120), HashSet::new(), HashSet::new()).await;
    assert_eq!(world.warehouses[0].len(), 500);
}
