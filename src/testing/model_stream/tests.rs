use std::time::Duration;

use super::*;
use crate::delivery::{Budget, Confirm, Received, Settled, Source, SourceError, WriteOutcome, write};
use crate::envelope::Headers;
use crate::reason::ReasonCode;
use crate::testing::builders::{HeaderGate, OpenGate, too_large};
use crate::testing::journal::Step;
use crate::testing::scripted_sink::Warehouse;

const BUDGET: Budget = Budget { messages: 100, bytes: 1 << 20 };
const ACK_WAIT: Duration = Duration::from_secs(2);
const EXPIRES: Duration = Duration::from_secs(5);

fn server(durable: DurableConfig) -> ModelServer {
    ModelServer::new(StreamConfig::default(), durable, 1)
}

fn durable() -> DurableConfig {
    DurableConfig { ack_wait: ACK_WAIT, ..DurableConfig::default() }
}

fn publish(server: &ModelServer, count: usize) {
    for _ in 0..count {
        assert!(server.publish("src.a", Headers::new(), "{}").is_some());
    }
}

async fn pull(source: &mut Box<dyn Source>) -> Vec<Received> {
    source.pull(BUDGET).await.unwrap()
}

fn facts_of(deliveries: &[Received]) -> Vec<(u64, u64)> {
    let facts =
        |received: &Received| (received.envelope().stream_sequence, received.envelope().delivery_count);
    deliveries.iter().map(facts).collect()
}

async fn committed(deliveries: Vec<Received>) -> Vec<crate::delivery::Settlement> {
    let admitted = deliveries.into_iter().map(|received| received.admit(&OpenGate).unwrap()).collect();
    let warehouse = Warehouse::new(Journal::open(), crate::delivery::Guarantee::AtLeastOnce);
    let sink = warehouse.open();
    let WriteOutcome { committed, .. } =
        write(admitted, &*sink, crate::delivery::Turn::now(), Duration::from_secs(1), false).await;
    committed.into_iter().map(crate::delivery::Committed::acknowledge).collect()
}

async fn ack(connection: &ModelConnection, deliveries: Vec<Received>) -> Settled {
    let settlements = committed(deliveries).await;
    connection.acker().settle(settlements, Confirm::Last).await
}

#[tokio::test(start_paused = true)]
async fn what_is_not_settled_comes_back_after_the_ack_wait_and_before_what_is_new() {
    let server = server(durable());
    let connection = server.connect(EXPIRES);
    let mut source = connection.source();
    publish(&server, 3);
    let first = pull(&mut source).await;
    assert_eq!(facts_of(&first), [(1, 1), (2, 1), (3, 1)]);
    let began = Instant::now();
    assert!(matches!(ack(&connection, first.into_iter().take(1).collect()).await, Settled::Done));
    let again = pull(&mut source).await;
    assert_eq!(facts_of(&again), [(2, 2), (3, 2)]);
    assert!(began.elapsed() < ACK_WAIT + Duration::from_millis(10));
    tokio::time::advance(ACK_WAIT * 4).await;
    publish(&server, 1);
    let third = pull(&mut source).await;
    assert_eq!(facts_of(&third)[..2], [(2, 3), (3, 3)], "redeliveries come first");
}

#[tokio::test(start_paused = true)]
async fn in_progress_starts_the_ack_wait_anew() {
    let server = server(durable());
    let connection = server.connect(EXPIRES);
    let mut source = connection.source();
    publish(&server, 1);
    let first = pull(&mut source).await;
    for _ in 0..5 {
        tokio::time::sleep(ACK_WAIT / 2).await;
        connection.acker().extend(first.iter().map(Received::lease).collect()).await;
    }
    assert_eq!(server.held_by(connection.id()), 1);
    assert!(matches!(ack(&connection, first).await, Settled::Done));
    assert_eq!(server.facts().unwrap().ack_pending, 0);
    assert_eq!(server.facts().unwrap().ack_floor, 1);
}

#[tokio::test(start_paused = true)]
async fn a_nak_brings_it_back_at_once_and_a_delayed_one_later() {
    let server = server(durable());
    let connection = server.connect(EXPIRES);
    let mut source = connection.source();
    publish(&server, 2);
    let mut first = pull(&mut source).await;
    let (second, first) = (first.pop().unwrap(), first.pop().unwrap());
    let delay = Duration::from_millis(700);
    let naks = vec![first.release(None), second.release(Some(delay))];
    assert!(matches!(connection.acker().settle(naks, Confirm::Nothing).await, Settled::Done));
    let began = Instant::now();
    assert_eq!(facts_of(&pull(&mut source).await), [(1, 2)]);
    assert!(began.elapsed() < Duration::from_millis(2));
    assert_eq!(facts_of(&pull(&mut source).await), [(2, 2)]);
    assert!(began.elapsed() >= delay && began.elapsed() < delay + Duration::from_millis(2));
}

