//! Field cases 1 and 3: messages whose bytes end the client are isolated, and their neighbours are spared.

use std::fs;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::harness::{
    Daemon, RawClient, Rig, RigPlan, ServerKind, Settings, eventually, oversized, sequences, stays,
};

const SOON: Duration = Duration::from_secs(40);
const LONE_CR: &[u8] = b"NATS/1.0\r\nX-A: a\rb\r\n\r\n";
const NOT_UTF8: &[u8] = b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n";
/// The variants of field case 3: each ends the connection at every delivery.
const VARIANTS: [&[u8]; 4] = [
    NOT_UTF8,
    b"NATS/1.0\r\nA: 1\r\nno colon\r\n\r\n",
    b"NATS/1.0\r\nA B: 1\r\n\r\n",
    "NATS/1.0\r\nÜ: 1\r\n\r\n".as_bytes(),
];
const BODY: &[u8] = b"{\"poison\":\"\x00\xff\"}";

/// A stop waits for open pulls.
fn settings(rig: &Rig) -> Settings {
    let mut settings = rig.settings();
    settings.set("consumer.expires", "1s");
    settings
}

fn daemon(rig: &Rig) -> Daemon {
    Daemon::start(&settings(rig), &[])
}

/// The dead letter of a message of `SRC`.
async fn letter(rig: &Rig, sequence: u64) -> Value {
    let letters = rig.client.messages("DLQ").await;
    let sequence = sequence.to_string();
    let mut found =
        letters.iter().filter(|letter| letter.header("Jetsink-Stream-Sequence") == Some(&*sequence));
    let letter = found.next().unwrap_or_else(|| panic!("{sequence} has a dead letter"));
    assert!(found.next().is_none(), "{sequence} has one dead letter");
    assert_eq!(letter.header("Jetsink-Reason"), Some("undeliverable_message"));
    assert_eq!(letter.header("Jetsink-Stage"), Some("delivery"));
    assert_eq!(letter.header("Nats-Sinks-Error-Type"), Some("UndeliverableMessageError"));
    letter.json()
}

fn bytes(letter: &Value, field: &str) -> Vec<u8> {
    STANDARD.decode(letter[field].as_str().unwrap()).unwrap()
}

/// Everything is settled, these sequences are dead-lettered and all others up to `last` are in the sink, each once.
async fn isolated(rig: &Rig, poisons: &[u64], last: u64) {
    rig.drained(SOON).await;
    let good = (1..=last).filter(|sequence| !poisons.contains(sequence)).collect::<Vec<_>>();
    rig.sink_holds(&good, SOON).await;
    assert_eq!(rig.dead_letters().await, poisons);
    let info = rig.client.consumer_info("SRC", "w").await;
    assert_eq!(info["ack_floor"]["stream_seq"], last, "everything is settled: {info}");
}

#[tokio::test]
async fn a_lone_carriage_return_is_dead_lettered_as_raw_bytes_and_the_flow_goes_on() {
    let rig = Rig::start().await;
    rig.client.publish("src.a", "{}").await;
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_with_block("src.a", LONE_CR, BODY).await;
    rig.client.publish("src.a", "{}").await;
    let mut daemon = self::daemon(&rig);
    isolated(&rig, &[2], 3).await;
    let letter = letter(&rig, 2).await;
    assert_eq!(bytes(&letter, "headers_base64"), LONE_CR);
    assert_eq!(bytes(&letter, "payload_base64"), BODY);
    assert_eq!(letter["subject"], "src.a");
    assert_eq!(letter["error"], "the header value on line 2 has a lone carriage return");
    daemon.ready().await;
    let metrics = daemon.metrics().await.unwrap();
    assert_eq!(metrics.sum("jetsink_undeliverable_messages_total", &[]), 1.0);
    assert!(metrics.sum("jetsink_client_deaths_total", &[]) >= 1.0);
    let rejected = metrics.sum("jetsink_messages_rejected_total", &["reason=\"undeliverable_message\""]);
    assert_eq!(rejected, 1.0);
    rig.client.publish("src.a", "{}").await;
    isolated(&rig, &[2], 4).await;
    daemon.stop().await;
}

