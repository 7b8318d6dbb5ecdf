//! The watch of the running daemon: metrics at every look, log lines on change.

use std::time::Duration;

use serde_json::json;

use super::bench::Bench;
use crate::harness::{Daemon, ServerKind, Settings, eventually, small};

const SOON: Duration = Duration::from_secs(30);

fn settings(bench: &Bench, stream: &str) -> Settings {
    let mut settings = bench.settings(stream);
    settings.set("delivery.watch_interval", "1s").set("consumer.expires", "1s");
    settings
}

/// Waits until the metric has reached this value, and until this line is in the log.
async fn shows(daemon: &Daemon, metric: &str, label: &str, at_least: f64, line: &str) {
    eventually(SOON, metric, async || {
        let seen = daemon.metrics().await?.sum(metric, &[label]);
        let log = daemon.log();
        if seen >= at_least && log.contains(line) { Ok(()) } else { Err(format!("{metric} {seen}\n{log}")) }
    })
    .await;
}

#[tokio::test]
async fn publishes_that_vanish_are_counted_and_said_once() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let bench = Bench::start(kind).await;
        bench.stream("I", json!({ "retention": "interest" })).await;
        bench.durable("I", "w", json!({ "filter_subject": "i.wanted" })).await;
        let mut daemon = Daemon::start(&settings(&bench, "I"), &[]);
        daemon.ready().await;
        shows(&daemon, "jetsink_stream_consumers", "", 1.0, "").await;
        bench.client.publish_many("i.other", small(5)).await;
        shows(&daemon, "jetsink_stream_vanished_messages_total", "", 5.0, "succeed and vanish").await;
        bench.client.publish_many("i.other", small(3)).await;
        shows(&daemon, "jetsink_stream_vanished_messages_total", "", 8.0, "").await;
        assert!(daemon.log().matches("publishes_vanish").count() <= 2, "{}", daemon.log());
        daemon.stop().await;
    }
}

#[tokio::test]
async fn limits_that_fill_are_said_at_each_step() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let bench = Bench::start(kind).await;
        bench.stream("F", json!({ "max_msgs": 100, "discard": "new" })).await;
        bench.durable("F", "w", json!({})).await;
        let mut daemon = Daemon::start(&settings(&bench, "F"), &[]);
        daemon.ready().await;
        bench.client.publish_many("f.x", small(85)).await;
        let fill = "jetsink_stream_limit_fill_ratio";
        shows(&daemon, fill, "limit=\"messages\"", 0.85, "stream F is 85 % full: 85 of max_msgs 100").await;
        bench.client.publish_many("f.x", small(10)).await;
        shows(&daemon, fill, "limit=\"messages\"", 0.95, "stream F is 95 % full").await;
        shows(&daemon, "jetsink_stream_last_sequence", "", 95.0, "").await;
        daemon.stop().await;
    }
}

#[tokio::test]
async fn messages_deleted_while_they_are_in_flight_are_named() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let bench = Bench::start(kind).await;
        bench.stream("D", json!({})).await;
        bench.durable("D", "w", json!({ "ack_wait": 60_000_000_000_u64 })).await;
        bench.client.publish_many("d.x", small(6)).await;
        // Somebody else on the durable holds them.
        assert_eq!(bench.pull("D", "w", None).await, 6);
        let mut daemon = Daemon::start(&settings(&bench, "D"), &[]);
        daemon.ready().await;
        shows(&daemon, "jetsink_stream_messages", "", 6.0, "").await;
        bench.client.delete_many("D", &[3, 4]).await;
        let metric = "jetsink_stream_deleted_in_flight_messages_total";
        shows(&daemon, metric, "", 2.0, "were deleted while they were in flight").await;
        shows(&daemon, "jetsink_consumer_ack_floor_age_seconds", "", 2.0, "").await;
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_work_queue_that_somebody_clogs_is_said() {
    let bench = Bench::start(ServerKind::New).await;
    bench.stream("Q", json!({ "retention": "workqueue" })).await;
    bench.durable("Q", "w", json!({ "max_deliver": 1, "ack_wait": 300_000_000, "max_ack_pending": 4 })).await;
    bench.client.publish_many("q.x", small(4)).await;
    assert_eq!(bench.pull("Q", "w", None).await, 4);
    eventually(SOON, "the server gives up on them", async || {
        let info = bench.client.consumer_info("Q", "w").await;
        if info["num_ack_pending"] == 0 { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
    let mut daemon = Daemon::start(&settings(&bench, "Q"), &[]);
    daemon.ready().await;
    // Said at once by the look at the start; the watch shows what stays.
    shows(&daemon, "jetsink_stream_messages", "", 4.0, "work_queue_exhausted").await;
    shows(&daemon, "jetsink_stream_first_sequence", "", 1.0, "sequences 1, 2, 3, 4").await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_watch_that_may_not_look_disturbs_nothing() {
    let mut bench = Bench::start(ServerKind::New).await;
    bench.stream("A", json!({})).await;
    bench.durable("A", "w", json!({})).await;
    let mut settings = settings(&bench, "A");
    let block = "permissions { publish { deny: [\"$JS.API.STREAM.INFO.>\"] } }";
    super::granted::restricted(&mut bench, &mut settings, block).await;
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    let sequences = bench.client.publish_many("a.x", small(20)).await;
    eventually(SOON, "everything is in the sink", async || {
        let found = crate::harness::sequences(&bench.sink());
        if found == sequences { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    daemon.stop().await;
}
