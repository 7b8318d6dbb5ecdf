//! `jetsink dlq redrive` to a subject: complete, in order, confirmed before a letter goes, and nothing twice.

use std::collections::BTreeMap;
use std::time::Duration;

use jetsink::dead_letter::Format;
use jetsink::reason::{ReasonCode, Stage};
use jetsink::testing::builders::envelope;
use serde_json::json;

use crate::harness::{Daemon, Rig, RigPlan, dlq, eventually, letter, oversized, start_dlq};

const SOON: Duration = Duration::from_secs(40);
const SIZE: (Stage, ReasonCode) = (Stage::Size, ReasonCode::PayloadTooLarge);

async fn letters(rig: &Rig, count: u64) {
    let parts = (1..=count).flat_map(|number| {
        let body = format!("{{\"number\":{number}}}");
        letter(&envelope(number).header("Tenant", "a").payload(body).build(), SIZE, Format::Json, 65_536)
    });
    rig.client.store_parts("dlq.src", parts.collect()).await;
}

/// How often each number was stored in a stream.
async fn numbers(rig: &Rig, stream: &str) -> BTreeMap<u64, usize> {
    let mut found = BTreeMap::new();
    for message in rig.client.messages(stream).await {
        *found.entry(message.json()["number"].as_u64().unwrap()).or_default() += 1;
    }
    found
}

async fn left(rig: &Rig) -> u64 {
    rig.client.stream_info("DLQ").await["state"]["messages"].as_u64().unwrap()
}

#[tokio::test]
async fn originals_come_back_as_they_were_and_in_their_order() {
    let rig = Rig::start().await;
    let first = envelope(1)
        .header("Nats-Msg-Id", "order-1")
        .header("Tenant", "a")
        .header("Tenant", "b")
        .header("Nats-Rollup", "all");
    let mut parts = letter(&first.build(), SIZE, Format::Json, 65_536);
    parts.extend(letter(&envelope(2).payload(&b"\x00\xff"[..]).build(), SIZE, Format::Original, 65_536));
    parts.extend(letter(&envelope(3).subject("elsewhere").build(), SIZE, Format::Json, 65_536));
    rig.client.store_parts("dlq.src", parts).await;
    let dry =
        dlq(&rig.server, &["redrive", "--stream", "DLQ", "--subject", "src.>", "--dry-run"]).await.fine();
    assert!(dry.text().contains("would redrive 2 to their original subjects, keep 0"), "{}", dry.text());
    assert_eq!(left(&rig).await, 3, "a dry run changes nothing");
    let refused = dlq(&rig.server, &["redrive", "--stream", "DLQ"]).await;
    assert!(refused.code == Some(1) && refused.err.contains("--yes"), "{}", refused.err);
    assert_eq!(left(&rig).await, 3, "nobody was asked, so nothing was done");

    let ran = dlq(&rig.server, &["redrive", "--stream", "DLQ", "--yes"]).await;
    assert_eq!(ran.code, Some(1), "one has to stay");
    assert!(ran.text().contains("redriven 2, kept 1"), "{}", ran.text());
    assert!(ran.err.contains("3: kept: elsewhere: no stream captures"), "{}", ran.err);
    assert_eq!(left(&rig).await, 1);
    let stored = rig.client.messages("SRC").await;
    assert_eq!(stored.len(), 2, "nothing was rolled up");
    assert_eq!((stored[0].subject.as_str(), stored[0].payload.as_slice()), ("src.a", &b"{}"[..]));
    assert_eq!(stored[1].payload, b"\x00\xff");
    let first = &stored[0];
    assert_eq!(first.header("Jetsink-Original-Nats-Msg-Id"), Some("order-1"));
    assert_eq!(first.header("Jetsink-Original-Nats-Rollup"), Some("all"));
    assert_eq!(first.header("Jetsink-Redrive-Count"), Some("1"));
    assert!(first.header("Nats-Msg-Id").unwrap().starts_with("jetsink.redrive.DLQ.1."));
    assert!(first.headers.find("Tenant: a").unwrap() < first.headers.find("Tenant: b").unwrap());
    let to =
        dlq(&rig.server, &["redrive", "3", "--stream", "DLQ", "--yes", "--to", "src.repaired"]).await.fine();
    assert!(to.text().contains("redriven 1, kept 0"), "{}", to.text());
    assert_eq!(rig.client.message("SRC", 3).await.unwrap().subject, "src.repaired");
    let back = dlq(&rig.server, &["redrive", "--stream", "DLQ", "--yes", "--to", "dlq.src"]).await.fine();
    assert!(back.text().contains("redriven 0, kept 0"));
}

#[tokio::test]
async fn a_letter_is_not_sent_to_its_own_stream() {
    let rig = Rig::start().await;
    letters(&rig, 1).await;
    let ran = dlq(&rig.server, &["redrive", "--stream", "DLQ", "--yes", "--to", "dlq.again"]).await;
    assert!(
        ran.code == Some(1) && ran.err.contains("captured by the dead-letter stream itself"),
        "{}",
        ran.err
    );
    assert_eq!(left(&rig).await, 1);
}

