//! Field case 13: limits of pulls, ours and the server's, never become a hot loop.

use std::time::Duration;

use crate::harness::{Daemon, Rig, RigPlan, eventually, oversized, sequences, small};

const SOON: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(6);

/// Five of a hundred parts of a processor at the most, over a while.
async fn stays_calm(daemon: &Daemon) {
    let before = daemon.processor_time();
    let began = tokio::time::Instant::now();
    eventually(QUIET * 2, "a while has passed", async || {
        if began.elapsed() > QUIET { Ok(()) } else { Err(String::new()) }
    })
    .await;
    let used = daemon.processor_time() - before;
    assert!(used < QUIET / 20, "{used:?} of processor time in {QUIET:?} of quiet");
}

#[tokio::test]
async fn a_byte_limit_that_the_largest_message_does_not_fit_is_refused_at_start() {
    let rig = Rig::start().await;
    let mut settings = rig.settings();
    settings.set("delivery.batch_bytes", "1 KiB");
    let log = Daemon::start(&settings, &[]).refuses().await;
    assert!(log.contains("batch_bytes") && log.contains("max_payload"), "{log}");
}

#[tokio::test]
async fn a_message_above_the_policy_is_dead_lettered_and_small_ones_flow() {
    let rig = Rig::start().await;
    rig.client.publish_many("src.big", oversized(1)).await;
    rig.client.publish_many("src.small", small(20)).await;
    let mut settings = rig.settings_for_small();
    // As little as the server's max_payload allows.
    settings.set("delivery.batch_bytes", "66 KiB");
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    rig.drained(SOON).await;
    assert_eq!(rig.dead_letters().await, [1]);
    assert_eq!(rig.client.messages("DLQ").await[0].header("Jetsink-Reason"), Some("payload_too_large"));
    rig.sink_holds(&(2..=21).collect::<Vec<_>>(), SOON).await;
    stays_calm(&daemon).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_durable_with_a_smaller_pull_limit_is_served_or_named() {
    let rig = RigPlan::default().durable("max_batch", 5).start().await;
    let expected = rig.client.publish_many("src.a", small(20)).await;
    let mut daemon = rig.daemon();
    eventually(SOON, "everything is written, or the limit is named", async || {
        if sequences(&rig.sink()) == expected {
            return Ok(());
        }
        let said = daemon.log().contains("MaxRequestBatch") || daemon.log().contains("max_batch");
        let refused = daemon.ended().is_some_and(|status| !status.success());
        let not_ready = daemon.readiness().await.is_ok_and(|seen| seen.body.contains("pull_refused"));
        if said && (refused || not_ready) { Ok(()) } else { Err(daemon.log()) }
    })
    .await;
    if daemon.ended().is_none() {
        stays_calm(&daemon).await;
    }
}

#[tokio::test]
async fn two_daemons_on_a_durable_that_lets_one_wait_share_it_without_haste() {
    let rig = RigPlan::default().durable("max_waiting", 1).start().await;
    let mut settings = rig.settings();
    let mut first = Daemon::start(&settings, &[]);
    first.ready().await;
    let second_sink = rig.folder().join("second");
    settings.set("sink.file.directory", second_sink.to_str().unwrap());
    let second = Daemon::start(&settings, &[]);
    eventually(SOON, "the second daemon has been told that too many wait", async || {
        let metrics = second.metrics().await?;
        let told = metrics.sum("jetsink_pull_statuses_total", &["class=\"too_many_waiting\""])
            + metrics.sum("jetsink_missed_heartbeats_total", &[]);
        if told > 0.0 { Ok(()) } else { Err("no status, no missed heartbeat".into()) }
    })
    .await;
    let before = second.metrics().await.unwrap();
    stays_calm(&second).await;
    let after = second.metrics().await.unwrap();
    let told =
        |metrics: &crate::harness::Metrics| metrics.sum("jetsink_pull_statuses_total", &["too_many_waiting"]);
    assert!(told(&after) - told(&before) <= 10.0, "pulls that are refused come a second apart or more");
    rig.client.publish_many("src.a", small(50)).await;
    rig.drained(SOON).await;
    let mut found = sequences(&rig.sink());
    found.extend(sequences(&second_sink));
    found.sort_unstable();
    assert_eq!(found, (1..=50).collect::<Vec<_>>());
    first.stop().await;
    second.stop().await;
}