/// Field case 3: the poison at 2, six good ones behind it.
async fn six_good_ones_survive(block: &'static [u8], batch: i64, max_deliver: i64, kind: ServerKind) {
    let mut plan = RigPlan::default().durable("max_deliver", max_deliver);
    plan.server.kind = kind;
    let rig = plan.start().await;
    rig.client.publish("src.a", "{}").await;
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_with_block("src.a", block, BODY).await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 6]).await;
    let mut settings = self::settings(&rig);
    settings.set("delivery.batch_size", batch);
    let mut daemon = Daemon::start(&settings, &[]);
    isolated(&rig, &[2], 8).await;
    let letter = letter(&rig, 2).await;
    assert_eq!(bytes(&letter, "headers_base64"), block);
    assert_eq!(bytes(&letter, "payload_base64"), BODY);
    daemon.ready().await;
    daemon.stop().await;
}

#[tokio::test]
async fn broken_header_blocks_cost_no_neighbour() {
    let mut cases = Vec::new();
    for block in VARIANTS {
        for (batch, max_deliver) in [(1, 4), (1, -1), (10, 4), (10, -1)] {
            cases.push(six_good_ones_survive(block, batch, max_deliver, ServerKind::New));
        }
    }
    futures_util::stream::iter(cases).buffer_unordered(8).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn the_old_server_has_the_same_trouble_and_the_same_cure() {
    six_good_ones_survive(NOT_UTF8, 10, 4, ServerKind::Old).await;
}

#[tokio::test]
async fn what_the_client_can_read_passes_untouched() {
    let rig = Rig::start().await;
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_with_block("src.a", b"NATS/1.0\r\nA: one\r\n two\r\n\r\n", b"{}").await;
    raw.publish_with_block("src.a", b"NATS/1.0 409 Consumer Deleted\r\nA: 1\r\n\r\n", b"{}").await;
    raw.publish("src.\x01", b"{}").await;
    let mut daemon = self::daemon(&rig);
    isolated(&rig, &[], 3).await;
    daemon.ready().await;
    assert_eq!(daemon.metrics().await.unwrap().sum("jetsink_client_deaths_total", &[]), 0.0);
    daemon.stop().await;
}

#[tokio::test]
async fn a_subject_that_is_not_utf8_is_isolated_as_well() {
    let rig = Rig::start().await;
    rig.client.publish("src.a", "{}").await;
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_bytes(b"src.\xff\xfe", None, BODY).await;
    raw.publish_bytes("src.\u{fffd}".as_bytes(), None, b"{}").await;
    raw.publish_bytes(b"src.a\x0bb", Some(b"NATS/1.0\r\nA: 1\r\n\r\n"), BODY).await;
    rig.client.publish("src.a", "{}").await;
    let daemon = self::daemon(&rig);
    isolated(&rig, &[2, 4], 5).await;
    let letter = letter(&rig, 2).await;
    assert_eq!(bytes(&letter, "payload_base64"), BODY);
    assert_eq!(letter["subject"], "src.\u{fffd}\u{fffd}");
    assert!(letter["error"].as_str().unwrap().contains("not UTF-8"), "{letter}");
    daemon.stop().await;
}

#[tokio::test]
async fn twenty_in_a_row_do_not_stop_the_flow() {
    let rig = Rig::start().await;
    let mut raw = RawClient::connect(&rig.server).await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 5]).await;
    for number in 0..20 {
        // The two ways a client dies alternate.
        let block = if number % 2 == 0 { LONE_CR } else { VARIANTS[number % 4] };
        raw.publish_with_block("src.a", block, BODY).await;
    }
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 5]).await;
    let mut daemon = self::daemon(&rig);
    isolated(&rig, &(6..=25).collect::<Vec<_>>(), 30).await;
    daemon.ready().await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_that_is_killed_in_the_middle_of_it_goes_on_after_its_start() {
    let rig = Rig::start().await;
    let mut raw = RawClient::connect(&rig.server).await;
    let mut poisons = Vec::new();
    for number in 0..30_u64 {
        if number % 3 == 1 {
            raw.publish_with_block("src.a", NOT_UTF8, BODY).await;
            poisons.push(number + 1);
        } else {
            rig.client.publish("src.a", "{}").await;
        }
    }
    for letters in [1, 4] {
        let mut daemon = self::daemon(&rig);
        eventually(SOON, "some are isolated", async || {
            let found = rig.dead_letters().await.len();
            if found >= letters { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
        daemon.kill();
    }
    let daemon = self::daemon(&rig);
    isolated(&rig, &poisons, 30).await;
    daemon.stop().await;
}

#[tokio::test]
async fn on_a_work_queue_the_raw_message_leaves_its_stream_only_for_its_dead_letter() {
    let rig = RigPlan::default().source("retention", "workqueue").start().await;
    let mut raw = RawClient::connect(&rig.server).await;
    let body = vec![0xAB_u8; 65_536 - NOT_UTF8.len()];
    raw.publish_with_block("src.a", NOT_UTF8, &body).await;
    rig.client.publish("src.a", "{}").await;
    let daemon = self::daemon(&rig);
    rig.drained(SOON).await;
    daemon.stop().await;
    assert_eq!(sequences(&rig.sink()), [2]);
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 0);
    let parts = rig.client.messages("DLQ").await;
    assert_eq!(parts.len(), 2, "too large for one letter");
    let data = parts.iter().flat_map(|part| part.payload.clone()).collect::<Vec<u8>>();
    assert_eq!(data, [NOT_UTF8, &body].concat());
    assert_eq!(parts[0].header("Jetsink-Headers-Unread"), Some("true"));
}

const USERS: &str = r#"
authorization {
    users: [
        { user: admin, password: secret-of-admin }
        { user: daemon, password: secret-of-daemon, permissions: { publish: { deny: ["$JS.API.STREAM.MSG.GET.>"] } } }
    ]
}"#;

/// Without the permission to read the stream: the good ones arrive, the poison stays on its stream, is named, and kills
/// nothing any more.
async fn held_back_where_it_cannot_be_read(block: &'static [u8], max_deliver: i64) {
    let mut plan = RigPlan::default().server(USERS).durable("max_deliver", max_deliver);
    plan.login = Some(("admin", "secret-of-admin"));
    let rig = plan.start().await;
    rig.client.publish("src.a", "{}").await;
    let mut raw = RawClient::connect_as(&rig.server, "admin", "secret-of-admin").await;
    raw.publish_with_block("src.a", block, BODY).await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 6]).await;
    let password = rig.folder().join("password");
    fs::write(&password, "secret-of-daemon\n").unwrap();
    let mut settings = self::settings(&rig);
    settings.set("nats.user", "daemon").set("nats.password_file", password.to_str().unwrap());
    let mut daemon = Daemon::start(&settings, &[]);
    rig.sink_holds(&[1, 3, 4, 5, 6, 7, 8], SOON).await;
    let held = async |daemon: &Daemon| {
        daemon.metrics().await.map(|metrics| metrics.sum("jetsink_undeliverable_held_messages", &[]))
    };
    eventually(SOON, "the poison is held back", async || {
        let held = held(&daemon).await?;
        if held == 1.0 { Ok(()) } else { Err(held.to_string()) }
    })
    .await;
    daemon.not_ready_because("undeliverable_message", SOON).await;
    let log = daemon.log();
    assert!(log.contains("$JS.API.STREAM.MSG.GET.SRC") && log.contains("stream_sequence=2"), "{log}");
    let connects = async |daemon: &Daemon| {
        daemon.metrics().await.map(|metrics| metrics.sum("jetsink_connects_total", &[]))
    };
    let before = connects(&daemon).await.unwrap();
    stays(Duration::from_secs(5), "no connection is lost any more", async || {
        let now = connects(&daemon).await?;
        if now == before { Ok(()) } else { Err(format!("{before} {now}")) }
    })
    .await;
    let sequence = rig.client.publish("src.a", "{}").await;
    rig.sink_holds(&[1, 3, 4, 5, 6, 7, 8, sequence], SOON).await;
    eventually(SOON, "everything but the poison is settled", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        let left = (&info["num_ack_pending"], &info["ack_floor"]["stream_seq"]);
        if left == (&1.into(), &1.into()) { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    daemon.stop().await;
    // With the permission, the next start finds it.
    rig.server.configure(&format!(
        "max_payload: 65536\n{}",
        USERS.replace(", permissions: { publish: { deny: [\"$JS.API.STREAM.MSG.GET.>\"] } }", "")
    ));
    rig.server.reload();
    let daemon = Daemon::start(&settings, &[]);
    isolated(&rig, &[2], sequence).await;
    daemon.stop().await;
}

#[tokio::test]
async fn without_the_permission_to_read_it_is_named_and_held_back() {
    tokio::join!(
        held_back_where_it_cannot_be_read(NOT_UTF8, 4),
        held_back_where_it_cannot_be_read(NOT_UTF8, -1),
        held_back_where_it_cannot_be_read(LONE_CR, -1),
    );
}

#[tokio::test]
async fn while_the_dead_letter_stream_is_gone_the_good_ones_flow_and_nothing_is_lost() {
    let plan = RigPlan::default();
    let rig = plan.clone().start().await;
    let mut daemon = self::daemon(&rig);
    daemon.ready().await;
    rig.client.api("STREAM.DELETE.DLQ", &Value::Null).await;
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_with_block("src.a", NOT_UTF8, BODY).await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 5]).await;
    rig.sink_holds(&[2, 3, 4, 5, 6], SOON).await;
    daemon.not_ready_because("dead_letter_unavailable", SOON).await;
    // Longer than four ack waits: without a lease the poison would have used its deliveries up.
    stays(Duration::from_secs(10), "the poison is parked and settled by nobody", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        if info["num_ack_pending"] == 1 { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
    rig.client.create_stream(&plan.dead_letters).await;
    isolated(&rig, &[1], 6).await;
    let deaths = daemon.metrics().await.unwrap().sum("jetsink_client_deaths_total", &[]);
    assert!(deaths <= 2.0, "the lease keeps it from coming again: {deaths} deaths");
    daemon.ready().await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_window_above_ten_thousand_is_read_in_several_searches() {
    let plan = RigPlan::patient().durable("max_ack_pending", 2000).durable("filter_subject", "src.a");
    let rig = plan.clone().start().await;
    let mut settings = rig.settings_for_small();
    settings.set("consumer.expires", "1s").set("delivery.batch_size", 500).set("delivery.crash_limit", 100);
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    // A rejection that waits for its dead letter keeps the ack floor at 0.
    rig.client.api("STREAM.DELETE.DLQ", &Value::Null).await;
    rig.client.publish_many("src.a", oversized(1)).await;
    rig.client.publish_many("src.other", vec![b"{}".to_vec(); 500]).await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 10_500]).await;
    eventually(SOON, "the good ones are written", async || {
        let found = sequences(&rig.sink()).len();
        if found == 10_500 { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_with_block("src.a", NOT_UTF8, BODY).await;
    raw.publish_with_block("src.other", NOT_UTF8, BODY).await;
    eventually(SOON, "the poison is found", async || {
        let found = daemon.metrics().await?.sum("jetsink_undeliverable_messages_total", &[]);
        if found == 1.0 { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    assert!(daemon.log().contains("the next search goes on there"), "{}", daemon.log());
    rig.client.create_stream(&plan.dead_letters).await;
    rig.drained(SOON).await;
    assert_eq!(rig.dead_letters().await, [1, 11_002], "not the one of another subject");
    daemon.ready().await;
    daemon.stop().await;
}
