//! Field case 4: the stream or its durable vanishes while the daemon runs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Daemon, Rig, RigPlan, eventually, records, small, stays};

const SOON: Duration = Duration::from_secs(20);

/// Not ready while nothing is there, and nobody makes a durable that would start from the beginning; when an operator has made
/// stream and durable again, the daemon binds and goes on.
async fn waits_and_binds_again(rig: &Rig, plan: &RigPlan, mut daemon: Daemon, before: usize) {
    daemon.not_ready_because("consumer_gone", SOON).await;
    rig.client.create_stream(&plan.source).await;
    rig.client.publish_many("src.again", small(3)).await;
    stays(Duration::from_secs(3), "nobody but the operator makes a durable", async || {
        let found = rig.client.try_api("CONSUMER.INFO.SRC.w", &Value::Null).await;
        let seen = daemon.readiness().await?;
        if found.is_err() && !seen.ready { Ok(()) } else { Err(format!("{found:?} {seen:?}")) }
    })
    .await;
    rig.client.create_consumer("SRC", &plan.durable).await;
    daemon.ready().await;
    eventually(SOON, "the new messages with the old sequences are in the sink", async || {
        let found = records(&rig.sink()).into_iter().filter(|record| record.json["subject"] == "src.again");
        let found = found.map(|record| record.sequence()).collect::<Vec<_>>();
        if found == [1, 2, 3] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    rig.drained(SOON).await;
    assert_eq!(records(&rig.sink()).len(), before + 3);
    daemon.stop().await;
}

#[tokio::test]
async fn a_stream_deleted_during_a_waiting_pull_is_noticed_and_bound_again() {
    let plan = RigPlan::default();
    let rig = plan.clone().start().await;
    rig.client.publish_many("src.a", small(3)).await;
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.drained(SOON).await;
    rig.client.api("STREAM.DELETE.SRC", &Value::Null).await;
    waits_and_binds_again(&rig, &plan, daemon, 3).await;
}

#[tokio::test]
async fn a_memory_stream_lost_with_its_server_is_noticed_and_bound_again() {
    let plan = RigPlan::default().source("storage", "memory");
    let mut rig = plan.clone().start().await;
    rig.client.publish_many("src.a", small(3)).await;
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.drained(SOON).await;
    rig.server.kill();
    rig.server.restart().await;
    waits_and_binds_again(&rig, &plan, daemon, 3).await;
}

#[tokio::test]
async fn a_durable_deleted_alone_is_noticed() {
    let rig = Rig::start().await;
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
    daemon.not_ready_because("consumer_gone", SOON).await;
    assert_eq!(daemon.metrics().await.unwrap().sum("jetsink_not_ready", &["reason=\"consumer_gone\""]), 1.0);
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_that_shall_exit_does_so_with_an_error() {
    let rig = Rig::start().await;
    let mut settings = rig.settings();
    settings.set("consumer.on_gone", "exit");
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    rig.client.api("STREAM.DELETE.SRC", &Value::Null).await;
    let log = daemon.refuses().await;
    assert!(log.contains("gone"), "{log}");
}

#[tokio::test]
async fn a_durable_that_is_not_there_at_start_is_never_made_when_only_binding_is_allowed() {
    let rig = Rig::start().await;
    rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
    let mut daemon = rig.daemon();
    eventually(SOON, "it exits with an error or says that it is not ready", async || match daemon.ended() {
        Some(status) if !status.success() => Ok(()),
        Some(status) => Err(status.to_string()),
        None => match daemon.readiness().await? {
            seen if seen.body.contains("consumer_unbound") => Ok(()),
            seen => Err(format!("{seen:?}")),
        },
    })
    .await;
    let found = rig.client.try_api("CONSUMER.NAMES.SRC", &json!({})).await.unwrap();
    assert_eq!(found["total"], 0);
}
