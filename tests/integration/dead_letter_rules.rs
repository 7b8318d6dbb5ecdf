//! What `[dead_letter]` asks for beyond a place: subjects, redaction, the breaker, letters that must not come back.

use std::time::Duration;

use async_nats::HeaderMap;
use serde_json::json;

use crate::harness::{Daemon, Rig, RigPlan, ServerKind, eventually, oversized, small, stays};

const SOON: Duration = Duration::from_secs(40);

async fn letters_are_filed_and_redacted(kind: ServerKind) {
    // A source that takes such a header from its publishers.
    let mut plan = RigPlan::default().source("allow_rollup_hdrs", true);
    plan.server.kind = kind;
    let rig = plan.start().await;
    for (format, letters) in [("json", 1), ("original", 2)] {
        let mut settings = rig.settings_for_small();
        settings
            .set("dead_letter.format", format)
            .set("dead_letter.subject_tokens", vec!["stage", "reason", "consumer"]);
        let mut headers = HeaderMap::new();
        headers.append("authorization", "Bearer s3cret");
        headers.append("X-Trace", "t-1");
        // A command to the server (field case 26): it must come out as data.
        headers.append("Nats-Rollup", "all");
        rig.client.publish_with("src.bad", headers, oversized(1).remove(0)).await;
        let mut daemon = Daemon::start(&settings, &[]);
        daemon.ready().await;
        rig.drained(SOON).await;
        let stored = rig.client.messages("DLQ").await;
        assert_eq!(stored.len(), letters, "{format}: nothing was rolled up");
        let letter = stored.last().unwrap();
        assert_eq!(letter.subject, "dlq.src.size.payload_too_large.w");
        let said = format!("{} {}", letter.headers, String::from_utf8_lossy(&letter.payload));
        assert!(!said.contains("s3cret"), "{said}");
        assert!(!daemon.log().contains("s3cret"));
        if format == "json" {
            let record = letter.json();
            assert_eq!(record["headers_redacted"], json!(["Authorization"]));
            assert_eq!(record["headers"]["authorization"], "[redacted by jetsink]");
            assert_eq!(record["headers"]["X-Trace"], "t-1");
        } else {
            assert_eq!(letter.header("Jetsink-Headers-Redacted"), Some("Authorization"));
        }
        daemon.stop().await;
    }
}

#[tokio::test]
async fn letters_are_filed_by_facts_and_carry_no_secret() {
    letters_are_filed_and_redacted(ServerKind::New).await;
}

#[tokio::test]
async fn letters_are_filed_by_facts_and_carry_no_secret_on_an_old_server() {
    letters_are_filed_and_redacted(ServerKind::Old).await;
}

#[tokio::test]
async fn a_stream_that_captures_only_some_of_the_subjects_is_refused() {
    let rig = RigPlan::default().dead_letters("subjects", json!(["dlq.src.size.*"])).start().await;
    let mut settings = rig.settings_for_small();
    settings.set("dead_letter.subject_tokens", vec!["stage", "reason"]);
    let log = Daemon::start(&settings, &[]).refuses().await;
    assert!(log.contains("does not capture dlq.src."), "{log}");
}

#[tokio::test]
async fn a_source_stream_that_is_fed_with_dead_letters_is_refused() {
    let plan = RigPlan::default();
    let rig = plan.clone().start().await;
    let fed = plan.source("sources", json!([{ "name": "DLQ" }])).source;
    rig.client.update_stream(&fed).await;
    let log = Daemon::start(&rig.settings_for_small(), &[]).refuses().await;
    assert!(log.contains("takes messages from DLQ"), "{log}");
}

