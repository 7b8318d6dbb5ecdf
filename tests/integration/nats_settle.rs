//! Settling: what is confirmed, what belongs to an earlier life, and what a closing connection must not lose.

use std::time::Duration;

use async_nats::HeaderMap;
use jetsink::delivery::{Acker as _, Confirm, Received, Settled, Settlement};
use jetsink::nats::NatsAcker;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{Rig, RigPlan, eventually, small, stays};
use crate::nats_wire::{bound, pull_until, source};

const SOON: Duration = Duration::from_secs(20);
const MINUTE: Duration = Duration::from_secs(60);

/// Messages that may be acknowledged without a sink: they look like a stream's own deletion markers.
async fn publish_markers(rig: &Rig, count: usize) {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Marker-Reason", "MaxAge");
    for _ in 0..count {
        rig.client.publish_with("src.a", headers.clone(), "").await;
    }
}

fn acks(received: Vec<Received>) -> Vec<Settlement> {
    received.into_iter().map(|delivery| delivery.into_marker(true).unwrap().acknowledge()).collect()
}

async fn ack_pending(rig: &Rig) -> Value {
    rig.client.consumer_info("SRC", "w").await["num_ack_pending"].clone()
}

#[tokio::test]
async fn every_way_to_confirm_settles_all() {
    let rig = Rig::start().await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 1000, 1 << 20).await;
    let acker = NatsAcker::new(&bound);
    for confirm in [Confirm::Last, Confirm::Every] {
        publish_markers(&rig, 300).await;
        let (received, _) = pull_until(&mut source, 300, SOON).await;
        let settled = acker.settle(acks(received), confirm).await;
        assert!(matches!(settled, Settled::Done), "{settled:?}");
        assert_eq!(ack_pending(&rig).await, 0, "{confirm:?}");
    }
}

#[tokio::test]
async fn an_ack_to_a_deleted_durable_is_not_confirmed_but_gone() {
    for confirm in [Confirm::Last, Confirm::Every] {
        let rig = Rig::start().await;
        publish_markers(&rig, 5).await;
        let (_connection, bound) = bound(&rig.server).await;
        let (received, _) = pull_until(&mut source(&bound, 5, 1 << 20).await, 5, SOON).await;
        rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
        let settled = NatsAcker::new(&bound).settle(acks(received), confirm).await;
        assert!(matches!(settled, Settled::Gone), "{confirm:?}: {settled:?}");
    }
}

#[tokio::test]
async fn no_ack_of_an_earlier_life_reaches_the_next_one() {
    let plan = RigPlan::default();
    let mut rig = plan.clone().start().await;
    publish_markers(&rig, 5).await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 5, 1 << 20).await;
    let (received, _) = pull_until(&mut source, 5, SOON).await;
    rig.client.api("STREAM.DELETE.SRC", &Value::Null).await;
    plan_again(&rig, &plan).await;
    rig.server.kill();
    rig.server.restart().await;
    let acker = NatsAcker::new(&bound);
    let mut rest = acks(received);
    let settled = loop {
        // Without a connection nothing is known, and nothing is sent.
        match acker.settle(rest, Confirm::Last).await {
            Settled::Unconfirmed(unsettled) => rest = unsettled,
            settled @ (Settled::Done | Settled::Gone) => break settled,
        }
    };
    assert!(matches!(settled, Settled::Gone), "{settled:?}");
    let info = rig.client.consumer_info("SRC", "w").await;
    assert_eq!((&info["num_pending"], &info["ack_floor"]["stream_seq"]), (&json!(5), &json!(0)));
}

async fn plan_again(rig: &Rig, plan: &RigPlan) {
    rig.client.create_stream(&plan.source).await;
    rig.client.create_consumer("SRC", &plan.durable).await;
    rig.client.publish_many("src.new", small(5)).await;
}

