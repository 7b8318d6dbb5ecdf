//! Field case 15: an interest stream keeps nothing that came before the durable.

use std::time::Duration;

use serde_json::Value;

use crate::harness::{Daemon, RigPlan, ServerKind};

const SOON: Duration = Duration::from_secs(40);

async fn what_came_before_is_gone(kind: ServerKind) {
    let mut plan = RigPlan::default().source("retention", "interest");
    plan.server.kind = kind;
    let rig = plan.start().await;
    rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
    for _ in 0..3 {
        rig.client.publish("src.a", "{}").await;
    }
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 0, "confirmed, and not kept");
    let mut settings = rig.settings();
    settings.set("consumer.expires", "1s").set("consumer.mode", "create_if_missing");
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    assert!(
        daemon.log().contains("interest retention, new durable: earlier data is gone"),
        "{}",
        daemon.log()
    );
    let created = rig.client.consumer_info("SRC", "w").await["created"].clone();
    for _ in 0..3 {
        rig.client.publish("src.a", "{}").await;
    }
    rig.sink_holds(&[4, 5, 6], SOON).await;
    rig.drained(SOON).await;
    daemon.stop().await;
    // The durable outlives the daemon: what comes meanwhile is kept for the next one.
    assert_eq!(rig.client.consumer_info("SRC", "w").await["created"], created);
    rig.client.publish("src.a", "{}").await;
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 1);
    let daemon = Daemon::start(&settings, &[]);
    rig.sink_holds(&[4, 5, 6, 7], SOON).await;
    assert!(!daemon.log().contains("earlier data is gone"), "it was there already: {}", daemon.log());
    daemon.stop().await;
    assert_eq!(rig.client.consumer_info("SRC", "w").await["created"], created);
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}

#[tokio::test]
async fn an_interest_stream_keeps_nothing_that_came_before_the_durable_and_it_is_said() {
    tokio::join!(what_came_before_is_gone(ServerKind::New), what_came_before_is_gone(ServerKind::Old));
}