#[tokio::test]
async fn letters_that_come_back_are_wrapped_three_times_at_the_most() {
    let rig = Rig::start().await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    let letter = |depth: Option<&str>| {
        let mut headers = HeaderMap::new();
        headers.append("Jetsink-Stream", "SRC");
        headers.append("Jetsink-Consumer", "w");
        if let Some(depth) = depth {
            headers.append("Jetsink-Letter-Depth", depth);
        }
        headers
    };
    rig.client.publish_with("src.bad", letter(None), oversized(1).remove(0)).await;
    rig.drained(SOON).await;
    let stored = rig.client.messages("DLQ").await;
    assert_eq!(stored[0].header("Jetsink-Letter-Depth"), Some("2"));
    rig.client.publish_with("src.bad", letter(Some("3")), oversized(1).remove(0)).await;
    daemon.not_ready_because("dead_letter_unavailable", SOON).await;
    let good = rig.client.publish_many("src.good", small(5)).await;
    rig.sink_holds(&good, SOON).await;
    eventually(SOON, "the good ones are acknowledged", async || {
        let pending = rig.client.consumer_info("SRC", "w").await["num_ack_pending"].clone();
        if pending == 1 { Ok(()) } else { Err(pending.to_string()) }
    })
    .await;
    stays(Duration::from_secs(5), "it waits under lease, and nothing more is written", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        let letters = rig.client.stream_info("DLQ").await["state"]["messages"].clone();
        let fits = letters == 1 && info["num_ack_pending"] == 1 && info["num_redelivered"] == 0;
        if fits { Ok(()) } else { Err(format!("{letters} {info}")) }
    })
    .await;
    let metrics = daemon.metrics().await.unwrap();
    let kind = ["kind=\"comes_back\""];
    assert!(metrics.sum("jetsink_dead_letter_publish_failures_total", &kind) >= 1.0);
    daemon.stop().await;
}

async fn a_bad_deploy_is_held(kind: ServerKind) {
    let mut plan = RigPlan::patient();
    plan.server.kind = kind;
    let rig = plan.start().await;
    let mut settings = rig.settings_for_small();
    settings.set("dead_letter.breaker.rejected", 3).set("dead_letter.breaker.of", 5);
    let good = rig.client.publish_many("src.good", small(5)).await;
    rig.client.publish_many("src.bad", oversized(20)).await;
    let mut daemon = Daemon::start(&settings, &[]);
    rig.sink_holds(&good, SOON).await;
    daemon.not_ready_because("too_many_rejections", SOON).await;
    stays(Duration::from_secs(8), "three letters and no more, whatever the trials", async || {
        let letters = rig.client.stream_info("DLQ").await["state"]["messages"].clone();
        let seen = daemon.readiness().await?;
        let holds = seen.body.contains("too_many_rejections");
        if letters.as_u64() <= Some(3) && holds { Ok(()) } else { Err(format!("{letters} {seen:?}")) }
    })
    .await;
    let metrics = daemon.metrics().await.unwrap();
    assert_eq!(metrics.sum("jetsink_breaker_trips_total", &[]), 1.0);
    assert!(metrics.sum("jetsink_withheld_messages", &[]) >= 1.0);
    assert!(daemon.log().contains("too_many_rejections"));
    daemon.stop().await;
    // Batches are judged side by side, so any three of the bad ones were the first.
    let letters = rig.dead_letters().await;
    assert!(letters.len() == 3 && letters.iter().all(|sequence| (6..=25).contains(sequence)), "{letters:?}");
    settings.unset("dead_letter.breaker");
    let mut daemon = Daemon::start(&settings, &[]);
    rig.drained(SOON).await;
    daemon.ready().await;
    assert_eq!(rig.dead_letters().await, (6..=25).collect::<Vec<_>>(), "each once");
    daemon.stop().await;
}

#[tokio::test]
async fn a_bad_deploy_is_held_before_it_empties_the_stream() {
    a_bad_deploy_is_held(ServerKind::New).await;
}

#[tokio::test]
async fn a_bad_deploy_is_held_on_an_old_server() {
    a_bad_deploy_is_held(ServerKind::Old).await;
}
