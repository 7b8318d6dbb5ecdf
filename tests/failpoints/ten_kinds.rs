//! Poison messages of ten kinds among nine times as many good ones: each has one dead letter, every good one is written
//! once, nothing is left, and nobody but the service manager starts the daemon again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use async_nats::HeaderMap;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{Daemon, RawClient, Rig, RigPlan, Settings, eventually, oversized, small};

/// The server gives up after this many deliveries, the daemon at its usual limit of 10.
const MAX_DELIVER: u64 = 12;
/// Nine hundred good messages and a hundred poison ones, times this: `JETSINK_TEN_KINDS`, by default 1; 10 is the whole proof.
static SCALE: LazyLock<usize> =
    LazyLock::new(|| std::env::var("JETSINK_TEN_KINDS").map_or(1, |text| text.parse().unwrap()));
const GOOD: usize = 900;
const SIGNATURES: usize = 13;
const LARGE: usize = 13;
const NOT_JSON: usize = 13;
const LONE_CR: usize = 6;
const NO_UTF8: usize = 6;
const SPENT: usize = 12;
const REFUSED: usize = 13;
/// It costs nine lives, whatever the scale; the exhausted ones make up for it.
const DEADLY: usize = 1;
const EXHAUSTED: usize = 11;
const TERMINATED: usize = 13;
const POISON: usize = 100;
const DONE: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(30);

fn times(count: usize) -> usize {
    count * *SCALE
}

/// Reason codes by sequence.
type Poison = BTreeMap<u64, &'static str>;

fn settings(rig: &Rig) -> Settings {
    let mut settings = rig.settings();
    settings.merge(&Settings::parse(
        r#"
        [message_authenticity]
        enabled = true
        unmatched_subject_action = "allow"
        [[message_authenticity.rules]]
        subject = "src.signed"
        algorithm = "hmac-sha256"
        key_id = "k1"
        key_env = "TEST_SIGNING_KEY"
        [pre_sink_policy]
        enabled = true
        unmatched_subject_action = "allow"
        [[pre_sink_policy.rules]]
        subject = "src.json"
        require_json = true
        "#,
    ));
    settings
        .set("size_policy.max_payload_bytes", "1 KiB")
        .set("consumer.expires", "1s")
        .set("delivery.batch_size", 100)
        .set("delivery.crash_limit", 10)
        .set("delivery.retry.max", "300ms")
        .set("dead_letter.advisory_stream", "ADV")
        .set("sink.file.layout", "one_file_per_message")
        .set("sink.file.payload_mode", "json_only");
    settings
}

async fn make_advisories(rig: &Rig) {
    let subjects =
        ["MAX_DELIVERIES", "MSG_TERMINATED"].map(|kind| format!("$JS.EVENT.ADVISORY.CONSUMER.{kind}.SRC.w"));
    rig.client.create_stream(&json!({ "name": "ADV", "subjects": subjects, "storage": "file" })).await;
    let durable = json!({ "durable_name": "jetsink-SRC-w", "ack_policy": "explicit",
                          "ack_wait": 2_000_000_000_u64, "max_deliver": -1,
                          "filter_subject": "$JS.EVENT.ADVISORY.CONSUMER.*.SRC.w" });
    rig.client.create_consumer("ADV", &durable).await;
}

/// Somebody else takes these as often as the server allows, and terminates the others.
async fn spend_and_terminate(rig: &Rig, poison: &Poison) {
    let client = rig.client.core();
    let inbox = client.new_inbox();
    let mut taken = client.subscribe(inbox.clone()).await.unwrap();
    let pull = async |body: Value| {
        let subject = "$JS.API.CONSUMER.MSG.NEXT.SRC.w";
        client.publish_with_reply(subject, inbox.clone(), body.to_string().into()).await.unwrap();
    };
    for round in 0..MAX_DELIVER {
        let count = if round == 0 { times(SPENT) + times(TERMINATED) } else { times(SPENT) };
        pull(json!({ "batch": count, "expires": 20_000_000_000_u64 })).await;
        for _ in 0..count {
            let delivery = timeout(SOON, taken.next()).await.expect("a delivery").unwrap();
            let reply = delivery.reply.unwrap();
            let sequence = reply.split('.').nth(5).unwrap().parse::<u64>().unwrap();
            let word = if poison[&sequence] == "terminated_elsewhere" { "+TERM gone bad" } else { "-NAK" };
            client.publish(reply, word.into()).await.unwrap();
        }
    }
    eventually(SOON, "the server has given up on all of them", async || {
        // It looks at the deliveries of a message when somebody pulls.
        pull(json!({ "batch": 1, "no_wait": true })).await;
        let stored = rig.client.stream_info("ADV").await["state"]["messages"].as_u64().unwrap();
        if stored == (times(SPENT) + times(TERMINATED)) as u64 { Ok(()) } else { Err(stored.to_string()) }
    })
    .await;
}

/// A folder that has the name of the record's file.
async fn stand_in_the_way(rig: &Rig, sequence: u64) {
    let answer = rig.client.api("STREAM.MSG.GET.SRC", &json!({ "seq": sequence })).await;
    let stored_at: jiff::Timestamp = answer["message"]["time"].as_str().unwrap().parse().unwrap();
    let name = format!("SRC-{sequence:020}-{}.json", stored_at.as_nanosecond());
    std::fs::create_dir_all(rig.sink().join(name).join("in-the-way")).unwrap();
}

