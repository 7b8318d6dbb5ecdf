//! Pairs of looks.

use super::*;

fn look(retention: &str) -> Look {
    let mut look = Look::default();
    look.stream.config.name = "S".into();
    look.stream.config.retention = retention.into();
    look.stream.config.discard = "new".into();
    look.durable.name = "w".into();
    look.stream.state.consumer_count = 1;
    look
}

fn codes(told: &Told) -> Vec<&'static str> {
    told.notices.iter().map(|notice| notice.code).collect()
}

/// A first look, then one that differs; gives what the second tells.
fn second(retention: &str, first: impl Fn(&mut Look), then: impl Fn(&mut Look)) -> Told {
    let mut watch = Watch::default();
    let mut one = look(retention);
    first(&mut one);
    assert!(codes(&watch.take(one.clone())).is_empty());
    let mut two = one;
    two.at += Duration::from_secs(10);
    then(&mut two);
    watch.take(two)
}

#[test]
fn publishes_that_vanish_are_counted_at_every_look_and_said_once() {
    let mut watch = Watch::default();
    let mut now = look("interest");
    watch.take(now.clone());
    now.stream.state.last_seq = 5;
    now.stream.state.first_seq = 6;
    let told = watch.take(now.clone());
    assert_eq!((told.vanished, codes(&told)), (5, vec!["publishes_vanish"]));
    now.stream.state.last_seq = 7;
    let told = watch.take(now.clone());
    assert_eq!((told.vanished, codes(&told)), (2, vec![]));
    now.durable.delivered.consumer_seq = 2;
    now.stream.state.last_seq = 9;
    assert_eq!(watch.take(now).vanished, 0, "delivered and settled at once");
}

#[test]
fn limits_are_said_at_steps_and_forgotten_when_they_ease() {
    let mut watch = Watch::default();
    let mut now = look("limits");
    now.stream.config.max_msgs = 100;
    let mut at = |messages| {
        now.stream.state.messages = messages;
        let told = watch.take(now.clone());
        (codes(&told).len(), told.fill[0])
    };
    let seen: Vec<_> = [10, 85, 86, 95, 75, 60, 81].map(&mut at).to_vec();
    assert_eq!(seen, [(0, 10), (1, 85), (0, 86), (1, 95), (0, 75), (1, 60), (1, 81)]);
}

#[test]
fn a_work_queue_whose_first_message_stands_is_said_after_a_minute() {
    let mut watch = Watch::default();
    let mut now = look("workqueue");
    now.stream.state.messages = 3;
    now.stream.state.first_seq = 1;
    now.durable.ack_floor.stream_seq = 9;
    let mut after = |seconds| {
        now.at = Duration::from_secs(seconds);
        codes(&watch.take(now.clone())).len()
    };
    assert_eq!([0, 30, 61, 90].map(&mut after), [0, 0, 1, 0]);
}

#[test]
fn messages_deleted_in_flight_are_named() {
    let in_flight = |look: &mut Look| {
        look.stream.state.first_seq = 1;
        look.durable.num_ack_pending = 5;
        look.durable.ack_floor.stream_seq = 2;
        look.durable.delivered.stream_seq = 7;
    };
    let told = second("limits", in_flight, |look| {
        look.stream.state.num_deleted = 2;
        look.deleted = vec![1, 4];
    });
    assert_eq!((told.deleted_in_flight, codes(&told)), (1, vec!["deleted_in_flight"]));
    assert!(told.notices[0].text.ends_with(": 4"), "{:?}", told.notices);
    let told = second("limits", in_flight, |look| look.stream.state.first_seq = 5);
    assert_eq!(told.deleted_in_flight, 2, "3 and 4, from the front");
    let told = second("workqueue", in_flight, |look| look.stream.state.first_seq = 5);
    assert_eq!(told.deleted_in_flight, 0, "there settled messages go");
}

#[test]
fn messages_removed_before_they_were_read_are_counted() {
    let behind = |look: &mut Look| {
        look.stream.state.first_seq = 1;
        look.durable.num_pending = 100;
        look.durable.delivered.stream_seq = 10;
    };
    let told = second("limits", behind, |look| look.stream.state.first_seq = 31);
    assert_eq!((told.removed_unread, codes(&told)), (20, vec!["removed_unread"]));
}

#[test]
fn the_ack_floors_age_counts_only_while_something_is_open() {
    let mut watch = Watch::default();
    let mut now = look("limits");
    let mut at = |seconds, open| {
        now.at = Duration::from_secs(seconds);
        now.durable.num_pending = open;
        watch.take(now.clone()).ack_floor_age.as_secs()
    };
    assert_eq!(
        [(0, 0), (100, 5), (130, 5), (140, 0)].map(|(seconds, open)| at(seconds, open)),
        [0, 0, 30, 0]
    );
}

#[test]
fn what_changed_is_said_once() {
    let lead = |name: &str| Some(crate::preflight::LeaderFacts { leader: name.into() });
    let told = second(
        "limits",
        |look| look.stream.cluster = lead("a"),
        |look| {
            look.stream.cluster = lead("b");
            look.stream.state.consumer_count = 2;
            look.durable.paused = true;
            (look.durable.num_ack_pending, look.durable.config.max_ack_pending) = (10, 10);
        },
    );
    assert_eq!(told.leader_changes, 1);
    let expected =
        ["consumer_count", "leader_change", "durable_changed", "durable_paused", "ack_pending_at_limit"];
    assert_eq!(codes(&told), expected);
}
