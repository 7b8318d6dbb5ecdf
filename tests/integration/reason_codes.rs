//! Every reason code, produced at a real server: each arrives in its dead letter with the right stage, error type and reason.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use jetsink::reason::ReasonCode;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{Client, Daemon, RawClient, Rig, RigPlan, Settings, sequences};

const SOON: Duration = Duration::from_secs(40);

/// What is asked of each subject. Every message of [`gate_cases`] breaks exactly one of these.
const GATE: &str = r#"
    [message_authenticity]
    enabled = true
    unmatched_subject_action = "reject"
    [[message_authenticity.rules]]
    subject = "src.signed.>"
    algorithm = "hmac-sha256"
    key_id = "k1"
    key_env = "TEST_SIGNING_KEY"
    [[message_authenticity.rules]]
    subject = "src.open.>"
    enabled = false

    [security_labels]
    enabled = true
    allowed_classifications = ["open"]

    [size_policy]
    max_payload_bytes = "2000 B"
    max_header_count = 8
    max_header_name_bytes = "64 B"
    max_header_value_bytes = "400 B"
    max_headers_bytes = "1000 B"
    max_label_count = 4
    max_label_bytes = "30 B"
    max_labels_bytes = "60 B"
    max_mission_metadata_bytes = "100 B"
    max_standard_metadata_bytes = "4000 B"
    max_normalized_record_bytes = "5000 B"

    [pre_sink_policy]
    enabled = true
    unmatched_subject_action = "reject"
    [[pre_sink_policy.rules]]
    subject = "src.open.plain"
    max_payload_bytes = "1990 B"
    [[pre_sink_policy.rules]]
    subject = "src.open.priority"
    require_priority = true
    [[pre_sink_policy.rules]]
    subject = "src.open.classification"
    require_classification = true
    [[pre_sink_policy.rules]]
    subject = "src.open.labels"
    required_labels = ["audit"]
    [[pre_sink_policy.rules]]
    subject = "src.open.mission"
    require_mission_metadata = true
    allowed_mission_metadata_keys = ["name"]
    [[pre_sink_policy.rules]]
    subject = "src.open.encrypted"
    require_encrypted_payload = true
    [[pre_sink_policy.rules]]
    subject = "src.open.mqtt"
    require_mqtt_qos = 1
    [[pre_sink_policy.rules]]
    subject = "src.open.schema"
    require_json = true
    json_schema = "@SCHEMA@"
"#;

const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// One message that must be rejected.
struct Case {
    subject: &'static str,
    lines: Vec<(String, String)>,
    payload: Vec<u8>,
    stage: &'static str,
    error_type: &'static str,
    reason: &'static str,
}

fn case(
    subject: &'static str,
    lines: &[(&str, &str)],
    payload: &[u8],
    stage: &'static str,
    reason: &'static str,
) -> Case {
    let error_type = match (stage, reason) {
        (_, "mission_metadata_invalid" | "security_labels_invalid" | "security_label_not_allowed") => {
            "ValidationError"
        }
        ("size", _) => "SizePolicyViolationError",
        _ => "PolicyViolationError",
    };
    let lines = lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Case { subject, lines, payload: payload.to_vec(), stage, error_type, reason }
}

const ALGORITHM: (&str, &str) = ("Nats-Sinks-Authenticity-Algorithm", "hmac-sha256");
const KEY_ID: (&str, &str) = ("Nats-Sinks-Authenticity-Key-Id", "k1");
const SIGNATURE: (&str, &str) = ("Nats-Sinks-Authenticity-Signature", "AAAA");
const LABELS: &str = "Nats-Sinks-Labels";
const MISSION: &str = "Nats-Sinks-Mission-Metadata";
const SECURITY: &str = "Nats-Sinks-Security-Labels";

fn authenticity_cases() -> Vec<Case> {
    let signed = |lines: &[(&str, &str)], reason| case("src.signed.a", lines, b"{}", "authenticity", reason);
    vec![
        signed(&[], "algorithm_header_missing"),
        signed(&[("Nats-Sinks-Authenticity-Algorithm", "ed25519"), KEY_ID, SIGNATURE], "algorithm_mismatch"),
        signed(&[ALGORITHM, SIGNATURE], "key_id_header_missing"),
        signed(&[ALGORITHM, ("Nats-Sinks-Authenticity-Key-Id", "k2"), SIGNATURE], "key_id_mismatch"),
        signed(&[ALGORITHM, KEY_ID], "signature_header_missing"),
        signed(&[ALGORITHM, KEY_ID, SIGNATURE], "signature_invalid"),
        signed(
            &[ALGORITHM, KEY_ID, SIGNATURE, ("nats-sinks-authenticity-key-id", "k1")],
            "authenticity_header_ambiguous",
        ),
        case("src.other", &[], b"{}", "authenticity", "subject_not_covered_by_authenticity_policy"),
    ]
}

