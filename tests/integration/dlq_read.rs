//! `jetsink dlq` reads: what is there, newest first, by every filter, with read permissions only, and no consumer is made.

use std::time::Duration;

use jetsink::dead_letter::{Format, Part};
use jetsink::envelope::SourceNames;
use jetsink::reason::{ReasonCode, Stage};
use jetsink::testing::builders::envelope;
use serde_json::json;

use crate::harness::{Daemon, Ran, Rig, RigPlan, ServerKind, dlq, letter, oversized};

const SIZE: (Stage, ReasonCode) = (Stage::Size, ReasonCode::PayloadTooLarge);
const SINK: (Stage, ReasonCode) = (Stage::Sink, ReasonCode::SinkRefused);

/// A letter as the ancestor writes it.
fn ancestor() -> Part {
    let record = json!({
        "classification": null, "consumer": "old", "consumer_sequence": 3, "error": "policy says no",
        "error_type": "PolicyViolationError", "headers": { "Tenant": "b", "Nats-Msg-Id": "id-1" },
        "idempotency_key": "stream-sequence:OLD:9", "idempotency_key_unavailable_reason": null, "labels": [],
        "message_id": "id-1",
        "payload": { "delivered_size_bytes": 2, "nats_msg_size_header": null, "nats_msg_size_header_malformed": false,
                     "omitted": false, "omitted_reason": null, "original_size_bytes": 2, "present": true },
        "payload_base64": "aGk=", "pending": 0, "priority": null, "redelivered": false, "stream": "OLD",
        "stream_sequence": 9, "subject": "old.a", "timestamp": "2026-11-30T22:36:27+00:00",
    });
    let headers =
        [("Nats-Sinks-Error-Type", "PolicyViolationError"), ("Nats-Sinks-Original-Subject", "old.a")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Part { headers, body: record.to_string().into() }
}

/// Sequences 1 to 7: two letters in JSON, one in the original format, two parts, a stranger, one of the ancestor.
async fn fill(rig: &Rig) {
    let mut parts = Vec::new();
    parts.extend(letter(&envelope(1).header("Tenant", "a").build(), SIZE, Format::Json, 65_536));
    parts.extend(letter(
        &envelope(2).subject("src.b").payload("no json").build(),
        SINK,
        Format::Json,
        65_536,
    ));
    let source = SourceNames::shared("OTHER", "x");
    let third = envelope(3).source(source).header("tenant", "a").payload(&b"\x00\xff"[..]).build();
    parts.extend(letter(&third, SINK, Format::Original, 65_536));
    let fourth = envelope(4).header("Tenant", "c").payload(vec![b'y'; 65_400]).build();
    parts.extend(letter(&fourth, SIZE, Format::Json, 65_536));
    parts.push(Part { headers: Vec::new(), body: "{\"not\":\"a letter\"}".into() });
    parts.push(ancestor());
    assert_eq!(rig.client.store_parts("dlq.src", parts).await, [1, 2, 3, 4, 5, 6, 7]);
}

fn sequences(ran: &Ran) -> Vec<u64> {
    ran.lines().iter().map(|line| line["sequence"].as_u64().unwrap()).collect()
}

async fn ls(rig: &Rig, filters: &[&str]) -> Ran {
    let mut words = vec!["ls", "--stream", "DLQ", "--format", "json"];
    words.extend(filters);
    dlq(&rig.server, &words).await.fine()
}

#[tokio::test]
async fn letters_of_every_form_are_listed_newest_first_and_filtered() {
    let rig = RigPlan::default().dead_letters("allow_direct", true).start().await;
    fill(&rig).await;
    for way in [&[][..], &["--one-by-one"]] {
        let all = ls(&rig, way).await;
        assert_eq!(sequences(&all), [7, 4, 3, 2, 1]);
        assert!(all.err.contains("1 messages are no dead letters"), "{}", all.err);
        let lines = all.lines();
        assert_eq!(lines[0]["form"], "nats-sinks");
        assert_eq!(lines[1]["second_part_sequence"], 5);
        assert_eq!(lines[4]["failed_at"], "2026-11-30T22:37:27.000000000Z");
        for (filters, expected) in [
            (&["--stage", "sink"][..], &[3, 2][..]),
            (&["--reason", "payload_too_large"], &[4, 1]),
            (&["--reason", "PolicyViolationError"], &[7]),
            (&["--subject", "src.*"], &[4, 3, 2, 1]),
            (&["--subject", "src.b", "--subject", "old.>"], &[7, 2]),
            (&["--from-stream", "OTHER"], &[3]),
            (&["--consumer", "w"], &[4, 2, 1]),
            (&["--sequence", "2..4"], &[3, 2]),
            (&["--original-sequence", "..2"], &[2, 1]),
            (&["--since", "2026-11-30T22:39:00Z", "--until", "2026-11-30T22:40:00Z"], &[3]),
            (&["--header", "Tenant=a"], &[3, 1]),
            (&["--header", "tenant=c"], &[4]),
            (&["--key", "stream-sequence:SRC:2"], &[2]),
            (&["--limit", "2"], &[7, 4]),
        ] {
            let filters: Vec<&str> = way.iter().chain(filters).copied().collect();
            // A part whose other half is outside the range is listed as what it is.
            let found = sequences(&ls(&rig, &filters).await);
            let found: Vec<u64> = if filters.contains(&"2..4") {
                found.into_iter().filter(|sequence| *sequence != 4).collect()
            } else {
                found
            };
            assert_eq!(found, expected, "{filters:?}");
        }
    }
    assert_eq!(rig.client.stream_info("DLQ").await["state"]["consumer_count"], 0);
    let table = dlq(&rig.server, &["ls", "--stream", "DLQ"]).await.fine().text();
    assert!(table.lines().next().unwrap().contains("REASON") && table.contains("SRC/1"), "{table}");
}

#[tokio::test]
async fn statistics_count_what_is_there() {
    let rig = RigPlan::default().dead_letters("allow_direct", true).start().await;
    fill(&rig).await;
    let stats = dlq(&rig.server, &["stats", "--stream", "DLQ", "--format", "json"]).await.fine();
    let stats = &stats.lines()[0];
    assert_eq!(
        (&stats["letters"], &stats["messages"], &stats["no_dead_letters"]),
        (&json!(5), &json!(7), &json!(1))
    );
    let reasons = json!([
        { "value": "payload_too_large", "letters": 2 },
        { "value": "sink_refused", "letters": 2 },
        { "value": "PolicyViolationError", "letters": 1 },
    ]);
    assert_eq!(stats["reasons"], reasons);
    let table = dlq(&rig.server, &["stats", "--stream", "DLQ", "--stage", "sink"]).await.fine().text();
    assert!(table.starts_with("2 dead letters, bodies of 9 bytes"), "{table}");
}

#[tokio::test]
async fn one_letter_is_shown_with_its_original() {
    let rig = RigPlan::default().dead_letters("allow_direct", true).start().await;
    fill(&rig).await;
    let show = async |words: &[&str]| {
        let words: Vec<&str> = [&["show", "--stream", "DLQ"], words].concat();
        dlq(&rig.server, &words).await
    };
    let first = show(&["1"]).await.fine().text();
    assert!(
        first.contains("payload_too_large") && first.contains("Tenant: a") && first.contains("body: JSON"),
        "{first}"
    );
    let third = show(&["3"]).await.fine().text();
    assert!(third.contains("00000000  00 ff"), "{third}");
    assert!(show(&["6"]).await.fine().text().contains("is no dead letter"));
    let last = show(&["7"]).await.fine().text();
    assert!(last.contains("policy says no") && last.contains("body: text, 2 bytes\nhi"), "{last}");
    for (sequence, body) in [("2", &b"no json"[..]), ("3", b"\x00\xff"), ("7", b"hi")] {
        assert_eq!(show(&[sequence, "--raw"]).await.fine().out, body);
    }
    for part in ["4", "5"] {
        assert_eq!(
            show(&[part, "--raw"]).await.fine().out,
            vec![b'y'; 65_400],
            "either part shows the whole"
        );
    }
    let missing = show(&["99"]).await;
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains("no message 99"), "{}", missing.err);
}

