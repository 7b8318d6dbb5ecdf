//! Field case 27: a dead letter may be larger than its original; it still has to fit.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::harness::{Daemon, Rig, RigPlan, ServerKind};

const SOON: Duration = Duration::from_secs(40);
const SIZES: [usize; 5] = [65_536, 65_400, 65_000, 50_000, 2_000];

fn body(size: usize) -> Vec<u8> {
    (0..size).map(|index| b'a' + u8::try_from(index % 23).unwrap()).collect()
}

/// The bodies that the dead letters carry, by the original's sequence: from base64, as they are, or from two parts. `None`: it
/// says that it leaves the body out.
async fn carried_bodies(rig: &Rig) -> BTreeMap<u64, Option<Vec<u8>>> {
    let mut found: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
    for letter in rig.client.messages("DLQ").await {
        let sequence = letter.header("Jetsink-Stream-Sequence").unwrap().parse().unwrap();
        assert_eq!(letter.header("Jetsink-Reason"), Some("payload_too_large"));
        let part = if let Some(part) = letter.header("Jetsink-Part") {
            assert!(["1/2", "2/2"].contains(&part), "{part}");
            Some(letter.payload)
        } else if letter.header("Nats-Sinks-Error-Type").is_some() && letter.payload.starts_with(b"{") {
            let record = letter.json();
            record["payload_base64"].as_str().map(|text| STANDARD.decode(text).unwrap())
        } else {
            Some(letter.payload)
        };
        match (found.entry(sequence).or_insert_with(|| Some(Vec::new())), part) {
            (Some(own), Some(part)) => own.extend(part),
            (own, _) => *own = None,
        }
    }
    found
}

async fn dead_letter_everything(rig: &Rig) {
    for size in SIZES {
        rig.client.publish("src.bad", body(size)).await;
    }
    let good = rig.client.publish("src.good", "{}").await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    rig.drained(SOON).await;
    rig.sink_holds(&[good], SOON).await;
    let metrics = daemon.metrics().await.unwrap();
    assert_eq!(metrics.sum("jetsink_dead_letter_publish_failures_total", &[]), 0.0);
    assert_eq!(metrics.sum("jetsink_connects_total", &[]), 1.0, "nothing was sent that cuts the connection");
    daemon.stop().await;
}

async fn every_size_up_to_the_servers_limit_is_dead_lettered_on(kind: ServerKind) {
    let rig = RigPlan::default().on(kind).start().await;
    dead_letter_everything(&rig).await;
    let bodies = carried_bodies(&rig).await;
    for (sequence, size) in (1..).zip(SIZES) {
        // The source stream keeps its messages, so a body that fits nowhere may be left out; never cut.
        let carried = bodies.get(&sequence).unwrap_or_else(|| panic!("no dead letter of {size} bytes"));
        assert!(carried.as_ref().is_none_or(|carried| *carried == body(size)), "{size} bytes: another body");
        assert!(size > 65_000 || carried.is_some(), "{size} bytes fit");
    }
}

#[tokio::test]
async fn every_size_up_to_the_servers_limit_is_dead_lettered() {
    every_size_up_to_the_servers_limit_is_dead_lettered_on(ServerKind::New).await;
}

#[tokio::test]
async fn every_size_up_to_the_servers_limit_is_dead_lettered_on_an_old_server() {
    every_size_up_to_the_servers_limit_is_dead_lettered_on(ServerKind::Old).await;
}

async fn the_only_copy_of_a_body_is_never_left_out_on(kind: ServerKind) {
    let rig = RigPlan::default().on(kind).source("retention", "workqueue").start().await;
    dead_letter_everything(&rig).await;
    let bodies = carried_bodies(&rig).await;
    for (sequence, size) in (1..).zip(SIZES) {
        assert_eq!(bodies.get(&sequence), Some(&Some(body(size))), "{size} bytes");
    }
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 0);
}

#[tokio::test]
async fn the_only_copy_of_a_body_is_never_left_out() {
    the_only_copy_of_a_body_is_never_left_out_on(ServerKind::New).await;
}

#[tokio::test]
async fn the_only_copy_of_a_body_is_never_left_out_on_an_old_server() {
    the_only_copy_of_a_body_is_never_left_out_on(ServerKind::Old).await;
}