fn size_cases() -> Vec<Case> {
    let plain = |lines: &[(&str, &str)], payload: &[u8], reason| {
        case("src.open.plain", lines, payload, "size", reason)
    };
    let names = (0..9).map(|number| format!("X-{number}")).collect::<Vec<_>>();
    let many = names.iter().map(|name| (name.as_str(), "v")).collect::<Vec<_>>();
    let (long, half) = ("x".repeat(401), "x".repeat(399));
    let name = "N".repeat(65);
    let controls = "\u{1}".repeat(300);
    let label = "l".repeat(31);
    let labels = ["a", "b", "c"].map(|letter| letter.repeat(21)).join(";");
    let mission = format!("{{\"name\":\"{}\"}}", "m".repeat(100));
    vec![
        plain(&[], &[b'x'; 2001], "payload_too_large"),
        plain(&many, b"{}", "header_count_too_large"),
        plain(&[(&name, "v")], b"{}", "header_name_too_large"),
        plain(&[("X-A", &long)], b"{}", "header_value_too_large"),
        plain(&[("X-A", &half), ("X-B", &half), ("X-C", &half)], b"{}", "headers_too_large"),
        plain(&[(LABELS, "a;b;c;d;e")], b"{}", "label_count_too_large"),
        plain(&[(LABELS, &label)], b"{}", "label_too_large"),
        plain(&[(LABELS, &labels)], b"{}", "labels_too_large"),
        plain(&[(MISSION, &mission)], b"{}", "mission_metadata_too_large"),
        plain(&[(MISSION, "{\"a\":1,\"a\":2}")], b"{}", "mission_metadata_invalid"),
        plain(&[(SECURITY, "{\"colour\":\"red\"}")], b"{}", "security_labels_invalid"),
        plain(&[(SECURITY, "{\"classification\":\"closed\"}")], b"{}", "security_label_not_allowed"),
        plain(&[("X-A", &controls), ("X-B", &controls)], b"{}", "standard_metadata_too_large"),
        plain(&[("X-A", &controls)], &[0xff; 1980], "normalized_record_too_large"),
    ]
}

fn policy_cases() -> Vec<Case> {
    let policy = |subject, lines: &[(&str, &str)], payload: &[u8], reason| {
        case(subject, lines, payload, "policy", reason)
    };
    vec![
        policy("src.open.uncovered", &[], b"{}", "subject_not_covered_by_policy"),
        policy("src.open.plain", &[], &[b'x'; 1995], "payload_too_large"),
        policy("src.open.priority", &[("Nats-Sinks-Priority", " ")], b"{}", "priority_required"),
        policy("src.open.classification", &[], b"{}", "classification_required"),
        policy("src.open.labels", &[(LABELS, "audits")], b"{}", "required_label_missing"),
        policy("src.open.mission", &[], b"{}", "mission_metadata_required"),
        policy(
            "src.open.mission",
            &[(MISSION, "{\"name\":1,\"b\":2}")],
            b"{}",
            "mission_metadata_key_not_allowed",
        ),
        policy("src.open.encrypted", &[], b"{\"clear\":1}", "encrypted_payload_required"),
        policy("src.open.mqtt", &[("Nmqtt-Pub", "0")], b"{}", "mqtt_qos_too_low"),
        policy("src.open.schema", &[], b"{\"id\":1,}", "payload_not_json"),
        policy("src.open.schema", &[], b"{\"id\":\"seven\"}", "schema_violation"),
    ]
}

/// The header block as a publisher that checks nothing would write it.
fn block(lines: &[(String, String)]) -> Vec<u8> {
    let lines = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("NATS/1.0\r\n{}\r\n", lines.collect::<String>()).into_bytes()
}

