//! A user that may subscribe to its own replies and to nothing else.

use super::Way;
use crate::harness::RigPlan;

/// The permissions of docs/connecting.md, as they stand there.
fn authorization() -> String {
    let page = include_str!("../../../docs/connecting.md");
    let (_, from) = page.split_once("\n```\npublish: [").unwrap();
    let (permissions, _) = from.split_once("```").unwrap();
    format!(
        "authorization {{ users: [ {{ user: test, password: test }}, {{ user: sink, password: \"CANARY-PASSWORD\",\n\
         permissions: {{ publish: [{permissions} }} }} ] }}"
    )
}

fn way() -> Way {
    Way::default()
        .set("nats.user", "sink")
        .set("nats.password_env", "TEST_PASSWORD")
        .environment("TEST_PASSWORD", "CANARY-PASSWORD")
}

#[tokio::test]
async fn the_inbox_prefix_is_all_that_is_subscribed_to() {
    let plan = RigPlan { login: Some(("test", "test")), ..RigPlan::patient() };
    let rig = plan.server(&authorization()).start().await;
    way().secret("CANARY-PASSWORD").set("nats.inbox_prefix", "_INBOX_sink").carries(&rig).await;

    // Without the prefix, or with another: said, with the subject that is denied.
    for other in [None, Some("_INBOX_other")] {
        let mut way = way();
        if let Some(prefix) = other {
            way = way.set("nats.inbox_prefix", prefix);
        }
        let mut daemon = way.start(&rig);
        daemon.not_ready_because("permission_denied", super::way::TOLD).await;
        let body = daemon.readiness().await.unwrap().body;
        assert!(body.contains("nats.inbox_prefix"), "{body}");
        assert!(daemon.log().contains("nats.inbox_prefix"), "{}", daemon.log());
    }
}
