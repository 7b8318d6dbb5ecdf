//! `jetsink permissions`: daemon, tools and check under exactly the block that it prints.

use std::fs;
use std::time::Duration;

use async_nats::ConnectOptions;
use serde_json::json;

use super::bench::Bench;
use crate::harness::{
    Client, Daemon, RawClient, ServerKind, Settings, eventually, oversized, sequences, small,
};

const SOON: Duration = Duration::from_secs(60);
/// A header block that ends the connection of whoever is handed it.
const BROKEN: &[u8] = b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n";

/// A server on which user `jetsink` may do what the block says, and nothing else; the settings sign in as that user.
pub(super) async fn restricted(bench: &mut Bench, settings: &mut Settings, block: &str) {
    let users = format!(
        "max_payload: 65536\nauthorization {{ users: [\n{{ user: admin, password: secret-of-admin }}\n\
         {{ user: jetsink, password: secret-of-jetsink, {block} }}\n] }}"
    );
    bench.server.configure(&users);
    bench.server.stop().await;
    bench.server.restart().await;
    let options = ConnectOptions::with_user_and_password("admin".into(), "secret-of-admin".into());
    bench.client = Client::connect(&bench.server, options).await;
    let password = bench.folder().join("password");
    fs::write(&password, "secret-of-jetsink\n").unwrap();
    settings.set("nats.user", "jetsink").set("nats.password_file", password.to_str().unwrap());
}

async fn prepared(kind: ServerKind, whom: &str) -> (Bench, Settings) {
    let mut bench = Bench::start(kind).await;
    bench.stream("A", json!({})).await;
    let mut settings = bench.settings("A");
    settings
        .set("consumer.mode", "create_if_missing")
        .set("consumer.expires", "1s")
        .set("nats.inbox_prefix", "_INBOX_jetsink")
        .set("dead_letter.stream", "DLQ")
        .set("dead_letter.subject_tokens", vec!["stage", "reason"])
        .set("size_policy.max_payload_bytes", "1 KiB");
    let block = bench.run(&settings, &["permissions", "--for", whom]).await.fine().text();
    restricted(&mut bench, &mut settings, &block).await;
    (bench, settings)
}

async fn drained(bench: &Bench) {
    eventually(SOON, "the durable is drained", async || {
        let info = bench.client.consumer_info("A", "w").await;
        let left = info["num_pending"].as_u64().unwrap() + info["num_ack_pending"].as_u64().unwrap();
        if left == 0 { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn the_daemon_runs_under_exactly_the_permissions_that_are_printed() {
    // Isolating takes its time: both side by side.
    tokio::join!(runs_restricted(ServerKind::New), runs_restricted(ServerKind::Old));
}

async fn runs_restricted(kind: ServerKind) {
    let (mut bench, settings) = prepared(kind, "daemon").await;
    let good = bench.client.publish_many("a.good", small(20)).await;
    bench.client.publish_many("a.bad", oversized(3)).await;
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    drained(&bench).await;
    bench.server.stop().await;
    bench.server.restart().await;
    let more = bench.client.publish_many("a.good", small(5)).await;
    drained(&bench).await;
    let mut raw = RawClient::connect_as(&bench.server, "admin", "secret-of-admin").await;
    raw.publish_with_block("a.broken", BROKEN, b"{}").await;
    let last = bench.client.publish_many("a.good", small(5)).await;
    drained(&bench).await;
    daemon.ready().await;
    assert_eq!(sequences(&bench.sink()), [good, more, last].concat());
    let letters = bench.client.messages("DLQ").await;
    let reasons: Vec<_> = letters.iter().map(|letter| letter.header("Jetsink-Reason").unwrap()).collect();
    assert_eq!(
        reasons,
        ["payload_too_large", "payload_too_large", "payload_too_large", "undeliverable_message"]
    );
    let denied = daemon.metrics().await.unwrap().sum("jetsink_permission_violations_total", &[]);
    assert_eq!(denied, 0.0, "{}", daemon.log());
    daemon.stop().await;
}

#[tokio::test]
async fn the_check_is_content_with_its_own_block() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let (bench, settings) = prepared(kind, "check").await;
        bench.durable("A", "w", json!({})).await;
        let checked = bench.check(&settings).await;
        checked.is_healthy();
        assert!(bench.client.messages("DLQ").await.is_empty(), "trying stores nothing");
    }
}

#[tokio::test]
async fn the_tools_run_under_exactly_the_permissions_that_are_printed() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let mut bench = Bench::start(kind).await;
        bench.stream("A", json!({})).await;
        bench.durable("A", "w", json!({})).await;
        let mut settings = bench.settings("A");
        settings.set("consumer.filter_subjects", vec!["a.>"]).set("dead_letter.stream", "DLQ");
        settings.set("nats.inbox_prefix", "_INBOX_tools");
        let mut daemon_settings = settings.clone();
        daemon_settings.unset("consumer.filter_subjects").set("size_policy.max_payload_bytes", "1 KiB");
        let mut daemon = Daemon::start(&daemon_settings, &[]);
        bench.client.publish_many("a.bad", oversized(3)).await;
        daemon.ready().await;
        drained(&bench).await;
        daemon.stop().await;
        let block = bench.run(&settings, &["permissions", "--for", "dlq"]).await.fine().text();
        restricted(&mut bench, &mut settings, &block).await;
        let listed = bench.run(&settings, &["dlq", "ls", "--format", "json"]).await.fine();
        assert_eq!(listed.lines().len(), 3, "{listed:?}");
        bench.run(&settings, &["dlq", "stats"]).await.fine();
        bench.run(&settings, &["dlq", "show", "1"]).await.fine();
        bench.run(&settings, &["dlq", "redrive", "--yes", "--limit", "1"]).await.fine();
        bench.run(&settings, &["dlq", "discard", "--yes", "--all", "--because", "a test"]).await.fine();
        assert_eq!(bench.client.stream_info("DLQ").await["state"]["messages"], 0);
        assert_eq!(bench.client.stream_info("A").await["state"]["messages"], 4, "one was sent again");
    }
}
