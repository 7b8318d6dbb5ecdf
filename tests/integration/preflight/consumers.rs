//! The durable: waits, limits, shape; and the server's version.

use serde_json::json;

use super::bench::Bench;
use crate::harness::ServerKind;

const KINDS: [ServerKind; 2] = [ServerKind::New, ServerKind::Old];

#[tokio::test]
async fn waits_that_are_replaced_or_too_short() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("B", json!({})).await;
        bench
            .durable(
                "B",
                "w",
                json!({ "backoff": [2_000_000_000_u64, 5_000_000_000_u64], "max_deliver": 50 }),
            )
            .await;
        let checked = bench.check(&bench.settings("B")).await;
        checked.says("backoff_replaces_ack_wait", "warning", &["[2s, 5s]"]);
        bench.stream("C", json!({})).await;
        bench.durable("C", "w", json!({ "ack_wait": 500_000_000 })).await;
        let checked = bench.check(&bench.settings("C")).await;
        checked.says("ack_wait_too_short", "warning", &["500ms"]);
        let mut without_leases = bench.settings("C");
        without_leases.set("delivery.in_progress", false).set("delivery.write_timeout", "1s");
        let checked = bench.check(&without_leases).await;
        checked.says("ack_wait_too_short", "refusal", &["500ms", "1s"]);
        assert_eq!(checked.code, Some(78));
    }
}

#[tokio::test]
async fn limits_that_do_not_fit_the_configuration() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("L", json!({})).await;
        let limits = json!({ "max_ack_pending": 20, "max_waiting": 1, "max_batch": 5, "max_bytes": 1000,
                             "max_expires": 2_000_000_000_u64, "max_deliver": 3 });
        bench.durable("L", "w", limits).await;
        let checked = bench.check(&bench.settings("L")).await;
        checked.says("max_ack_pending_too_small", "warning", &["is 20", "need 40"]);
        checked.says("max_deliver_too_small", "warning", &["max_deliver is 3", "crash_limit 10"]);
        for word in
            ["ask for 1000 bytes", "ask for 5 messages", "max_waiting of the durable is 1", "open for 2s"]
        {
            checked.says("pull_limit", "warning", &[word]);
        }
        checked.says("max_deliver_unwatched", "warning", &["MAX_DELIVERIES.L.w"]);
        let captured = json!({ "name": "ADV", "subjects": ["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"] });
        bench.client.create_stream(&captured).await;
        bench.check(&bench.settings("L")).await.is_silent_about("max_deliver_unwatched");
    }
}

#[tokio::test]
async fn shapes_that_surprise() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("H", json!({})).await;
        let config = json!({ "headers_only": true, "inactive_threshold": 3_600_000_000_000_u64 });
        bench.durable("H", "w", config).await;
        let mut settings = bench.settings("H");
        let checked = bench.check(&settings).await;
        checked.says("durable_differs", "refusal", &["headers_only"]);
        checked.says("inactive_threshold", "warning", &["3600s"]);
        settings.set("consumer.headers_only", "expected");
        bench.check(&settings).await.says("headers_only", "info", &["bodies"]);
        settings.set("consumer.durable", "absent");
        bench.check(&settings).await.says("durable_missing", "refusal", &["absent"]);
        settings.set("consumer.stream", "NONE");
        bench.check(&settings).await.says("stream_missing", "refusal", &["NONE"]);
        if kind == ServerKind::New {
            bench.stream("Z", json!({})).await;
            bench.durable("Z", "w", json!({})).await;
            let pause = json!({ "pause_until": "2099-01-01T00:00:00Z" });
            bench.client.api("CONSUMER.PAUSE.Z.w", &pause).await;
            bench.check(&bench.settings("Z")).await.says("durable_paused", "warning", &["paused"]);
        }
    }
}

#[tokio::test]
async fn an_old_server_is_named_where_its_mistakes_concern_the_stream() {
    for kind in KINDS {
        let bench = Bench::start(kind).await;
        bench.stream("Q", json!({ "retention": "workqueue" })).await;
        bench.durable("Q", "w", json!({ "max_deliver": 50 })).await;
        bench.stream("I", json!({ "retention": "interest" })).await;
        bench.durable("I", "w", json!({ "max_deliver": 50 })).await;
        let (queue, interest) =
            (bench.check(&bench.settings("Q")).await, bench.check(&bench.settings("I")).await);
        if kind == ServerKind::Old {
            queue.says("server_retention_bug", "warning", &["#8102", "2.12.9 and 2.14.1"]);
            interest.says("server_retention_bug", "warning", &["#6575", "2.10.26"]);
        } else {
            queue.is_silent_about("server_retention_bug");
            interest.is_silent_about("server_retention_bug");
        }
    }
}
