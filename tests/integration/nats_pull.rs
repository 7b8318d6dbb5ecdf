//! Pulling: what ends a pull in order, what does not, and what a server that comes back means.

use std::time::Duration;

use jetsink::delivery::{Budget, Source as _, SourceError};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{RawClient, Rig, RigPlan, ServerKind, small, stays};
use crate::nats_wire::{bound, pull_until, pull_until_it_ends, source, stream_sequences};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_pull_whose_bytes_are_used_up_is_followed_at_once() {
    let rig = Rig::start().await;
    rig.client.publish_many("src.a", vec![vec![b'x'; 40_000]; 60]).await;
    let (connection, bound) = bound(&rig.server).await;
    // Room for three: the server ends every pull with "Message Size Exceeds MaxBytes".
    let mut source = source(&bound, 100, 140_000).await;
    let (received, refused) = pull_until(&mut source, 60, Duration::from_secs(5)).await;
    assert_eq!(stream_sequences(&received), (1..=60).collect::<Vec<_>>());
    assert!(refused.is_empty(), "{refused:?}");
    connection.close(SOON).await;
}

#[tokio::test]
async fn what_fits_a_smaller_limit_of_the_durable_flows() {
    let rig = RigPlan::default().durable("max_bytes", 2_000).start().await;
    rig.client.publish_many("src.a", small(50)).await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 100, 1 << 20).await;
    let (received, _) = pull_until(&mut source, 50, SOON).await;
    assert_eq!(stream_sequences(&received), (1..=50).collect::<Vec<_>>());
    // The one that does not fit is named, and asked for again without haste.
    rig.client.publish("src.a", vec![b'x'; 5_000]).await;
    let mut refused = Vec::new();
    let watched = timeout(Duration::from_secs(5), async {
        loop {
            refused.extend(source.pull(crate::nats_wire::PLENTY).await.err());
        }
    });
    watched.await.unwrap_err();
    assert!((1..=5).contains(&refused.len()), "{refused:?}");
    assert!(refused[0].to_string().contains("Message Size Exceeds MaxBytes"), "{refused:?}");
}

#[tokio::test]
async fn an_empty_budget_receives_and_asks_for_nothing() {
    let rig = Rig::start().await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 10, 1 << 20).await;
    let opened =
        timeout(Duration::from_millis(500), source.pull(Budget { messages: 4, bytes: 1 << 20 })).await;
    assert!(opened.is_err() && source.open_pulls() == 1, "a pull waits at the server");
    rig.client.publish_many("src.a", small(10)).await;
    let mut received = Vec::new();
    while source.open_pulls() > 0 {
        received.extend(timeout(SOON, source.pull(Budget::default())).await.unwrap().unwrap());
    }
    assert_eq!(stream_sequences(&received), [1, 2, 3, 4]);
    stays(Duration::from_secs(1), "no pull waits at the server", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        if info["num_waiting"] == 0 { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_status_line_that_a_publisher_wrote_is_a_message() {
    let mut plan = RigPlan::default();
    plan.server.kind = ServerKind::Old;
    let rig = plan.start().await;
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_with_block("src.1", b"NATS/1.0 409 Consumer Deleted\r\n\r\n", b"").await;
    rig.client.publish("src.a", "second").await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 10, 1 << 20).await;
    let (received, refused) = pull_until(&mut source, 2, SOON).await;
    assert_eq!(stream_sequences(&received), [1, 2]);
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test]
async fn a_deleted_durable_ends_pulling() {
    let rig = Rig::start().await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 10, 1 << 20).await;
    assert!(timeout(Duration::from_millis(300), source.pull(crate::nats_wire::PLENTY)).await.is_err());
    rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
    let error = pull_until_it_ends(&mut source, SOON).await;
    assert!(matches!(error, SourceError::Gone { .. }), "{error}");
}

#[tokio::test]
async fn a_durable_made_anew_while_the_server_was_away_ends_pulling() {
    let plan = RigPlan::default();
    let mut rig = plan.clone().start().await;
    rig.client.publish_many("src.a", small(3)).await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 10, 1 << 20).await;
    pull_until(&mut source, 3, SOON).await;
    rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
    rig.client.create_consumer("SRC", &plan.durable).await;
    rig.server.kill();
    rig.server.restart().await;
    let error = pull_until_it_ends(&mut source, SOON).await;
    assert!(matches!(error, SourceError::Gone { .. }), "{error}");
}

#[tokio::test]
async fn a_durable_that_comes_back_behind_needs_a_new_client_and_is_not_gone() {
    let mut rig = Rig::start().await;
    rig.server.stop().await;
    let backup = rig.folder().join("backup");
    copy(&rig.server.store(), &backup);
    rig.server.restart().await;
    rig.client.publish_many("src.a", small(3)).await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 10, 1 << 20).await;
    pull_until(&mut source, 3, SOON).await;
    rig.server.kill();
    std::fs::remove_dir_all(rig.server.store()).unwrap();
    copy(&backup, &rig.server.store());
    rig.server.restart().await;
    let error = pull_until_it_ends(&mut source, SOON).await;
    assert!(matches!(error, SourceError::Disconnected { .. }), "{error}");
}

#[tokio::test]
async fn pulling_goes_on_after_an_orderly_restart_of_the_server() {
    let mut rig = Rig::start().await;
    rig.client.publish_many("src.a", small(3)).await;
    let (_connection, bound) = bound(&rig.server).await;
    let mut source = source(&bound, 10, 1 << 20).await;
    pull_until(&mut source, 3, SOON).await;
    rig.server.stop().await;
    rig.server.restart().await;
    // The three come again after their ack wait, and the new ones with them.
    rig.client.publish_many("src.b", small(3)).await;
    let (received, _) = pull_until(&mut source, 6, SOON).await;
    let mut sequences = stream_sequences(&received);
    sequences.sort_unstable();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
    let info = rig.client.consumer_info("SRC", "w").await;
    assert_eq!(info["num_ack_pending"], json!(6));
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A pin id is the server's word only on a durable with a pinned group; on any other one it is a publisher's own header.
#[tokio::test]
async fn a_publishers_own_pin_id_is_data() {
    let rig = Rig::start().await;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Pin-Id", "mine");
    let sequence = rig.client.publish_with("src.a", headers, "{}").await;
    let daemon = rig.daemon();
    rig.sink_holds(&[sequence], SOON).await;
    assert_eq!(crate::harness::records(&rig.sink())[0].json["headers"]["Nats-Pin-Id"], "mine");
    daemon.stop().await;
}
