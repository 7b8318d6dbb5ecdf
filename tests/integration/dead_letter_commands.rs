//! Field cases 25 and 26: headers are commands to the server. None of the original's may act on its dead letter, and its message
//! id is not the letter's.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::HeaderMap;
use serde_json::{Value, json};

use crate::harness::{Client, Daemon, Rig, RigPlan, ServerKind, oversized};

const SOON: Duration = Duration::from_secs(40);

/// What a publisher may have sent in good faith, and what each does to whoever publishes it again.
const COMMANDS: [(&str, &str); 9] = [
    ("Nats-Expected-Stream", "SRC"),
    ("Nats-Expected-Last-Subject-Sequence", "0"),
    ("Nats-Rollup", "all"),
    ("Nats-TTL", "1s"),
    ("Nats-Schedule", "@at 2099-01-01T00:00:00Z"),
    ("Nats-Incr", "1"),
    ("Nats-Batch-Id", "b"),
    ("nats-msg-id", "lower"),
    ("Nmqtt-Pub", "1"),
];

/// Stores one oversized message with these header lines in `SRC`, whatever the server thinks of them as commands: under
/// another name of the same length first, so that the test does not depend on what a stream permits.
async fn store(client: &Client, name: &str, value: &str) -> Option<u64> {
    let mut headers = HeaderMap::new();
    headers.append(name, value);
    let answer =
        client.core().request_with_headers("src.bad", headers, oversized(1).remove(0).into()).await.ok()?;
    let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
    answer["seq"].as_u64().filter(|sequence| *sequence > 0)
}

async fn no_header_acts(kind: ServerKind, permissive: bool) {
    let mut plan = RigPlan::default().on(kind).source("allow_rollup_hdrs", true);
    if permissive {
        plan = plan.dead_letters("allow_rollup_hdrs", true);
    }
    if kind == ServerKind::New {
        plan = plan.source("allow_msg_ttl", true);
        if permissive {
            plan = plan.dead_letters("allow_msg_ttl", true);
        }
    }
    let rig = plan.start().await;
    // Older letters of somebody else.
    for number in 0..3 {
        rig.client.publish("dlq.older", format!("{{\"older\":{number}}}")).await;
    }
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    let mut stored = Vec::new();
    for (name, value) in COMMANDS {
        stored.extend(store(&rig.client, name, value).await);
    }
    assert!(stored.len() >= 5, "the source stream took some of them: {stored:?}");
    rig.drained(SOON).await;
    daemon.stop().await;
    let letters = rig.client.messages("DLQ").await;
    let (older, own): (Vec<_>, Vec<_>) = letters.iter().partition(|letter| letter.subject == "dlq.older");
    assert_eq!(older.len(), 3, "older letters survive");
    let mut sequences = own
        .iter()
        .map(|letter| letter.header("Jetsink-Stream-Sequence").unwrap().parse().unwrap())
        .collect::<Vec<u64>>();
    sequences.sort_unstable();
    // A rollup may have removed earlier originals from the source before they were delivered.
    assert!(
        sequences.contains(stored.last().unwrap()) && !sequences.is_empty(),
        "{sequences:?} of {stored:?}"
    );
    for letter in own {
        for (name, _) in COMMANDS.iter().filter(|(name, _)| *name != "Nats-Expected-Stream") {
            let found = letter.header(name);
            assert!(found.is_none(), "{name} of the original is a header of its letter: {found:?}");
        }
    }
}

#[tokio::test]
async fn no_header_of_the_original_acts_on_its_letter() {
    no_header_acts(ServerKind::New, false).await;
    no_header_acts(ServerKind::New, true).await;
}

#[tokio::test]
async fn no_header_of_the_original_acts_on_its_letter_on_an_old_server() {
    no_header_acts(ServerKind::Old, false).await;
    no_header_acts(ServerKind::Old, true).await;
}

async fn second_daemon(rig: &Rig) -> Daemon {
    rig.client
        .create_consumer(
            "SRC",
            &json!({ "durable_name": "other", "ack_policy": "explicit", "max_deliver": -1 }),
        )
        .await;
    let mut settings = rig.settings_for_small();
    settings
        .set("consumer.durable", "other")
        .set("sink.file.directory", rig.folder().join("other").to_str().unwrap());
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    daemon
}

/// Two messages with one id, outside of the source's window and inside that of the letters; two durables that reject the same
/// messages; and the same body published once more.
async fn each_rejection_has_a_letter(kind: ServerKind) {
    let plan = RigPlan::default().on(kind).source("duplicate_window", 100_000_000_u64);
    let rig = plan.start().await;
    let mut first = Daemon::start(&rig.settings_for_small(), &[]);
    first.ready().await;
    let second = second_daemon(&rig).await;
    let mut sequences = BTreeSet::new();
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", "order-1");
    for body in [oversized(1).remove(0), oversized(1).remove(0)] {
        // The source forgets the id after its window; until then it answers with the first sequence.
        crate::harness::eventually(SOON, "the source takes the id again", async || {
            let sequence = rig.client.publish_with("src.bad", headers.clone(), body.clone()).await;
            if sequences.insert(sequence) { Ok(()) } else { Err(format!("still {sequence}")) }
        })
        .await;
    }
    sequences.insert(rig.client.publish("src.bad", oversized(1).remove(0)).await);
    crate::harness::eventually(SOON, "one letter for each message and durable", async || {
        let letters = rig.client.messages("DLQ").await;
        let mut found = letters
            .iter()
            .map(|letter| {
                (
                    letter.header("Jetsink-Consumer").unwrap(),
                    letter.header("Jetsink-Stream-Sequence").unwrap(),
                )
            })
            .map(|(durable, sequence)| (durable.to_owned(), sequence.parse::<u64>().unwrap()))
            .collect::<Vec<_>>();
        found.sort_unstable();
        let expected = ["other", "w"]
            .iter()
            .flat_map(|durable| sequences.iter().map(move |sequence| ((*durable).to_owned(), *sequence)));
        if found == expected.collect::<Vec<_>>() {
            Ok(())
        } else {
            Err(format!("{found:?} of {sequences:?}"))
        }
    })
    .await;
    let letter = rig.client.messages("DLQ").await.remove(0);
    assert_eq!(letter.json()["headers"]["Nats-Msg-Id"], "order-1", "kept as data");
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn equal_message_ids_swallow_no_letter() {
    each_rejection_has_a_letter(ServerKind::New).await;
}

#[tokio::test]
async fn equal_message_ids_swallow_no_letter_on_an_old_server() {
    each_rejection_has_a_letter(ServerKind::Old).await;
}
