//! Where the stream's messages come from.

use std::time::Duration;

use serde_json::json;

use super::bench::Bench;
use crate::harness::{Daemon, ServerKind};

#[tokio::test]
async fn mirrors_sources_and_transforms_are_named() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let bench = Bench::start(kind).await;
        bench.stream("A", json!({})).await;
        bench
            .client
            .create_stream(&json!({ "name": "M", "mirror": { "name": "A" }, "storage": "file" }))
            .await;
        bench
            .client
            .create_stream(&json!({ "name": "S", "sources": [{ "name": "A" }], "storage": "file" }))
            .await;
        for stream in ["M", "S"] {
            bench.durable(stream, "w", json!({})).await;
        }
        let mirror = bench.check(&bench.settings("M")).await;
        mirror.says("stream_is_mirror", "info", &["mirror of A", "idempotency key"]);
        let sourced = bench.check(&bench.settings("S")).await;
        sourced.says("stream_has_sources", "info", &["from A", "two idempotency keys"]);
        if kind == ServerKind::New {
            let transform = json!({ "src": "t.>", "dest": "u.>" });
            bench.stream("T", json!({ "subject_transform": transform })).await;
            bench.durable("T", "w", json!({})).await;
            let rewritten = bench.check(&bench.settings("T")).await;
            rewritten.says("subject_transform", "info", &["rewrites subjects", "idempotency key"]);
            rewritten.is_healthy();
        }
    }
}

#[tokio::test]
async fn the_mqtt_gateways_own_streams_are_refused_by_check_and_daemon() {
    let bench = Bench::start(ServerKind::New).await;
    let mut settings = bench.settings("A");
    settings.set("consumer.stream", "$MQTT_msgs");
    let ran = bench.run(&settings, &["check", "--connect"]).await;
    assert!(ran.code == Some(78) && ran.err.contains("MQTT"), "{ran:?}");
    let gateway = json!({ "name": "$MQTT_msgs", "subjects": ["$MQTT.msgs.>"] });
    bench.client.create_stream(&gateway).await;
    bench.stream("F", json!({ "sources": [{ "name": "$MQTT_msgs" }] })).await;
    bench.durable("F", "w", json!({})).await;
    let checked = bench.check(&bench.settings("F")).await;
    checked.says("mqtt_stream", "refusal", &["$MQTT_msgs"]);
    assert_eq!(checked.code, Some(78));
    let mut daemon = Daemon::start(&bench.settings("F"), &[]);
    assert_eq!(daemon.exit_code(Duration::from_secs(20)).await, Some(78), "{}", daemon.log());
    assert!(daemon.log().contains("MQTT gateway"), "{}", daemon.log());
}
