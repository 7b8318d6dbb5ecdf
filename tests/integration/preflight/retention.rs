//! Interest and work-queue streams.

use std::time::Duration;

use serde_json::json;

use super::bench::Bench;
use crate::harness::{ServerKind, eventually, small};

const KINDS: [ServerKind; 2] = [ServerKind::New, ServerKind::Old];

#[tokio::test]
async fn a_healthy_set_up_prints_facts_only() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("A", json!({ "max_msgs": 1000 })).await;
        bench.durable("A", "w", json!({})).await;
        bench.client.publish_many("a.x", small(20)).await;
        bench.pull("A", "w", Some("+ACK")).await;
        let before = bench.client.consumer_info("A", "w").await;
        let checked = bench.check(&bench.settings("A")).await;
        checked.is_healthy();
        checked.says(
            "stream_state",
            "info",
            &["limits retention", "2 % of max_msgs", "20 messages", "from sequence 1 to 20"],
        );
        checked.says("dead_letter_stream", "info", &["DLQ", "0 stored"]);
        let after = bench.client.consumer_info("A", "w").await;
        for field in ["delivered", "ack_floor", "num_ack_pending", "num_pending", "config"] {
            assert_eq!(before[field], after[field], "the check changes nothing");
        }
        assert_eq!(bench.client.stream_info("DLQ").await["state"]["messages"], 0);
        let text = bench.run(&bench.settings("A"), &["check", "--connect"]).await.fine().text();
        assert!(
            text.contains("info stream_state: stream A") && text.ends_with("0 refusals, 0 warnings\n"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn interest_that_nobody_else_has_and_a_durable_of_today() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("I", json!({ "retention": "interest" })).await;
        bench.client.publish_many("i.x", small(3)).await;
        let mut settings = bench.settings("I");
        settings.set("consumer.mode", "create_if_missing");
        let checked = bench.check(&settings).await;
        checked.says(
            "interest_without_consumer",
            "warning",
            &["publishes succeed and vanish", "last sequence 3, 0 stored"],
        );
        checked.says("durable_to_be_created", "info", &["w"]);
        assert_eq!(checked.code, Some(2));
        bench.durable("I", "w", json!({ "filter_subject": "i.a" })).await;
        let checked = bench.check(&settings).await;
        checked.says("interest_sole_consumer", "info", &["vanish"]);
        checked.says("interest_new_durable", "warning", &["before it is gone", "sequence 3"]);
        checked.says("interest_subject_unwanted", "warning", &["i.>", "i.a"]);
    }
}

#[tokio::test]
async fn a_stalled_consumer_that_keeps_an_interest_stream_full() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("I", json!({ "retention": "interest" })).await;
        bench.durable("I", "w", json!({})).await;
        bench.durable("I", "lazy", json!({})).await;
        bench.client.publish_many("i.x", small(7)).await;
        assert_eq!(bench.pull("I", "w", Some("+ACK")).await, 7);
        let checked = bench.check(&bench.settings("I")).await;
        checked.says("stalled_consumer", "warning", &["lazy", "ack floor is 0", "7 pending", "nobody pulls"]);
    }
}

#[tokio::test]
async fn messages_of_a_work_queue_that_have_exhausted_max_deliver() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("Q", json!({ "retention": "workqueue" })).await;
        bench.durable("Q", "w", json!({ "max_deliver": 1, "ack_wait": 300_000_000 })).await;
        bench.client.publish_many("q.x", small(4)).await;
        assert_eq!(bench.pull("Q", "w", None).await, 4);
        eventually(Duration::from_secs(10), "the server gives up on them", async || {
            // An old server looks only when somebody pulls.
            bench.pull("Q", "w", None).await;
            let info = bench.client.consumer_info("Q", "w").await;
            if info["num_ack_pending"] == 0 { Ok(()) } else { Err(info.to_string()) }
        })
        .await;
        let checked = bench.check(&bench.settings("Q")).await;
        checked.says("work_queue_max_deliver", "warning", &["max_deliver = 1", "for ever"]);
        checked.says("work_queue_exhausted", "warning", &["4 messages of stream Q", "sequences 1, 2, 3, 4"]);
        assert_eq!(bench.client.stream_info("Q").await["state"]["messages"], 4);
    }
}

#[tokio::test]
async fn filters_of_a_work_queue_that_overlap_or_leave_something_out() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("Q", json!({ "retention": "workqueue" })).await;
        bench.durable("Q", "other", json!({ "filter_subject": "q.a.*" })).await;
        let mut settings = bench.settings("Q");
        settings.set("consumer.mode", "create_if_missing").set("consumer.filter_subjects", vec!["q.a.>"]);
        let checked = bench.check(&settings).await;
        checked.says("work_queue_overlap", "refusal", &["q.a.>", "q.a.*", "other"]);
        checked.says("work_queue_subject_unwanted", "warning", &["q.>", "stay for ever"]);
        assert_eq!(checked.code, Some(78));
    }
}
