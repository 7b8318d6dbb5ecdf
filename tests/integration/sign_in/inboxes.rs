//! A user that may subscribe to its own replies and to nothing else.

use super::Way;
use crate::harness::RigPlan;

/// Everything that the documentation of permissions asks for, and no more.
fn authorization(subscribe: &str) -> String {
    format!(
        "authorization {{ users: [ {{ user: test, password: test }}, {{ user: sink, password: \"CANARY-PASSWORD\",\n\
         permissions: {{ publish: [ \"$JS.API.CONSUMER.MSG.NEXT.SRC.w\", \"$JS.API.CONSUMER.INFO.SRC.w\",\n\
         \"$JS.API.STREAM.INFO.SRC\", \"$JS.ACK.SRC.w.>\", \"$JS.ACK.*.*.SRC.w.>\", \"dlq.>\" ],\n\
         subscribe: [ \"{subscribe}\" ] }} }} ] }}"
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
    let rig = plan.server(&authorization("_INBOX_sink.>")).start().await;
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
