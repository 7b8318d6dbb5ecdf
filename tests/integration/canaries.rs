//! What is secret stays secret: no key, no signature and no payload value in a log at debug level, in a metric, in the health
//! page, or in a dead letter outside the fields that carry body and headers themselves.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::harness::{Daemon, RawClient, RigPlan};
use crate::reason_codes::gate_settings;

const SOON: Duration = Duration::from_secs(40);
const PAYLOAD: &str = "CANARY-PAYLOAD";
const HEADER: &str = "CANARY-HEADER";
const KEY: &[u8] = b"CANARY-KEY-CANARY-KEY-CANARY-KEY";
const SIGNATURE: &[u8] = b"CANARY-SIGNATURE-CANARY-SIGNATUR";

/// Subject, header lines and body of messages that fail in as many ways as there are.
fn messages() -> Vec<(&'static str, String, String)> {
    let signature = STANDARD.encode(SIGNATURE);
    let signed = format!(
        "Nats-Sinks-Authenticity-Algorithm: hmac-sha256\r\nNats-Sinks-Authenticity-Key-Id: k1\r\n\
         Nats-Sinks-Authenticity-Signature: {signature}\r\n"
    );
    let body = format!("{{\"id\":\"{PAYLOAD}\"}}");
    let mission = |value: &str| format!("Nats-Sinks-Mission-Metadata: {value}\r\n");
    let labels = |value: &str| format!("Nats-Sinks-Security-Labels: {value}\r\n");
    vec![
        ("src.signed.a", signed.clone(), body.clone()),
        ("src.signed.a", signed.replace("k1", HEADER), body.clone()),
        ("src.signed.a", signed.replace("hmac-sha256", HEADER), body.clone()),
        ("src.signed.a", format!("{signed}{signed}"), body.clone()),
        ("src.open.schema", String::new(), body.clone()),
        ("src.open.schema", String::new(), format!("{{{PAYLOAD}")),
        ("src.open.encrypted", String::new(), format!("{{\"_nats_sinks_encryption\":\"{PAYLOAD}\"}}")),
        ("src.open.plain", String::new(), PAYLOAD.repeat(150)),
        ("src.open.plain", mission(&format!("{{\"{HEADER}\":1,\"{HEADER}\":2}}")), body.clone()),
        ("src.open.plain", labels(&format!("{{\"{HEADER}\":\"{HEADER}\"}}")), body.clone()),
        ("src.open.plain", labels(&format!("{{\"classification\":\"{HEADER}\"}}")), body.clone()),
        ("src.open.plain", format!("X-A: {}\r\n", HEADER.repeat(40)), body.clone()),
        ("src.open.labels", format!("Nats-Sinks-Labels: {HEADER}\r\n"), body.clone()),
        ("src.open.mission", mission(&format!("{{\"{HEADER}\":\"{HEADER}\"}}")), body.clone()),
        // A value with a lone carriage return kills the client, and one that is no UTF-8 its connection.
        ("src.open.plain", format!("X-A: {HEADER}\rb\r\n"), body.clone()),
        // This one is stored.
        ("src.open.plain", format!("X-A: {HEADER}\r\n"), body),
    ]
}

#[tokio::test]
async fn neither_logs_nor_metrics_nor_dead_letters_tell_what_is_secret() {
    let rig = RigPlan::patient().start().await;
    let mut raw = RawClient::connect(&rig.server).await;
    for (subject, lines, body) in messages() {
        raw.publish_with_block(subject, format!("NATS/1.0\r\n{lines}\r\n").as_bytes(), body.as_bytes()).await;
    }
    let mut settings = gate_settings(&rig);
    settings.set("logging.filter", "debug").set("delivery.crash_limit", 10);
    let mut daemon = Daemon::start(&settings, &[("TEST_SIGNING_KEY", &STANDARD.encode(KEY))]);
    daemon.ready().await;
    rig.drained(SOON).await;
    assert_eq!(rig.dead_letters().await, (1..16).collect::<Vec<_>>(), "every message failed but the last");

    let (log, metrics) = (daemon.log(), daemon.metrics_text().await.unwrap());
    assert!(log.contains("DEBUG"), "the log is at debug level");
    let health = daemon.readiness().await.unwrap().body;
    let (key, signature) = (STANDARD.encode(KEY), STANDARD.encode(SIGNATURE));
    let everything = [PAYLOAD, HEADER, &key, &signature, "CANARY-KEY", "CANARY-SIGNATURE"];
    for (place, text) in [("log", &log), ("metrics", &metrics), ("health", &health)] {
        for canary in everything {
            assert!(!text.contains(canary), "{place} holds {canary}:\n{text}");
        }
    }
    for letter in rig.client.messages("DLQ").await {
        let mut record = letter.json();
        let whole = record.to_string();
        for canary in [&key, &signature, "CANARY-KEY", "CANARY-SIGNATURE"] {
            assert!(!whole.contains(canary) && !letter.headers.contains(canary), "{canary} in {whole}");
        }
        // These two carry the original; nothing else may quote it.
        record.as_object_mut().unwrap().retain(|name, _| {
            !["payload_base64", "headers", "headers_base64", "labels", "mission_metadata", "security_labels"]
                .contains(&name.as_str())
        });
        let facts = record.to_string();
        for canary in [PAYLOAD, HEADER] {
            assert!(!facts.contains(canary) && !letter.headers.contains(canary), "{canary} in {facts}");
        }
    }
    daemon.stop().await;
}
