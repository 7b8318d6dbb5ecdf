//! Field cases 9 and 10: the ack wait that counts is the server's, and it runs from the moment the server sends.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Daemon, Rig, RigPlan, Trace, eventually, small};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_backoff_that_would_replace_the_ack_wait_is_not_taken_in_silence() {
    let rig = Rig::start().await;
    let mut settings = rig.settings();
    settings
        .set("consumer.durable", "other")
        .set("consumer.mode", "create_if_missing")
        .set("consumer.ack_wait", "60s")
        .set("consumer.backoff", vec!["1s", "5s"]);
    let mut daemon = Daemon::start(&settings, &[]);
    eventually(SOON, "it refuses, or warns and names both", async || {
        let log = daemon.log();
        let said = log.contains("ack_wait") && log.contains("backoff");
        let refused = daemon.ended().is_some_and(|status| !status.success());
        if said && (refused || log.contains("WARN")) { Ok(()) } else { Err(log) }
    })
    .await;
}

#[tokio::test]
async fn without_leases_a_write_may_not_outlast_the_ack_wait_of_the_durable() {
    let rig = Rig::start().await;
    let mut settings = rig.settings();
    // Below the 30 s that the file is checked against; the durable has 2 s.
    settings.set("delivery.in_progress", false).set("delivery.write_timeout", "10s");
    let log = Daemon::start(&settings, &[]).refuses().await;
    assert!(log.contains("delivery.write_timeout is 10s and the durable's ack wait 2s"), "{log}");
}

#[tokio::test]
async fn leases_follow_the_effective_ack_wait_and_not_the_written_one() {
    let backoff = json!([1_000_000_000_u64, 5_000_000_000_u64]);
    let rig =
        RigPlan::default().durable("ack_wait", 60_000_000_000_u64).durable("backoff", backoff).start().await;
    assert_eq!(rig.client.consumer_info("SRC", "w").await["config"]["ack_wait"], 1_000_000_000_u64);
    let expected = rig.client.publish_many("src.a", small(5)).await;
    // Every sync takes three of the effective ack waits.
    let trace = Trace::injecting("fdatasync:delay_exit=3000000");
    let mut daemon = Daemon::start_under(trace.launcher(), &rig.settings(), &[]);
    rig.sink_holds(&expected, SOON).await;
    rig.drained(SOON).await;
    daemon.ready().await;
    let info = rig.client.consumer_info("SRC", "w").await;
    assert_eq!(info["delivered"]["consumer_seq"], 5, "each was delivered once: {info}");
    assert!(daemon.metrics().await.unwrap().sum("jetsink_leases_extended_total", &[]) >= 1.0);
    daemon.stop().await;
}

/// 300 messages in batches of 100, ack wait 2 s, and a sink that takes three seconds for a batch: the last ones wait for more
/// than four ack waits before anybody works on them.
async fn rig_with_a_slow_sink() -> (Rig, Trace, Daemon) {
    let rig = Rig::start().await;
    rig.client.publish_many("src.a", small(300)).await;
    let trace = Trace::injecting("fdatasync:delay_exit=1500000");
    let mut settings = rig.settings();
    settings.set("delivery.batch_size", 100);
    let daemon = Daemon::start_under(trace.launcher(), &settings, &[]);
    (rig, trace, daemon)
}

#[tokio::test]
async fn messages_that_wait_their_turn_are_not_delivered_twice() {
    let (rig, _trace, mut daemon) = rig_with_a_slow_sink().await;
    rig.drained(SOON).await;
    daemon.ready().await;
    let info = rig.client.consumer_info("SRC", "w").await;
    assert_eq!(info["delivered"]["consumer_seq"], 300, "each was delivered once: {info}");
    rig.sink_holds(&(1..=300).collect::<Vec<_>>(), SOON).await;
    daemon.stop().await;
}

#[tokio::test]
async fn after_a_kill_what_was_in_hand_comes_back_within_the_ack_wait() {
    let (rig, _trace, mut daemon) = rig_with_a_slow_sink().await;
    eventually(SOON, "more than a batch is in hand", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        if info["num_ack_pending"].as_u64() > Some(150) { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
    daemon.kill();
    let mut daemon = rig.daemon();
    // Two seconds of ack wait; the rest is for starting a process and for growing pulls.
    rig.drained(Duration::from_secs(12)).await;
    daemon.ready().await;
    rig.sink_holds(&(1..=300).collect::<Vec<_>>(), SOON).await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    daemon.stop().await;
}