/// The daemon's settings with everything that [`GATE`] asks; wants `TEST_SIGNING_KEY` in its environment.
pub(crate) fn gate_settings(rig: &Rig) -> Settings {
    let schema = rig.folder().join("order.schema.json");
    std::fs::write(&schema, r#"{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}"#)
        .unwrap();
    let mut settings = rig.settings();
    settings.merge(&Settings::parse(&GATE.replace("@SCHEMA@", schema.to_str().unwrap())));
    settings
}

async fn publish(rig: &Rig, raw: &mut RawClient, case: &Case) -> u64 {
    if case.lines.is_empty() {
        raw.publish(case.subject, &case.payload).await;
    } else {
        raw.publish_with_block(case.subject, &block(&case.lines), &case.payload).await;
    }
    rig.client.stream_info("SRC").await["state"]["last_seq"].as_u64().unwrap()
}

/// Stage, error type and reason of the dead letter of one original.
async fn verdict(client: &Client, sequence: u64) -> Value {
    let letters = client.messages("DLQ").await;
    let own = |sequence_text: &str| sequence_text.parse() == Ok(sequence);
    let mut letters =
        letters.iter().filter(|letter| letter.header("Jetsink-Stream-Sequence").is_some_and(own));
    let letter = letters.next().unwrap_or_else(|| panic!("no dead letter of {sequence}"));
    assert!(letters.next().is_none(), "two dead letters of {sequence}");
    let record = letter.json();
    assert_eq!(Some(record["reason"].as_str().unwrap()), letter.header("Jetsink-Reason"));
    assert_eq!(Some(record["stage"].as_str().unwrap()), letter.header("Jetsink-Stage"));
    assert_eq!(Some(record["error_type"].as_str().unwrap()), letter.header("Nats-Sinks-Error-Type"));
    json!([record["stage"], record["error_type"], record["reason"]])
}

/// The codes that the tests of this file see in dead letters.
const BY_GATE: fn() -> Vec<Case> =
    || [authenticity_cases(), size_cases(), policy_cases()].into_iter().flatten().collect();
const BY_SINK: &[&str] = &["name_too_long", "sink_refused", "payload_not_json"];
const BY_DELIVERY: &[&str] = &["attempts_exhausted", "suspected_crash"];
/// Seen in `undeliverable.rs` and `given_up.rs`.
const ELSEWHERE: &[&str] =
    &["undeliverable_message", "deliveries_exhausted", "terminated_elsewhere", "message_lost"];

#[test]
fn no_code_is_left_out() {
    let seen = BY_GATE()
        .iter()
        .map(|case| case.reason)
        .chain(BY_SINK.iter().chain(BY_DELIVERY).chain(ELSEWHERE).copied())
        .collect::<BTreeSet<_>>();
    let all = ReasonCode::ALL.iter().map(|code| code.as_str()).collect::<BTreeSet<_>>();
    assert_eq!(seen, all);
}

#[tokio::test]
async fn every_code_of_the_gate_arrives_in_its_dead_letter() {
    let rig = RigPlan::patient().start().await;
    let mut raw = RawClient::connect(&rig.server).await;
    let mut sent = Vec::new();
    for case in BY_GATE() {
        let sequence = publish(&rig, &mut raw, &case).await;
        sent.push((sequence, case));
    }
    let good = rig.client.publish("src.open.plain", "{}").await;
    let mut daemon = Daemon::start(&gate_settings(&rig), &[("TEST_SIGNING_KEY", KEY)]);
    daemon.ready().await;
    rig.drained(SOON).await;
    for (sequence, case) in sent {
        let expected = json!([case.stage, case.error_type, case.reason]);
        assert_eq!(verdict(&rig.client, sequence).await, expected, "message {sequence}");
    }
    assert_eq!(sequences(&rig.sink()), [good]);
    daemon.stop().await;
}

#[tokio::test]
async fn seven_bad_messages_of_seven_kinds_cost_none_of_the_93_others() {
    let rig = RigPlan::patient().start().await;
    let mut settings = gate_settings(&rig);
    settings.set("delivery.batch_size", 100);
    let mut raw = RawClient::connect(&rig.server).await;
    let wanted = [
        "signature_invalid",
        "headers_too_large",
        "mission_metadata_invalid",
        "security_label_not_allowed",
        "required_label_missing",
        "schema_violation",
        "subject_not_covered_by_authenticity_policy",
    ];
    let mut bad = Vec::new();
    let mut good = Vec::new();
    for case in BY_GATE().into_iter().filter(|case| wanted.contains(&case.reason)) {
        good.extend(rig.client.publish_many("src.open.plain", vec![b"{}".to_vec(); 13]).await);
        bad.push(publish(&rig, &mut raw, &case).await);
    }
    good.extend(rig.client.publish_many("src.open.plain", vec![b"{}".to_vec(); 2]).await);
    let daemon = Daemon::start(&settings, &[("TEST_SIGNING_KEY", KEY)]);
    rig.drained(SOON).await;
    assert_eq!((good.len(), bad.len()), (93, 7));
    assert_eq!(sequences(&rig.sink()), good);
    assert_eq!(rig.dead_letters().await, bad);
    let metrics = daemon.metrics().await.unwrap();
    for reason in wanted {
        assert_eq!(
            metrics.sum("jetsink_messages_rejected_total", &[&format!("reason=\"{reason}\"")]),
            1.0,
            "{reason}"
        );
    }
    daemon.stop().await;
}

#[tokio::test]
async fn every_code_of_a_sink_arrives_in_its_dead_letter() {
    let rig = RigPlan::patient().start().await;
    let mut settings = rig.settings();
    settings.set("sink.file.partition", "subject").set("sink.file.payload_mode", "json_only");
    // A file where the folder of a subject would be.
    std::fs::create_dir_all(rig.sink()).unwrap();
    std::fs::write(rig.sink().join("src.file"), "").unwrap();
    let long = format!("src.{}", "n".repeat(260));
    let refused = rig.client.publish("src.file", "{}").await;
    let long = rig.client.publish(&long, "{}").await;
    let not_json = rig.client.publish("src.text", "{").await;
    let good = rig.client.publish("src.text", "{}").await;
    let daemon = Daemon::start(&settings, &[]);
    rig.drained(SOON).await;
    assert_eq!(verdict(&rig.client, refused).await, json!(["sink", "PermanentSinkError", "sink_refused"]));
    assert_eq!(verdict(&rig.client, long).await, json!(["sink", "PermanentSinkError", "name_too_long"]));
    assert_eq!(
        verdict(&rig.client, not_json).await,
        json!(["sink", "SerializationError", "payload_not_json"])
    );
    assert_eq!(sequences(&rig.sink()), [good]);
    daemon.stop().await;
}

/// A folder that has the name of one record's file keeps that record from ever being written, while the sink works for all
/// others.
#[tokio::test]
async fn a_record_that_alone_fails_again_and_again_is_dead_lettered_as_exhausted() {
    let rig = RigPlan::patient().start().await;
    let mut settings = rig.settings();
    settings.set("sink.file.layout", "one_file_per_message").set("delivery.retry.max", "300ms");
    let blocked = rig.client.publish("src.a", "{}").await;
    let answer = rig.client.api("STREAM.MSG.GET.SRC", &json!({ "seq": blocked })).await;
    let stored_at: jiff::Timestamp = answer["message"]["time"].as_str().unwrap().parse().unwrap();
    let name = format!("SRC-{blocked:020}-{}.json", stored_at.as_nanosecond());
    std::fs::create_dir_all(rig.sink().join(name).join("in-the-way")).unwrap();
    let good = rig.client.publish_many("src.a", vec![b"{}".to_vec(); 30]).await;
    let daemon = Daemon::start(&settings, &[]);
    rig.drained(SOON).await;
    assert_eq!(
        verdict(&rig.client, blocked).await,
        json!(["delivery", "AttemptsExhaustedError", "attempts_exhausted"])
    );
    assert_eq!(rig.dead_letters().await, [blocked]);
    let files = std::fs::read_dir(rig.sink()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(files.filter(|path| path.is_file()).count(), good.len());
    daemon.stop().await;
}

#[tokio::test]
async fn a_message_that_arrived_too_often_is_dead_lettered_unread() {
    let rig = RigPlan::patient().start().await;
    let sequence = rig.client.publish("src.a", "{").await;
    // Twice somebody took it and gave it back, as a client does that dies of it.
    let client = rig.client.core();
    let inbox = client.new_inbox();
    let mut taken = client.subscribe(inbox.clone()).await.unwrap();
    for _ in 0..2 {
        let pull = client.publish_with_reply("$JS.API.CONSUMER.MSG.NEXT.SRC.w", inbox.clone(), "1".into());
        pull.await.unwrap();
        let delivery = timeout(SOON, taken.next()).await.expect("a delivery").unwrap();
        client.publish(delivery.reply.unwrap(), "-NAK".into()).await.unwrap();
    }
    let good = rig.client.publish("src.a", "{}").await;
    let daemon = rig.daemon();
    rig.drained(SOON).await;
    assert_eq!(
        verdict(&rig.client, sequence).await,
        json!(["delivery", "UndeliverableMessageError", "suspected_crash"])
    );
    assert_eq!(sequences(&rig.sink()), [good]);
    daemon.stop().await;
}