#[tokio::test(start_paused = true)]
async fn max_ack_pending_stops_what_is_new_but_no_redelivery() {
    let server = server(DurableConfig { max_ack_pending: 2, ..durable() });
    let connection = server.connect(EXPIRES);
    let mut source = connection.source();
    publish(&server, 5);
    assert_eq!(facts_of(&pull(&mut source).await), [(1, 1), (2, 1)]);
    assert_eq!(facts_of(&pull(&mut source).await), [(1, 2), (2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn the_last_delivery_is_the_last() {
    for (max_deliver, expected) in [(1, vec![(1, 1)]), (2, vec![(1, 1), (1, 2)])] {
        let server = server(DurableConfig { max_deliver: Some(max_deliver), ..durable() });
        let mut source = server.connect(EXPIRES).source();
        publish(&server, 1);
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.extend(facts_of(&pull(&mut source).await));
        }
        assert_eq!(seen, expected);
        let spent = server.journal().read(|entries| {
            entries.iter().filter(|entry| matches!(entry.step, Step::Exhausted { .. })).count()
        });
        assert_eq!((spent, server.facts().unwrap().ack_pending, server.kept().len()), (1, 0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pull_expires_and_its_end_is_an_empty_answer() {
    let server = server(durable());
    let mut source = server.connect(EXPIRES).source();
    let began = Instant::now();
    assert!(tokio::time::timeout(Duration::from_millis(10), source.pull(BUDGET)).await.is_err());
    assert_eq!(source.open_pulls(), 1);
    assert!(source.pull(Budget::default()).await.unwrap().is_empty());
    assert!(began.elapsed() >= EXPIRES);
    assert_eq!(source.open_pulls(), 0);
    assert_eq!(server.facts().unwrap().waiting_pulls, 0);
}

#[tokio::test(start_paused = true)]
async fn an_empty_budget_asks_for_nothing_but_receives_what_open_pulls_bring() {
    let server = server(durable());
    let mut source = server.connect(EXPIRES).source();
    let none = Budget::default();
    assert!(tokio::time::timeout(Duration::from_millis(10), source.pull(none)).await.is_err());
    assert_eq!(source.open_pulls(), 0);
    assert!(tokio::time::timeout(Duration::from_millis(10), source.pull(BUDGET)).await.is_err());
    assert_eq!(source.open_pulls(), 1, "the dropped future leaves its pull open");
    publish(&server, 2);
    let mut seen = facts_of(&source.pull(none).await.unwrap());
    if seen.len() < 2 {
        seen.extend(facts_of(&source.pull(none).await.unwrap()));
    }
    assert_eq!(seen, [(1, 1), (2, 1)]);
}

#[tokio::test(start_paused = true)]
async fn two_sources_share_the_messages() {
    let server = server(durable());
    let (one, other) = (server.connect(EXPIRES), server.connect(EXPIRES));
    let (mut first, mut second) = (one.source(), other.source());
    let budget = Budget { messages: 2, bytes: 1 << 20 };
    publish(&server, 4);
    let (first, second) = (first.pull(budget).await.unwrap(), second.pull(budget).await.unwrap());
    assert_eq!(facts_of(&first), [(1, 1), (2, 1)]);
    assert_eq!(facts_of(&second), [(3, 1), (4, 1)]);
    assert_eq!((server.held_by(one.id()), server.held_by(other.id())), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_killed_forgetful_server_brings_acked_messages_back_as_first_deliveries() {
    let server = server(DurableConfig { forgetful: true, ..durable() });
    let connection = server.connect(EXPIRES);
    let mut source = connection.source();
    publish(&server, 1);
    let old = pull(&mut source).await;
    assert!(matches!(ack(&connection, old).await, Settled::Done));
    tokio::time::sleep(Duration::from_millis(50)).await;
    publish(&server, 1);
    let young = pull(&mut source).await;
    assert!(matches!(ack(&connection, young).await, Settled::Done));
    server.kill_server();
    server.reconnect_all();
    assert_eq!(facts_of(&pull(&mut source).await), [(2, 1)], "only the last 20 ms are forgotten");
}

#[tokio::test(start_paused = true)]
async fn settlements_of_an_earlier_life_are_dropped() {
    let server = server(durable());
    let old = server.connect(EXPIRES);
    let mut source = old.source();
    publish(&server, 1);
    let first = pull(&mut source).await;
    server.delete_consumer();
    server.create_consumer();
    assert!(matches!(source.pull(BUDGET).await, Err(SourceError::Gone { .. })));
    assert!(matches!(ack(&old, first).await, Settled::Gone));
    let mut again = server.connect(EXPIRES).source();
    assert_eq!(facts_of(&pull(&mut again).await), [(1, 1)]);
    assert_eq!(server.facts().unwrap().ack_pending, 1);
}

#[tokio::test(start_paused = true)]
async fn lost_settlements_are_unconfirmed_and_lost_confirmations_are_settled() {
    for (lost_settlements, pending) in [(1.0, 1), (0.0, 0)] {
        let server = server(durable());
        let connection = server.connect(EXPIRES);
        let mut source = connection.source();
        publish(&server, 1);
        let first = pull(&mut source).await;
        server.set_network(Network { lost_settlements, lost_confirmations: 1.0, ..Network::default() });
        let Settled::Unconfirmed(again) = ack(&connection, first).await else {
            panic!("a confirmation that is lost cannot come")
        };
        assert_eq!(server.facts().unwrap().ack_pending, pending);
        server.set_network(Network::default());
        assert!(matches!(connection.acker().settle(again, Confirm::Last).await, Settled::Done));
        assert_eq!(server.facts().unwrap().ack_pending, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_connection_keeps_its_settlements_and_loses_what_was_on_its_way() {
    let server = server(durable());
    let connection = server.connect(EXPIRES);
    let mut source = connection.source();
    publish(&server, 1);
    let first = pull(&mut source).await;
    publish(&server, 1);
    connection.disconnect();
    assert!(matches!(source.pull(BUDGET).await, Err(SourceError::Again { .. })));
    assert!(matches!(connection.watch().facts().await, Err(SourceError::Again { .. })));
    let held = ack(&connection, first).await;
    assert!(matches!(held, Settled::Unconfirmed(_)));
    connection.reconnect();
    assert_eq!(facts_of(&pull(&mut source).await), [(2, 2)], "the lost delivery was counted");
    assert_eq!(server.facts().unwrap().ack_pending, 1, "what the client kept has arrived");
}

#[tokio::test(start_paused = true)]
async fn a_killed_daemon_has_no_effect_any_more() {
    let server = server(durable());
    let connection = server.connect(EXPIRES);
    let mut source = connection.source();
    publish(&server, 1);
    let first = pull(&mut source).await;
    let settlements = committed(first).await;
    connection.kill();
    let acker = connection.acker();
    let hung = tokio::time::timeout(Duration::from_secs(60), acker.settle(settlements, Confirm::Last)).await;
    assert!(hung.is_err());
    assert!(tokio::time::timeout(Duration::from_secs(60), source.pull(BUDGET)).await.is_err());
    assert_eq!(facts_of(&pull(&mut server.connect(EXPIRES).source()).await), [(1, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_roll_back_gives_old_sequences_to_new_messages() {
    let server = server(durable());
    publish(&server, 1);
    let snapshot = server.snapshot();
    publish(&server, 1);
    let before = server.kept();
    server.roll_back(snapshot);
    publish(&server, 1);
    let after = server.kept();
    assert_eq!(before[0], after[0]);
    assert_eq!(before[1].sequence, after[1].sequence);
    assert_ne!(before[1], after[1]);
    let removed = server.journal().read(|entries| {
        entries.iter().filter(|entry| entry.step == Step::Removed { identity: before[1] }).count()
    });
    assert_eq!(removed, 1);
}

#[tokio::test(start_paused = true)]
async fn work_queue_limits_and_purge_remove_messages() {
    let stream = StreamConfig { retention: Retention::WorkQueue, ..StreamConfig::default() };
    let queue = ModelServer::new(stream, durable(), 1);
    let connection = queue.connect(EXPIRES);
    publish(&queue, 2);
    let first = pull(&mut connection.source()).await;
    assert!(matches!(ack(&connection, first.into_iter().take(1).collect()).await, Settled::Done));
    assert_eq!(queue.kept().len(), 1);
    queue.purge();
    assert_eq!((queue.kept().len(), queue.facts().unwrap().ack_pending), (0, 0));

    let stream = StreamConfig { max_messages: Some(2), ..StreamConfig::default() };
    let limited = ModelServer::new(stream, durable(), 1);
    publish(&limited, 5);
    assert_eq!(limited.kept().iter().map(|own| own.sequence).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(limited.facts().unwrap().pending, 2);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_confirmed_once_and_refused_as_told() {
    let server = server(durable());
    let connection = server.connect(EXPIRES);
    let publisher = connection.publisher();
    let envelope = crate::testing::builders::envelope(7).header(HeaderGate::HEADER, "1").build();
    let at = crate::clock::Timestamp(0);
    for conduct in [
        DeadLetterConduct::Missing,
        DeadLetterConduct::Full,
        DeadLetterConduct::Silent,
        DeadLetterConduct::AnswerLost,
    ] {
        server.set_dead_letters(conduct);
        assert!(publisher.publish(&envelope, &too_large(), at).await.is_err(), "{conduct:?}");
    }
    server.set_dead_letters(DeadLetterConduct::Works);
    let receipt = publisher.publish(&envelope, &too_large(), at).await.unwrap();
    assert!(receipt.duplicate, "the one whose answer was lost is there");
    assert_eq!(server.dead_letters().len(), 1);
    assert_eq!(server.dead_letters()[0].reason, ReasonCode::PayloadTooLarge);
}

#[tokio::test(start_paused = true)]
async fn a_message_can_come_again_while_it_is_in_hand() {
    let server = server(durable());
    let connection = server.connect(EXPIRES);
    let mut source = connection.source();
    publish(&server, 1);
    let first = pull(&mut source).await;
    server.redeliver_now(1);
    let second = pull(&mut source).await;
    assert_eq!(facts_of(&second), [(1, 2)]);
    assert!(matches!(ack(&connection, first).await, Settled::Done), "either settles the message");
    assert_eq!(server.facts().unwrap().ack_pending, 0);
}