/// A user who may read the dead-letter stream by one of the two ways, and nothing else.
async fn reads_with(grant: &str, kind: ServerKind, allow_direct: bool) {
    let mut plan = RigPlan::default().dead_letters("allow_direct", allow_direct).server(&format!(
        "authorization {{ users: [ {{ user: admin, password: admin }}, {{ user: reader, password: secret, permissions: \
         {{ publish: [\"$JS.API.STREAM.INFO.DLQ\", \"{grant}\"], subscribe: [\"_INBOX.>\"] }} }} ] }}"
    ));
    plan.server.kind = kind;
    plan.login = Some(("admin", "admin"));
    let rig = plan.start().await;
    fill(&rig).await;
    let reader = ["--stream", "DLQ", "--user", "reader"];
    for words in [&["ls"][..], &["stats"], &["show", "4"], &["tail", "--no-follow"]] {
        let ran = dlq(&rig.server, &[words, &reader].concat()).await.fine();
        assert!(!ran.err.contains("denies"), "{words:?}: {}", ran.err);
        assert!(ran.text().contains("payload_too_large"), "{words:?}");
    }
    let redrive = dlq(&rig.server, &[&["redrive", "1", "--yes"], &reader[..]].concat()).await;
    assert_ne!(redrive.code, Some(0));
    assert!(redrive.err.contains("the server denies"), "{}", redrive.err);
    assert_eq!(rig.client.stream_info("DLQ").await["state"]["messages"], 7);
}

