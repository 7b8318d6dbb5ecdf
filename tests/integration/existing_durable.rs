//! Field case 11: a durable that is there already is neither rewritten nor quietly obeyed.

use serde_json::{Value, json};

use crate::harness::{Daemon, Rig, RigPlan, small};

async fn config(rig: &Rig) -> Value {
    rig.client.consumer_info("SRC", "w").await["config"].clone()
}

#[tokio::test]
async fn every_field_that_differs_is_named_with_both_values_and_nothing_is_changed() {
    let plan = RigPlan::default().durable("max_deliver", 7).durable("filter_subject", "src.a");
    for mode in ["bind", "create_if_missing"] {
        let rig = plan.clone().start().await;
        let before = config(&rig).await;
        let mut settings = rig.settings();
        settings
            .set("consumer.mode", mode)
            .set("consumer.max_deliver", 9)
            .set("consumer.ack_wait", "45s")
            .set("consumer.filter_subjects", vec!["src.b"]);
        let log = Daemon::start(&settings, &[]).refuses().await;
        for word in ["max_deliver", "7", "9", "ack_wait", "45s", "2s", "filter_subjects", "src.a", "src.b"] {
            assert!(log.contains(word), "{word} is missing in the difference:\n{log}");
        }
        assert_eq!(config(&rig).await, before);
    }
}

#[tokio::test]
async fn what_the_file_does_not_say_is_the_operators_own_business() {
    let rig = RigPlan::default().durable("max_deliver", 7).durable("filter_subject", "src.a").start().await;
    let before = config(&rig).await;
    rig.client.publish_many("src.a", small(2)).await;
    rig.client.publish_many("src.b", small(2)).await;
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.drained(std::time::Duration::from_secs(20)).await;
    daemon.stop().await;
    assert_eq!(config(&rig).await, before);
    assert_eq!(crate::harness::sequences(&rig.sink()), [1, 2]);
}

#[tokio::test]
async fn only_explicit_acks_are_accepted() {
    for policy in ["none", "all"] {
        let mut plan = RigPlan::default().durable("ack_policy", policy);
        if policy == "none" {
            plan.durable = json!({ "durable_name": "w", "ack_policy": "none", "deliver_policy": "all",
                                   "replay_policy": "instant" });
        }
        let rig = plan.start().await;
        let log = rig.daemon().refuses().await;
        assert!(log.contains("ack_policy") && log.contains(policy), "{log}");
    }
}

#[tokio::test]
async fn a_push_consumer_is_refused() {
    let rig = RigPlan::default().durable("deliver_subject", "push.here").start().await;
    let log = rig.daemon().refuses().await;
    assert!(log.contains("push"), "{log}");
}
