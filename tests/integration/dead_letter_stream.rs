//! Field cases 23 and 24: the dead-letter stream is full, missing, or never confirms.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Daemon, Rig, RigPlan, ServerKind, eventually, oversized, small, stays};

const SOON: Duration = Duration::from_secs(40);

/// Rejected messages wait, unsettled and delivered only once, for the whole time.
async fn wait_unsettled(rig: &Rig, daemon: &mut Daemon, waiting: u64, duration: Duration) {
    stays(duration, "rejected messages wait under lease", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        let seen = daemon.readiness().await?;
        let fits = info["num_ack_pending"] == waiting && info["num_redelivered"] == 0 && !seen.ready;
        if fits { Ok(()) } else { Err(format!("{info} {seen:?}")) }
    })
    .await;
}

async fn a_full_stream_parks_what_is_rejected_and_lets_good_messages_flow_on(kind: ServerKind) {
    let plan = RigPlan::default().on(kind).dead_letters("max_msgs", 2);
    let rig = plan.clone().start().await;
    rig.client.publish_many("src.bad", oversized(5)).await;
    let good = rig.client.publish_many("src.good", small(5)).await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    rig.sink_holds(&good, SOON).await;
    daemon.not_ready_because("dead_letter_unavailable", SOON).await;
    assert_eq!(rig.client.stream_info("DLQ").await["state"]["messages"], 2);
    // Three ack waits.
    wait_unsettled(&rig, &mut daemon, 3, Duration::from_secs(6)).await;
    let more = rig.client.publish_many("src.good", small(5)).await;
    rig.sink_holds(&[good, more].concat(), SOON).await;
    let metrics = daemon.metrics().await.unwrap();
    assert_eq!(metrics.sum("jetsink_parked_messages", &[]), 3.0);
    assert!(metrics.sum("jetsink_dead_letter_publish_failures_total", &["kind=\"refused\""]) >= 3.0);
    rig.client.update_stream(&plan.dead_letters("max_msgs", 100).dead_letters).await;
    rig.drained(SOON).await;
    assert_eq!(rig.dead_letters().await, [1, 2, 3, 4, 5]);
    daemon.ready().await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_full_stream_parks_what_is_rejected_and_lets_good_messages_flow() {
    a_full_stream_parks_what_is_rejected_and_lets_good_messages_flow_on(ServerKind::New).await;
}

#[tokio::test]
async fn a_full_stream_parks_what_is_rejected_and_lets_good_messages_flow_on_an_old_server() {
    a_full_stream_parks_what_is_rejected_and_lets_good_messages_flow_on(ServerKind::Old).await;
}

#[tokio::test]
async fn a_stream_that_drops_its_oldest_is_warned_of_at_start() {
    let rig = RigPlan::default().dead_letters("discard", "old").dead_letters("max_msgs", 100).start().await;
    let mut daemon = rig.daemon();
    daemon.ready().await;
    let log = daemon.log();
    let warned = log.lines().any(|line| line.contains("WARN") && line.contains("discard"));
    assert!(warned, "no warning in:\n{log}");
    daemon.stop().await;
}

async fn a_stream_deleted_while_messages_are_rejected_loses_none_of_them_on(kind: ServerKind) {
    let plan = RigPlan::default().on(kind);
    let rig = plan.clone().start().await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    rig.client.publish_many("src.bad", oversized(2)).await;
    rig.drained(SOON).await;
    rig.client.api("STREAM.DELETE.DLQ", &Value::Null).await;
    rig.client.publish_many("src.bad", oversized(3)).await;
    let good = rig.client.publish_many("src.good", small(10)).await;
    rig.sink_holds(&good, SOON).await;
    daemon.not_ready_because("dead_letter_unavailable", SOON).await;
    wait_unsettled(&rig, &mut daemon, 3, Duration::from_secs(5)).await;
    rig.client.create_stream(&plan.dead_letters).await;
    rig.drained(SOON).await;
    assert_eq!(rig.dead_letters().await, [3, 4, 5], "each once, in the new stream");
    daemon.ready().await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_stream_deleted_while_messages_are_rejected_loses_none_of_them() {
    a_stream_deleted_while_messages_are_rejected_loses_none_of_them_on(ServerKind::New).await;
}

#[tokio::test]
async fn a_stream_deleted_while_messages_are_rejected_loses_none_of_them_on_an_old_server() {
    a_stream_deleted_while_messages_are_rejected_loses_none_of_them_on(ServerKind::Old).await;
}

async fn a_stream_that_stops_to_confirm_gets_one_copy_of_a_dead_letter_on(kind: ServerKind) {
    let plan = RigPlan::default().on(kind);
    let rig = plan.clone().start().await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    rig.client.update_stream(&plan.clone().dead_letters("no_ack", true).dead_letters).await;
    rig.client.publish_many("src.bad", oversized(1)).await;
    daemon.not_ready_because("dead_letter_unavailable", SOON).await;
    stays(Duration::from_secs(15), "one copy at the most, and the original is held", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        let copies = rig.client.stream_info("DLQ").await["state"]["messages"].clone();
        let held = info["num_ack_pending"] == 1 && info["ack_floor"]["stream_seq"] == 0;
        if held && copies.as_u64() <= Some(1) { Ok(()) } else { Err(format!("{copies} {info}")) }
    })
    .await;
    rig.client.update_stream(&plan.dead_letters).await;
    rig.drained(SOON).await;
    assert_eq!(rig.dead_letters().await, [1]);
    daemon.stop().await;
}

#[tokio::test]
async fn a_stream_that_stops_to_confirm_gets_one_copy_of_a_dead_letter() {
    a_stream_that_stops_to_confirm_gets_one_copy_of_a_dead_letter_on(ServerKind::New).await;
}

#[tokio::test]
async fn a_stream_that_stops_to_confirm_gets_one_copy_of_a_dead_letter_on_an_old_server() {
    a_stream_that_stops_to_confirm_gets_one_copy_of_a_dead_letter_on(ServerKind::Old).await;
}

async fn a_stream_that_cannot_keep_or_confirm_is_found_out_at_start_on(kind: ServerKind) {
    let unfit: [(&str, Value, &str); 4] = [
        ("no_ack", json!(true), "no_ack"),
        ("retention", json!("interest"), "interest"),
        ("subjects", json!(["elsewhere.>"]), "dlq.src"),
        ("sealed", json!(true), "sealed"),
    ];
    for (field, value, word) in unfit {
        let plan = RigPlan::default().on(kind);
        let sealed = field == "sealed";
        let plan = if sealed { plan } else { plan.dead_letters(field, value.clone()) };
        let rig = plan.clone().start().await;
        if sealed {
            rig.client.update_stream(&plan.dead_letters(field, value).dead_letters).await;
        }
        rig.client.publish_many("src.bad", oversized(1)).await;
        let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
        eventually(SOON, &format!("{field}: it is refused, or said in readiness, and named"), async || {
            let refused = daemon.ended().is_some_and(|status| !status.success());
            let not_ready =
                daemon.readiness().await.is_ok_and(|seen| seen.body.contains("dead_letter_unavailable"));
            let log = daemon.log();
            if log.contains(word) && (refused || not_ready) { Ok(()) } else { Err(log) }
        })
        .await;
        let info = rig.client.consumer_info("SRC", "w").await;
        assert_eq!(info["ack_floor"]["stream_seq"], 0, "{field}: the original is not settled: {info}");
    }
}

#[tokio::test]
async fn a_stream_that_cannot_keep_or_confirm_is_found_out_at_start() {
    a_stream_that_cannot_keep_or_confirm_is_found_out_at_start_on(ServerKind::New).await;
}

#[tokio::test]
async fn a_stream_that_cannot_keep_or_confirm_is_found_out_at_start_on_an_old_server() {
    a_stream_that_cannot_keep_or_confirm_is_found_out_at_start_on(ServerKind::Old).await;
}

#[tokio::test]
async fn without_a_dead_letter_subject_a_rejected_message_stays_and_readiness_says_so() {
    let rig = Rig::start().await;
    let mut settings = rig.settings_for_small();
    settings.unset("dead_letter");
    rig.client.publish_many("src.bad", oversized(1)).await;
    let good = rig.client.publish_many("src.good", small(3)).await;
    let mut daemon = Daemon::start(&settings, &[]);
    rig.sink_holds(&good, SOON).await;
    daemon.not_ready_because("dead_letter_not_configured", SOON).await;
    let info = rig.client.consumer_info("SRC", "w").await;
    assert_eq!(info["num_ack_pending"], 1, "{info}");
    daemon.stop().await;
}