/// Everything but the first two kinds, spread among good messages.
async fn publish_the_rest(rig: &Rig, poison: &mut Poison) -> Vec<u64> {
    let mut raw = RawClient::connect(&rig.server).await;
    let mut signature = HeaderMap::new();
    signature.insert("Nats-Sinks-Authenticity-Algorithm", "hmac-sha256");
    signature.insert("Nats-Sinks-Authenticity-Key-Id", "k1");
    signature.insert("Nats-Sinks-Authenticity-Signature", "AAAA");
    let last = async || rig.client.stream_info("SRC").await["state"]["last_seq"].as_u64().unwrap();
    let mut good = Vec::new();
    let rounds = times(SIGNATURES);
    for round in 0..rounds {
        let share = |count: usize| (round + 1) * count / rounds - round * count / rounds;
        good.extend(rig.client.publish_many("src.good", small(share(times(GOOD)))).await);
        for _ in 0..share(times(SIGNATURES)) {
            let sequence = rig.client.publish_with("src.signed", signature.clone(), "{}").await;
            poison.insert(sequence, "signature_invalid");
        }
        for (count, subject, body, reason) in [
            (times(LARGE), "src.large", oversized(1).remove(0), "payload_too_large"),
            (times(NOT_JSON), "src.json", b"{".to_vec(), "payload_not_json"),
            (times(REFUSED), "src.refused", b"not json".to_vec(), "payload_not_json"),
            (DEADLY, "src.deadly", b"BOOM".to_vec(), "suspected_crash"),
            (times(EXHAUSTED) - DEADLY, "src.blocked", b"{}".to_vec(), "attempts_exhausted"),
        ] {
            for sequence in rig.client.publish_many(subject, vec![body; share(count)]).await {
                poison.insert(sequence, reason);
                if reason == "attempts_exhausted" {
                    stand_in_the_way(rig, sequence).await;
                }
            }
        }
        for (count, block) in [
            (times(LONE_CR), &b"NATS/1.0\r\nX-A: a\rb\r\n\r\n"[..]),
            (times(NO_UTF8), b"NATS/1.0\r\nX-A: \xff\xfe\r\n\r\n"),
        ] {
            for _ in 0..share(count) {
                raw.publish_with_block("src.raw", block, b"{}").await;
                poison.insert(last().await, "undeliverable_message");
            }
        }
    }
    good
}

/// The sequences that have a file of their own.
fn written(directory: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().unwrap().is_file());
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut sequences = files
        .map(name)
        .filter_map(|name| name.strip_prefix("SRC-")?.split('-').next()?.parse::<u64>().ok())
        .collect::<Vec<_>>();
    sequences.sort_unstable();
    sequences
}

/// What a service manager does: starts it again when it has died, until nothing is left. Gives the daemon and its lives.
async fn keep_running(rig: &Rig, settings: &Settings, letters: usize) -> (Daemon, usize) {
    let environment = [
        ("JETSINK_FAILPOINT", "gate.boom"),
        ("TEST_SIGNING_KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
    ];
    let mut daemon = Daemon::start(settings, &environment);
    let mut lives = 1;
    eventually(DONE, "nothing is left", async || {
        if daemon.ended().is_some() {
            daemon = Daemon::start(settings, &environment);
            lives += 1;
        }
        let info = rig.client.consumer_info("SRC", "w").await;
        let advisories = rig.client.consumer_info("ADV", "jetsink-SRC-w").await;
        let stored = rig.client.stream_info("DLQ").await["state"]["messages"].as_u64().unwrap();
        let left = [&info, &advisories]
            .map(|info| info["num_pending"].as_u64().unwrap() + info["num_ack_pending"].as_u64().unwrap());
        let is_done = left == [0, 0] && stored >= letters as u64;
        if is_done { Ok(()) } else { Err(format!("{left:?} left, {stored} letters, {lives} lives")) }
    })
    .await;
    (daemon, lives)
}

#[tokio::test]
async fn poison_messages_of_ten_kinds_cost_none_of_the_good_ones() {
    let plan = RigPlan::default().durable("max_deliver", MAX_DELIVER).durable("ack_wait", 1_000_000_000_u64);
    let rig = plan.start().await;
    make_advisories(&rig).await;
    let mut poison = Poison::new();
    for (count, reason) in
        [(times(SPENT), "deliveries_exhausted"), (times(TERMINATED), "terminated_elsewhere")]
    {
        let sequences = rig.client.publish_many("src.good", small(count)).await;
        poison.extend(sequences.into_iter().map(|sequence| (sequence, reason)));
    }
    spend_and_terminate(&rig, &poison).await;
    let good = publish_the_rest(&rig, &mut poison).await;
    assert_eq!((good.len(), poison.len()), (times(GOOD), times(POISON)));
    let (daemon, lives) = keep_running(&rig, &settings(&rig), poison.len()).await;
    daemon.stop().await;
    println!("{lives} lives");
    let mut found = Vec::new();
    for letter in rig.client.messages("DLQ").await {
        let sequence = letter.header("Jetsink-Stream-Sequence").unwrap().parse::<u64>().unwrap();
        found.push((sequence, letter.header("Jetsink-Reason").unwrap().to_owned()));
    }
    found.sort_unstable();
    let expected = poison.into_iter().map(|(sequence, reason)| (sequence, reason.to_owned()));
    let expected = expected.collect::<Vec<_>>();
    let different = found.iter().filter(|one| !expected.contains(one)).take(30).collect::<Vec<_>>();
    assert_eq!(found.len(), expected.len(), "one letter each; not expected: {different:?}");
    assert!(different.is_empty(), "{different:?}");
    assert_eq!(written(&rig.sink()), good, "every good one once, and nothing else");
}