#[tokio::test]
async fn a_message_that_fails_again_and_again_is_left_alone_at_the_cap() {
    let rig = Rig::start().await;
    rig.client.publish_many("src.a", oversized(1)).await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    for round in 1..=4 {
        rig.drained(SOON).await;
        eventually(SOON, "the dead letter is there", async || {
            if left(&rig).await == 1 { Ok(()) } else { Err("not yet".into()) }
        })
        .await;
        let ran = dlq(&rig.server, &["redrive", "--stream", "DLQ", "--yes"]).await;
        if round <= 3 {
            assert!(ran.fine().text().contains("redriven 1"));
            eventually(SOON, "it came again", async || {
                let last = rig.client.stream_info("SRC").await["state"]["last_seq"].as_u64().unwrap();
                if last == round + 1 { Ok(()) } else { Err(last.to_string()) }
            })
            .await;
        } else {
            assert!(ran.code == Some(1) && ran.err.contains("3 times already"), "{}", ran.err);
        }
    }
    assert_eq!(left(&rig).await, 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_redrive_that_is_killed_and_run_again_stores_nothing_twice() {
    let rig = Rig::start().await;
    letters(&rig, 1000).await;
    // Killed again and again, wherever it is.
    for enough in [50, 300, 600] {
        let mut child = start_dlq(&rig.server, &["redrive", "--stream", "DLQ", "--yes", "--rate", "2000"]);
        eventually(SOON, "the redrive is in the middle of its work", async || {
            let last = rig.client.stream_info("SRC").await["state"]["last_seq"].as_u64().unwrap();
            if last >= enough { Ok(()) } else { Err(last.to_string()) }
        })
        .await;
        child.kill().await.unwrap();
    }
    assert!(left(&rig).await > 0, "it was killed half-way");
    dlq(&rig.server, &["redrive", "--stream", "DLQ", "--yes"]).await.fine();
    assert_eq!(left(&rig).await, 0);
    assert_eq!(numbers(&rig, "SRC").await, (1..=1000).map(|number| (number, 1)).collect());
    let stored = rig.client.messages("SRC").await;
    assert!(
        stored.windows(2).all(|pair| pair[0].json()["number"].as_u64() < pair[1].json()["number"].as_u64())
    );
}

#[tokio::test]
async fn what_was_published_and_not_deleted_is_there_already() {
    let plan = RigPlan::default().server(
        "authorization { users: [ { user: admin, password: admin }, { user: sender, password: secret, permissions: \
         { publish: { deny: \"$JS.API.STREAM.MSG.DELETE.>\" } } } ] }",
    );
    let rig = RigPlan { login: Some(("admin", "admin")), ..plan }.start().await;
    letters(&rig, 300).await;
    let ran = dlq(&rig.server, &["redrive", "--stream", "DLQ", "--yes", "--user", "sender"]).await;
    assert_ne!(ran.code, Some(0));
    assert!(ran.err.contains("the server denies"), "{}", ran.err);
    assert_eq!(left(&rig).await, 300, "nothing could be deleted");
    let sent = numbers(&rig, "SRC").await.len();
    assert!(sent > 0);
    std::fs::write(rig.folder().join("password"), "admin").unwrap();
    let password = rig.folder().join("password");
    let admin = ["--user", "admin", "--password-file", password.to_str().unwrap()];
    let words = [&["redrive", "--stream", "DLQ", "--yes", "--format", "json"], &admin[..]].concat();
    let result = &dlq(&rig.server, &words).await.fine().lines()[0];
    assert_eq!((&result["redriven"], &result["already_there"]), (&json!(300), &json!(sent)));
    assert_eq!(left(&rig).await, 0);
    assert_eq!(numbers(&rig, "SRC").await, (1..=300).map(|number| (number, 1)).collect());
}

#[tokio::test]
async fn a_body_of_max_payload_comes_back_byte_for_byte() {
    let rig = RigPlan::default().source("retention", "workqueue").start().await;
    let body: Vec<u8> = (0..65_536_u32).map(|index| (index % 251).to_le_bytes()[0]).collect();
    rig.client.publish("src.bad", body.clone()).await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    assert_eq!(left(&rig).await, 2, "it is in two parts");
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 0);
    for part in ["1", "2"] {
        let shown = dlq(&rig.server, &["show", part, "--raw", "--stream", "DLQ"]).await.fine();
        assert!(shown.out == body, "part {part} shows another body");
    }
    let ran = dlq(&rig.server, &["redrive", "--stream", "DLQ", "--yes"]).await.fine();
    assert!(ran.text().contains("redriven 1, kept 0"), "{}", ran.text());
    assert!(ran.err.contains("without a message id"), "{}", ran.err);
    assert_eq!(left(&rig).await, 0, "both parts are gone");
    let stored = rig.client.message("SRC", 2).await.unwrap();
    assert!(stored.payload == body && stored.subject == "src.bad" && stored.headers.is_empty());
}

#[tokio::test]
async fn an_id_that_is_kept_is_not_taken_for_a_redrive_when_the_stream_swallows_it() {
    let rig = Rig::start().await;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", "order-1");
    rig.client.publish_with("src.a", headers, "{}").await;
    let own = envelope(1).header("Nats-Msg-Id", "order-1").build();
    rig.client.store_parts("dlq.src", letter(&own, SIZE, Format::Json, 65_536)).await;
    let words = ["redrive", "--stream", "DLQ", "--yes", "--keep-message-id"];
    let ran = dlq(&rig.server, &words).await;
    assert!(ran.code == Some(1) && ran.err.contains("saw its Nats-Msg-Id within its window"), "{}", ran.err);
    assert_eq!((left(&rig).await, rig.client.messages("SRC").await.len()), (1, 1));
    let ran = dlq(&rig.server, &[&words[..], &["--to", "src2.a"]].concat()).await;
    assert!(ran.err.contains("no stream captures"), "{}", ran.err);
    rig.client
        .create_stream(
            &json!({ "name": "SRC2", "subjects": ["src2.>"], "retention": "limits", "storage": "file",
                                      "num_replicas": 1, "discard": "old" }),
        )
        .await;
    dlq(&rig.server, &[&words[..], &["--to", "src2.a"]].concat()).await.fine();
    assert_eq!(rig.client.message("SRC2", 1).await.unwrap().header("Nats-Msg-Id"), Some("order-1"));
}
