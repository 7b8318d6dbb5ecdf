//! The order in which records become durable.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jetsink::runner::{DeliverySettings, Order};
use jetsink::testing::{Conduct, RecordFault};

use super::{publish, settle_and_check, stored_sequences, world_with};
use crate::world::{Setup, World};

fn setup(order: Order, strict: bool) -> Setup {
    Setup {
        delivery: DeliverySettings { batch_size: 20, order, strict, ..DeliverySettings::default() },
        ..Setup::default()
    }
}

/// Subjects are `src.0` to `src.4` in turn.
fn by_subject(world: &World) -> BTreeMap<u64, Vec<u64>> {
    let mut subjects: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for sequence in stored_sequences(world) {
        subjects.entry(sequence % 5).or_default().push(sequence);
    }
    subjects
}

#[tokio::test(start_paused = true)]
async fn without_trouble_records_are_stored_in_the_order_of_the_stream() {
    let mut world = world_with(setup(Order::Stream, false), 2_000);
    settle_and_check(&mut world, Duration::from_secs(60), HashSet::new(), HashSet::new()).await;
    assert!(stored_sequences(&world).is_sorted());
}

#[tokio::test(start_paused = true)]
async fn without_trouble_records_of_one_subject_are_stored_in_order() {
    let mut world = world_with(setup(Order::Subject, false), 2_000);
    settle_and_check(&mut world, Duration::from_secs(60), HashSet::new(), HashSet::new()).await;
    assert!(by_subject(&world).values().all(|sequences| sequences.is_sorted()));
}

/// Records fail for a while, the sink fails, and the order stays.
async fn strict_order_survives(order: Order, is_sorted: impl Fn(&World) -> bool) {
    let mut world = World::new(setup(order, true));
    publish(&world, 500);
    let faulty: Vec<u64> = (7..500).step_by(31).collect();
    for &sequence in &faulty {
        let fault = if sequence % 2 == 0 { RecordFault::TransientTimes(2) } else { RecordFault::Refused };
        world.warehouses[0].set_record_fault(sequence, Some(fault));
    }
    world.start_all();
    for conduct in [
        Conduct::Transient { probe_passes: true },
        Conduct::StoresHalf,
        Conduct::Down,
        Conduct::StoresHalf,
        Conduct::Works,
    ] {
        world.warehouses[0].set_conduct(conduct);
        world.pass(Duration::from_secs(5)).await;
    }
    let refused = world
        .server
        .kept()
        .into_iter()
        .filter(|identity| identity.sequence % 2 == 1 && faulty.contains(&identity.sequence))
        .collect();
    settle_and_check(&mut world, Duration::from_secs(900), HashSet::new(), refused).await;
    assert!(is_sorted(&world), "{:?}", stored_sequences(&world));
}

#[tokio::test(start_paused = true)]
async fn strict_keeps_the_order_of_the_stream_through_trouble() {
    strict_order_survives(Order::Stream, |world| stored_sequences(world).is_sorted()).await;
}

#[tokio::test(start_paused = true)]
async fn strict_keeps_the_order_of_each_subject_through_trouble() {
    let sorted = |world: &World| by_subject(world).values().all(|sequences| sequences.is_sorted());
    strict_order_survives(Order::Subject, sorted).await;
}

#[tokio::test(start_paused = true)]
async fn strict_keeps_the_order_while_a_refused_record_is_searched() {
    let mut world = World::new(setup(Order::Stream, true));
    let messages = publish(&world, 200);
    world.warehouses[0].set_record_fault(50, Some(RecordFault::RefusedSomewhere));
    world.warehouses[0].set_record_fault(45, Some(RecordFault::TransientTimes(3)));
    world.start_all();
    settle_and_check(&mut world, Duration::from_secs(300), HashSet::new(), HashSet::from([messages[49]]))
        .await;
    assert!(stored_sequences(&world).is_sorted(), "{:?}", stored_sequences(&world));
    assert_eq!(world.warehouses[0].len(), 199);
}
