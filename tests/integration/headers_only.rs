//! Field case 14: whether bodies are left out is what the durable's configuration says, never what a header says.

use std::time::Duration;

use async_nats::HeaderMap;

use crate::harness::{Daemon, Rig, RigPlan, whole_records};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_durable_that_leaves_bodies_out_is_refused_unless_it_is_expected() {
    let rig = RigPlan::default().durable("headers_only", true).start().await;
    rig.client.publish("src.a", vec![b'x'; 5000]).await;
    let log = rig.daemon().refuses().await;
    assert!(log.contains("headers_only"), "{log}");
    assert_eq!(rig.client.consumer_info("SRC", "w").await["delivered"]["consumer_seq"], 0);
}

#[tokio::test]
async fn when_expected_the_records_say_that_the_bodies_are_not_there() {
    let rig = RigPlan::default().durable("headers_only", true).start().await;
    rig.client.publish("src.a", vec![b'x'; 5000]).await;
    rig.client.publish("src.a", "").await;
    let mut settings = rig.settings();
    settings.set("consumer.headers_only", "expected");
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    let records = whole_records(&rig.sink());
    assert_eq!(records.len(), 2);
    for (record, size) in records.iter().zip([5000, 0]) {
        let text = record.json.to_string();
        assert!(text.contains("omitted"), "{text}");
        assert!(text.contains(&format!("\"original_size_bytes\":{size}")), "{text}");
        assert!(record.json["payload"].is_null(), "{text}");
    }
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}

#[tokio::test]
async fn a_forged_size_header_on_an_ordinary_durable_changes_nothing() {
    let rig = Rig::start().await;
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Size", "5000");
    rig.client.publish_with("src.a", headers.clone(), "").await;
    rig.client.publish_with("src.a", headers, "{\"a\":1}").await;
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    let records = whole_records(&rig.sink());
    assert_eq!(records[0].json["payload"]["_nats_sinks"]["size_bytes"], 0);
    assert_eq!(records[1].json["payload"]["a"], 1);
    for record in records {
        assert_eq!(record.json["headers"]["Nats-Msg-Size"], "5000");
        assert!(record.json.get("payload_omitted").is_none(), "{}", record.json);
    }
}
