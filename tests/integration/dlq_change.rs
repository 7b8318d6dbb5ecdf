//! `jetsink dlq` discards, exports, imports, follows, and makes streams.

use std::time::Duration;

use jetsink::dead_letter::Format;
use jetsink::reason::{ReasonCode, Stage};
use jetsink::testing::builders::envelope;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use crate::harness::{Rig, RigPlan, dlq, letter, start_dlq};

const SOON: Duration = Duration::from_secs(40);
const SIZE: (Stage, ReasonCode) = (Stage::Size, ReasonCode::PayloadTooLarge);
const SINK: (Stage, ReasonCode) = (Stage::Sink, ReasonCode::SinkRefused);

/// Letters 1 and 2, and 3 in two parts.
async fn fill(rig: &Rig) {
    let mut parts = letter(&envelope(1).header("A", "b").build(), SIZE, Format::Json, 65_536);
    parts.extend(letter(&envelope(2).payload(&b"\xff"[..]).build(), SINK, Format::Original, 65_536));
    parts.extend(letter(&envelope(3).payload(vec![b'z'; 65_536]).build(), SINK, Format::Json, 65_536));
    rig.client.store_parts("dlq.src", parts).await;
}

async fn left(rig: &Rig, stream: &str) -> u64 {
    rig.client.stream_info(stream).await["state"]["messages"].as_u64().unwrap()
}

#[tokio::test]
async fn a_discard_leaves_a_line_for_the_audit() {
    let rig = Rig::start().await;
    fill(&rig).await;
    let audit = rig.folder().join("audit");
    let audit = audit.to_str().unwrap();
    let why = ["--stream", "DLQ", "--because", "ticket 17", "--audit-file", audit];
    let everything = dlq(&rig.server, &[&["discard", "--yes"], &why[..]].concat()).await;
    assert!(everything.code == Some(1) && everything.err.contains("--all"), "{}", everything.err);
    let unasked = dlq(&rig.server, &[&["discard", "--all"], &why[..]].concat()).await;
    assert!(unasked.code == Some(1) && unasked.err.contains("discard 3 dead letters"), "{}", unasked.err);
    assert_eq!(left(&rig, "DLQ").await, 4);
    let ran = dlq(&rig.server, &[&["discard", "--yes", "--stage", "sink"], &why[..]].concat()).await.fine();
    assert_eq!(ran.text(), "discarded 2, kept 0\n");
    assert_eq!(left(&rig, "DLQ").await, 1, "both parts of a letter go");
    let lines = std::fs::read_to_string(audit).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["because"], "ticket 17");
    assert_eq!((&lines[1]["action"], &lines[1]["stream_sequence"]), (&json!("discard"), &json!(3)));
    let named = ["discard", "1", "--yes", "--stream", "DLQ", "--because", "x"];
    let ran = dlq(&rig.server, &named).await.fine();
    assert!(ran.err.contains("\"because\":\"x\""), "{}", ran.err);
    assert_eq!(left(&rig, "DLQ").await, 0);
}

#[tokio::test]
async fn what_is_exported_can_be_imported_whole_and_once() {
    let rig = Rig::start().await;
    fill(&rig).await;
    let config = json!({ "name": "COPY", "subjects": ["copy.>"], "retention": "limits", "storage": "file",
                         "num_replicas": 1, "discard": "new" });
    rig.client.create_stream(&config).await;
    let lines = dlq(&rig.server, &["export", "--stream", "DLQ"]).await.fine();
    assert_eq!(lines.lines().len(), 4);
    let file = rig.folder().join("letters");
    std::fs::write(&file, &lines.out).unwrap();
    let file = file.to_str().unwrap();
    let words = ["import", file, "--stream", "COPY", "--to", "copy.src", "--yes"];
    let ran = dlq(&rig.server, &words).await.fine();
    assert_eq!(ran.text(), "imported 4 messages (0 of them were there already), refused 0\n");
    let ran = dlq(&rig.server, &words).await.fine();
    assert_eq!(ran.text(), "imported 4 messages (4 of them were there already), refused 0\n");
    assert_eq!(left(&rig, "COPY").await, 4);
    for sequence in ["1", "2", "3"] {
        let raw = async |stream: &str| {
            dlq(&rig.server, &["show", sequence, "--raw", "--stream", stream]).await.fine().out
        };
        assert!(raw("DLQ").await == raw("COPY").await, "{sequence}");
    }
    dlq(&rig.server, &["discard", "1", "--stream", "COPY", "--because", "x", "--yes"]).await.fine();
    let swallowed = dlq(&rig.server, &words).await;
    assert_eq!(swallowed.code, Some(1));
    assert!(swallowed.err.contains("line 1: refused: it was imported and deleted"), "{}", swallowed.err);
    let elsewhere = dlq(&rig.server, &["import", file, "--stream", "COPY", "--yes"]).await;
    assert!(elsewhere.code == Some(1) && elsewhere.text().contains("refused 4"), "the subject leads to DLQ");
}

#[tokio::test]
async fn new_letters_are_followed() {
    let rig = Rig::start().await;
    fill(&rig).await;
    let last = dlq(&rig.server, &["tail", "--stream", "DLQ", "-n", "2", "--no-follow", "--format", "json"])
        .await
        .fine();
    let sequences: Vec<_> = last.lines().iter().map(|line| line["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, [2, 3]);
    let mut child = start_dlq(&rig.server, &["tail", "--stream", "DLQ", "-n", "1"]);
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || timeout(SOON, out.next_line()).await.expect("no line").unwrap().unwrap();
    assert!(next().await.contains("REASON"));
    assert!(next().await.contains("SRC/3"));
    assert!(next().await.contains("made by a test"));
    for number in 10..13 {
        rig.client
            .store_parts("dlq.src", letter(&envelope(number).build(), SIZE, Format::Json, 65_536))
            .await;
        assert!(next().await.contains(&format!("SRC/{number}")));
        assert!(next().await.contains("made by a test"));
    }
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_stream_for_dead_letters_is_made_once_and_never_altered() {
    let rig = RigPlan::default().start().await;
    let words = ["init", "--stream", "NEW", "--subject", "new.dlq", "--max-age", "90d"];
    let ran = dlq(&rig.server, &words).await.fine();
    assert_eq!(ran.text(), "made stream NEW for new.dlq\n");
    let config = rig.client.stream_info("NEW").await["config"].clone();
    assert_eq!((&config["retention"], &config["discard"]), (&json!("limits"), &json!("new")));
    assert_eq!(
        (&config["allow_direct"], &config["duplicate_window"]),
        (&json!(true), &json!(300_000_000_000_u64))
    );
    assert_eq!(dlq(&rig.server, &words).await.fine().text(), "stream NEW exists and suits\n");
    let other = dlq(&rig.server, &["init", "--stream", "DLQ", "--subject", "dlq.src"]).await;
    assert_eq!(other.code, Some(1));
    assert!(
        other.err.contains("is left as it is") && other.err.contains("duplicate_window"),
        "{}",
        other.err
    );
    assert!(other.err.contains("allow_direct: it has false, wanted is true"), "{}", other.err);
    let file = rig.folder().join("jetsink.toml");
    std::fs::write(&file, rig.settings().text()).unwrap();
    let printed = dlq(&rig.server, &["init", "-c", file.to_str().unwrap(), "--print"]).await.fine();
    assert!(printed.text().starts_with("nats stream add 'DLQ' --subjects 'dlq.src'"), "{}", printed.text());
}
