//! Named scenarios: one kind of trouble each, with the exact right outcome.

mod crashes;
mod dead_letters_down;
mod order;
mod several_daemons;
mod sink_trouble;
mod stopping;
mod too_many_rejections;

use std::collections::HashSet;
use std::time::Duration;

use jetsink::envelope::Identity;
use jetsink::testing::Step;
use jetsink::testing::model_stream::DeadLetter;
use tokio::time::{Instant, sleep};

use crate::invariants::{Expectations, check};
use crate::world::{Setup, World};

/// A running world with this many good messages.
fn world_with(setup: Setup, messages: usize) -> World {
    let mut world = World::new(setup);
    publish(&world, messages);
    world.start_all();
    world
}

fn publish(world: &World, messages: usize) -> Vec<Identity> {
    (0..messages).map(|number| world.publish(&format!("src.{}", number % 5), false)).collect()
}

/// Supervises until `reached`, `patience` at most.
async fn until(world: &mut World, patience: Duration, what: &str, reached: impl Fn(&World) -> bool) {
    let give_up = Instant::now() + patience;
    while !reached(world) {
        assert!(Instant::now() < give_up, "not within {patience:?}: {what}");
        world.supervise().await;
        sleep(Duration::from_millis(10)).await;
    }
}

/// Lets everything settle and checks every invariant; `bad` and `doomed` are the messages that may be dead-lettered.
async fn settle_and_check(
    world: &mut World,
    patience: Duration,
    bad: HashSet<Identity>,
    doomed: HashSet<Identity>,
) {
    let began = Instant::now();
    assert!(world.settle_down(patience).await, "not settled within {patience:?}: {:?}", world.server.facts());
    world.journal().note(format!("settled after {:?}", began.elapsed()));
    assert_eq!(world.failures, Vec::<String>::new());
    let expectations = Expectations {
        bad,
        doomed,
        crash_limit: world.setup.delivery.crash_limit,
        max_deliver: world.setup.durable.max_deliver,
        patience: Duration::from_secs(60) + world.setup.durable.ack_wait,
        complete: true,
    };
    let violations = check(&world.journal().entries(), &expectations);
    assert!(violations.is_empty(), "{violations:?}");
}

fn dead_letter_sequences(world: &World) -> Vec<u64> {
    let mut sequences: Vec<_> =
        world.server.dead_letters().iter().map(|letter: &DeadLetter| letter.identity.sequence).collect();
    sequences.sort_unstable();
    sequences
}

fn stored_sequences(world: &World) -> Vec<u64> {
    world.warehouses[0].records().iter().map(|record| record.identity.sequence).collect()
}

fn is_ready(world: &World, slot: usize) -> bool {
    world.daemons[slot].as_ref().is_some_and(|daemon| daemon.health.is_ready())
}

/// How often each thing came about.
fn count(world: &World, pattern: impl Fn(&Step) -> bool) -> usize {
    world.journal().read(|entries| entries.iter().filter(|entry| pattern(&entry.step)).count())
}
