//! Rotation, compression, partitions, names and payloads.

use std::os::unix::fs::symlink;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::envelope::{Body, Headers};
use crate::reason::ReasonCode;

const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn segments_rotate_and_are_compressed() {
    for (compression, ending) in [(Compression::Gzip, "ndjson.gz"), (Compression::Zstd, "ndjson.zst")] {
        let folder = TempDir::new().unwrap();
        let settings = FileSettings { rotate_bytes: 2_000, compression, ..settings(folder.path()) };
        let sink = open(&settings);
        for start in (0..100).step_by(10) {
            write_ok(&sink, messages(start..start + 10)).await;
        }
        assert_eq!(sink.close(DEADLINE).await, Ok(()));
        let files = contents(folder.path());
        assert!(files.len() >= 5 && files.keys().all(|name| name.ends_with(ending)), "{:?}", files.keys());
        assert_eq!(sequences(folder.path()), (0..100).collect::<Vec<_>>());
        drop(sink);
        let sink = reopen(&settings);
        write_ok(&sink, messages(0..101)).await;
        assert_eq!(sequences(folder.path()), (0..=100).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn compression_goes_on_after_a_start_and_a_final_file_wins() {
    let folder = TempDir::new().unwrap();
    let raw = FileSettings { rotate_bytes: 1, ..settings(folder.path()) };
    let sink = open(&raw);
    write_ok(&sink, messages(1..=3)).await;
    write_ok(&sink, messages(4..=6)).await;
    assert_eq!(sink.close(DEADLINE).await, Ok(()));
    drop(sink);
    let names: Vec<_> = contents(folder.path()).into_keys().collect();
    // The first was compressed when the daemon died before it removed the raw file; of the second a half was done.
    let text = fs::read(folder.path().join(&names[0])).unwrap();
    fs::write(folder.path().join(format!("{}.zst", names[0])), zstd::encode_all(text.as_slice(), 1).unwrap())
        .unwrap();
    fs::write(folder.path().join(format!(".jetsink/{}.zst.tmp", names[1])), b"half").unwrap();
    let sink = reopen(&FileSettings { compression: Compression::Zstd, ..raw });
    assert_eq!(sink.close(DEADLINE).await, Ok(()));
    let files = contents(folder.path());
    assert_eq!(
        files.keys().cloned().collect::<Vec<_>>(),
        [format!("{}.zst", names[0]), format!("{}.zst", names[1])]
    );
    assert_eq!(sequences(folder.path()), (1..=6).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn an_old_segment_is_closed_without_traffic() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path());
    let sink = open(&settings);
    write_ok(&sink, messages(1..=3)).await;
    tokio::time::advance(settings.rotate_age).await;
    sink.note_ack_floor(0).await;
    assert!(contents(folder.path()).into_keys().all(|name| name.ends_with(".ndjson")));
}

#[tokio::test]
async fn many_partitions_share_a_few_open_files() {
    for layout in [Layout::Segments, Layout::OneFilePerMessage] {
        let folder = TempDir::new().unwrap();
        let settings = FileSettings {
            layout,
            partition: Partition::Subject,
            max_open_files: 8,
            ..settings(folder.path())
        };
        let sink = open(&settings);
        let batch = || {
            let mut batch = messages(0..600);
            batch
                .iter_mut()
                .for_each(|envelope| envelope.subject = format!("tenant.{}", envelope.stream_sequence % 300));
            batch
        };
        write_ok(&sink, batch()).await;
        write_ok(&sink, batch()).await;
        if layout == Layout::Segments {
            let held = fs::read_dir("/proc/self/fd")
                .unwrap()
                .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
                .filter(|path| path.starts_with(folder.path()) && path.to_str().unwrap().contains("ORDERS-"))
                .count();
            assert!((2..=8).contains(&held), "{held} files are open");
        }
        assert_eq!(sink.close(DEADLINE).await, Ok(()));
        drop(sink);
        let sink = reopen(&settings);
        write_ok(&sink, batch()).await;
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 301);
        let mut found = sequences(folder.path());
        found.sort_unstable();
        assert_eq!(found, (0..600).collect::<Vec<_>>());
        let of_7: Vec<_> = sequences(&folder.path().join("tenant.7"));
        assert_eq!(of_7, [7, 307]);
    }
}

#[tokio::test]
async fn messages_are_partitioned_by_the_day_they_were_stored_on() {
    let folder = TempDir::new().unwrap();
    let sink = open(&FileSettings { partition: Partition::Day, ..settings(folder.path()) });
    let mut late = message(2);
    late.stored_at = late.stored_at.plus(Duration::from_secs(86_400));
    write_ok(&sink, vec![message(1), late, message(3)]).await;
    assert_eq!(sequences(&folder.path().join("2026-11-30")), [1, 3]);
    assert_eq!(sequences(&folder.path().join("2026-12-01")), [2]);
}

#[tokio::test]
async fn no_subject_leaves_the_directory() {
    for layout in [Layout::Segments, Layout::OneFilePerMessage] {
        let outside = TempDir::new().unwrap();
        let folder = TempDir::new_in(outside.path()).unwrap();
        let target = TempDir::new().unwrap();
        symlink(target.path(), folder.path().join("linked")).unwrap();
        fs::write(folder.path().join("a-file"), "").unwrap();
        let settings = FileSettings { layout, partition: Partition::Subject, ..settings(folder.path()) };
        let sink = open(&settings);
        let subjects = [
            "../../x",
            "/etc/x",
            "a/b",
            "..",
            ".",
            ".jetsink",
            "a\0b",
            "CON",
            "linked",
            "a-file",
            "x.y",
            &"s".repeat(300),
        ];
        let mut batch = messages(0..12);
        for (envelope, subject) in batch.iter_mut().zip(subjects) {
            envelope.subject = subject.into();
        }
        let failed = write_now(&sink, batch).await;
        let mut reasons = Vec::new();
        for (sequence, fault) in failed {
            let Fault::Refused(refusal) = fault else { panic!("{fault:?}") };
            reasons.push((sequence, refusal.reason));
        }
        reasons.sort_unstable();
        let refused = ReasonCode::SinkRefused;
        assert_eq!(reasons, [(8, refused), (9, refused), (11, ReasonCode::NameTooLong)]);
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(sequences(folder.path()).len(), 9);
    }
}

#[tokio::test]
async fn the_memory_is_not_reached_through_a_link() {
    let folder = TempDir::new().unwrap();
    let target = TempDir::new().unwrap();
    symlink(target.path(), folder.path().join(".jetsink")).unwrap();
    let error = FileSink::open(settings(folder.path()), "ORDERS", "sink").unwrap_err();
    assert!(matches!(error, FileSinkError::Failed(_)), "{error}");
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_full_record_says_everything_about_a_message() {
    let folder = TempDir::new().unwrap();
    let sink = open(&settings(folder.path()));
    let mut envelope = message(7);
    let mut headers = Headers::new();
    headers.append("Nats-Msg-Id", "id \"7\"");
    headers.append("X-A", "1");
    headers.append("x-a", "\u{2028}");
    headers.append("X-A", Bytes::from_static(b"\xff\x00"));
    envelope.headers = headers;
    envelope.payload = Bytes::from_static(b"{\n \"n\": 1.10,\r\n \"big\": 18446744073709551615}\n");
    let mut omitted = message(8);
    omitted.body = Body::Omitted { original_size: Some(70_000), malformed: false };
    omitted.payload = Bytes::new();
    write_ok(&sink, vec![envelope, omitted]).await;
    let files = contents(folder.path());
    let lines: Vec<_> = files.values().next().unwrap().lines().collect();
    assert_eq!(
        lines,
        [
            "{\"subject\":\"orders.1\",\"stream\":\"ORDERS\",\"stream_sequence\":7,\
             \"timestamp\":\"2026-11-30T22:36:27.322861484Z\",\"message_id\":\"id \\\"7\\\"\",\
             \"idempotency_key\":\"stream-sequence:ORDERS:7\",\
             \"headers\":{\"Nats-Msg-Id\":\"id \\\"7\\\"\",\"X-A\":[\"1\",{\"base64\":\"/wA=\"}],\"x-a\":\"\\u2028\"},\
             \"payload\":{  \"n\": 1.10,   \"big\": 18446744073709551615}}",
            "{\"subject\":\"orders.2\",\"stream\":\"ORDERS\",\"stream_sequence\":8,\
             \"timestamp\":\"2026-11-30T22:36:27.322911484Z\",\"message_id\":null,\
             \"idempotency_key\":\"stream-sequence:ORDERS:8\",\"headers\":{},\
             \"payload_omitted\":{\"omitted_reason\":\"headers_only\",\"original_size_bytes\":70000},\"payload\":null}",
        ]
    );
}

#[tokio::test]
async fn any_payload_is_one_line_that_parses_alone() {
    let large = "x\u{2028}\n".repeat(140_000);
    let payloads: [&[u8]; 10] = [
        b"a\nb\r\n",
        "\u{2028}\u{85}".as_bytes(),
        b"\0",
        b"",
        b"\xff\xfe\n",
        b"[1,\n2]",
        b"{\"a\":1,\"a\":2}",
        b"\"\\ud83d\"",
        b"1e400000",
        large.as_bytes(),
    ];
    for (record, mode) in [
        (Record::Full, PayloadMode::JsonOrEnvelope),
        (Record::Payload, PayloadMode::JsonOrEnvelope),
        (Record::Payload, PayloadMode::TextEnvelope),
        (Record::Full, PayloadMode::BytesEnvelope),
    ] {
        let folder = TempDir::new().unwrap();
        let sink = open(&FileSettings { record, payload_mode: mode, ..settings(folder.path()) });
        let mut batch = messages(0..10);
        for (envelope, payload) in batch.iter_mut().zip(payloads) {
            envelope.payload = Bytes::copy_from_slice(payload);
        }
        write_ok(&sink, batch).await;
        let files = contents(folder.path());
        let text = files.values().next().unwrap();
        assert!(!text.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}', '\0']));
        assert_eq!(text.matches('\n').count(), 10);
        for (line, payload) in text.lines().zip(payloads) {
            if line.contains("1e400000") && mode == PayloadMode::JsonOrEnvelope {
                continue;
            }
            let parsed: serde_json::Value = serde_json::from_str(line).unwrap();
            let value = if record == Record::Full { &parsed["payload"] } else { &parsed };
            if let Some(facts) = value.get("_nats_sinks") {
                assert_eq!(facts["size_bytes"].as_u64(), u64::try_from(payload.len()).ok());
                assert_eq!(facts["sha256"].as_str().unwrap().len(), 64);
                let mut hex = Vec::new();
                crate::json::write_hex(&Sha256::digest(payload), &mut hex);
                assert_eq!(facts["sha256"].as_str().unwrap().as_bytes(), hex);
                let text = value["payload"].as_str().unwrap();
                if facts["payload_encoding"] == "utf-8" {
                    assert_eq!(text.as_bytes(), payload);
                } else {
                    use base64::Engine as _;
                    assert_eq!(base64::engine::general_purpose::STANDARD.decode(text).unwrap(), payload);
                }
            } else {
                assert_eq!(*value, serde_json::from_slice::<serde_json::Value>(payload).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn a_file_of_its_own_holds_the_payload_as_it_came() {
    let folder = TempDir::new().unwrap();
    let settings = FileSettings {
        layout: Layout::OneFilePerMessage,
        record: Record::Payload,
        ..settings(folder.path())
    };
    let sink = open(&settings);
    let mut envelope = message(1);
    envelope.payload = Bytes::from_static(b"a\r\n{b");
    write_ok(&sink, vec![envelope.clone(), message(2)]).await;
    let files = contents(folder.path());
    assert_eq!(files.keys().next().unwrap(), &format!("ORDERS-{:020}-{}.payload", 1, envelope.stored_at.0));
    assert_eq!(files.values().collect::<Vec<_>>(), ["a\r\n{b", "{\"n\":2}"]);
    drop(sink);
    let sink = reopen(&settings);
    envelope.payload = Bytes::from_static(b"never written");
    write_ok(&sink, vec![envelope]).await;
    assert_eq!(contents(folder.path()), files);
}

#[tokio::test]
async fn a_planted_link_is_no_commit() {
    let folder = TempDir::new().unwrap();
    let target = TempDir::new().unwrap();
    let settings = FileSettings { layout: Layout::OneFilePerMessage, ..settings(folder.path()) };
    let sink = open(&settings);
    let name = format!("ORDERS-{:020}-{}.json", 1, message(1).stored_at.0);
    symlink(target.path().join("victim"), folder.path().join(&name)).unwrap();
    write_ok(&sink, vec![message(1)]).await;
    assert_eq!(sequences(folder.path()), [1]);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}