#[tokio::test]
async fn reading_needs_the_right_to_get_directly() {
    reads_with("$JS.API.DIRECT.GET.DLQ", ServerKind::New, true).await;
}

#[tokio::test]
async fn or_the_right_to_get_messages() {
    reads_with("$JS.API.STREAM.MSG.GET.DLQ", ServerKind::New, false).await;
}

#[tokio::test]
async fn an_old_server_is_read_as_well() {
    reads_with("$JS.API.STREAM.MSG.GET.DLQ", ServerKind::Old, false).await;
}

#[tokio::test]
async fn gaps_neither_hide_letters_nor_cost_a_question_each() {
    for (kind, allow_direct) in [(ServerKind::New, true), (ServerKind::New, false), (ServerKind::Old, false)]
    {
        let mut plan = RigPlan::default().dead_letters("allow_direct", allow_direct);
        plan.server.kind = kind;
        let rig = plan.start().await;
        let store = async |from: u64, to: u64| {
            let parts =
                (from..to).flat_map(|number| letter(&envelope(number).build(), SIZE, Format::Json, 65_536));
            rig.client.store_parts("dlq.src", parts.collect()).await
        };
        store(0, 10).await;
        store(10, 20_000).await;
        store(20_000, 20_010).await;
        rig.client.api("STREAM.MSG.DELETE.DLQ", &json!({ "seq": 5 })).await;
        // What stands between is deleted one by one, as a redrive leaves it.
        let requests: Vec<u64> = (11..=20_000).filter(|sequence| sequence % 5_000 != 0).collect();
        rig.client.delete_many("DLQ", &requests).await;
        let found = sequences(&ls(&rig, &[]).await);
        let expected = (20_001..=20_010)
            .rev()
            .chain([20_000, 15_000, 10_000, 5_000])
            .chain([10, 9, 8, 7, 6, 4, 3, 2, 1]);
        assert_eq!(found, expected.collect::<Vec<_>>(), "{kind:?} {allow_direct}");
        let stats = dlq(&rig.server, &["stats", "--stream", "DLQ", "--format", "json"]).await.fine();
        assert_eq!(stats.lines()[0]["letters"], 23);
    }
}

#[tokio::test]
async fn the_daemons_own_file_names_server_and_stream() {
    let rig = Rig::start().await;
    rig.client.publish_many("src.a", oversized(3)).await;
    let settings = rig.settings_for_small();
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    rig.drained(Duration::from_secs(40)).await;
    daemon.stop().await;
    let file = rig.folder().join("jetsink.toml");
    std::fs::write(&file, settings.text()).unwrap();
    let file = file.to_str().unwrap();
    let ran = dlq(&rig.server, &["ls", "-c", file, "--format", "json"]).await.fine();
    assert_eq!(sequences(&ran), [3, 2, 1]);
    assert_eq!(ran.lines()[0]["reason"], "payload_too_large");
    let wrong = dlq(&rig.server, &["ls"]).await;
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("--stream"), "{}", wrong.err);
    let missing = dlq(&rig.server, &["ls", "--stream", "NONE"]).await;
    assert_eq!(missing.code, Some(69));
}