#[tokio::test]
async fn a_server_that_is_away_leaves_everything_unconfirmed_and_takes_it_later() {
    let plan = RigPlan::default().durable("ack_wait", 60_000_000_000_u64);
    let mut rig = plan.start().await;
    publish_markers(&rig, 20).await;
    let (_connection, bound) = bound(&rig.server).await;
    let (received, _) = pull_until(&mut source(&bound, 20, 1 << 20).await, 20, SOON).await;
    let acker = NatsAcker::new(&bound);
    rig.server.stop().await;
    let Settled::Unconfirmed(rest) = acker.settle(acks(received), Confirm::Last).await else {
        panic!("nobody can have confirmed that");
    };
    assert_eq!(rest.len(), 20);
    rig.server.restart().await;
    let mut rest = Some(rest);
    eventually(SOON, "the server confirms", async || {
        match acker.settle(rest.take().unwrap(), Confirm::Last).await {
            Settled::Done => Ok(()),
            Settled::Unconfirmed(unsettled) => {
                rest = Some(unsettled);
                Err("unconfirmed".into())
            }
            Settled::Gone => panic!("the durable is the same"),
        }
    })
    .await;
    assert_eq!(ack_pending(&rig).await, 0);
}

#[tokio::test]
async fn a_closing_connection_loses_no_ack() {
    let plan = RigPlan::default().durable("ack_wait", 60_000_000_000_u64);
    let rig = plan.start().await;
    publish_markers(&rig, 500).await;
    let (connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 500, 1 << 20).await;
    let (received, _) = pull_until(&mut source, 500, SOON).await;
    // Unread data on the socket: a close without a round trip is a reset then.
    rig.client.publish_many("src.unread", small(200)).await;
    let settled = NatsAcker::new(&bound).settle(acks(received), Confirm::Nothing).await;
    assert!(matches!(settled, Settled::Done), "{settled:?}");
    connection.close(SOON).await;
    drop(source);
    eventually(SOON, "the server has every ack", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        if info["ack_floor"]["stream_seq"] == 500 { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_delayed_nak_waits_as_asked_on_a_durable_with_back_off() {
    let steps = json!([1_000_000_000_u64, 3_000_000_000_u64, 3_000_000_000_u64]);
    let rig = RigPlan::default().durable("backoff", steps).start().await;
    rig.client.publish_many("src.a", small(1)).await;
    let (_connection, bound) = bound(&rig.server).await;
    assert_eq!(bound.ack_wait, Duration::from_secs(1));
    let mut source = source(&bound, 10, 1 << 20).await;
    let acker = NatsAcker::new(&bound);
    let mut waits = Vec::new();
    for delay in [500, 2_500] {
        let (received, _) = pull_until(&mut source, 1, SOON).await;
        let naks = received.into_iter().map(|one| one.release(Some(Duration::from_millis(delay)))).collect();
        let began = Instant::now();
        assert!(matches!(acker.settle(naks, Confirm::Last).await, Settled::Done));
        let (again, _) = pull_until(&mut source, 1, SOON).await;
        waits.push(began.elapsed());
        let naks = again.into_iter().map(|one| one.release(None)).collect();
        assert!(matches!(acker.settle(naks, Confirm::Last).await, Settled::Done));
    }
    // The second is asked for at the third delivery, where the server adds two seconds.
    for (wait, asked) in waits.iter().zip([500, 2_500]) {
        let asked = Duration::from_millis(asked);
        assert!(*wait > asked.mul_f64(0.8) && *wait < asked + Duration::from_millis(900), "{waits:?}");
    }
}

#[tokio::test]
async fn a_lease_that_is_extended_keeps_the_delivery_ours() {
    let rig = Rig::start().await;
    rig.client.publish_many("src.a", small(3)).await;
    let (_connection, bound) = bound(&rig.server).await;
    let (received, _) = pull_until(&mut source(&bound, 3, 1 << 20).await, 3, SOON).await;
    let acker = NatsAcker::new(&bound);
    let mut redelivered_to_another = source(&bound, 3, 1 << 20).await;
    stays(Duration::from_secs(5), "nothing is delivered again (ack wait 2 s)", async || {
        acker.extend(received.iter().map(Received::lease).collect()).await;
        let pull = jetsink::delivery::Source::pull(&mut redelivered_to_another, crate::nats_wire::PLENTY);
        match tokio::time::timeout(Duration::from_millis(200), pull).await {
            Ok(Ok(again)) if !again.is_empty() => Err(format!("{again:?}")),
            Ok(_) | Err(_) => Ok(()),
        }
    })
    .await;
    let naks = received.into_iter().map(|delivery| delivery.release(Some(MINUTE))).collect();
    assert!(matches!(acker.settle(naks, Confirm::Every).await, Settled::Done));
}
