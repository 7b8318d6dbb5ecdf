//! `jetsink dlq redrive --through-pipeline`: through the gate into the sink, and no other consumer sees it.

use std::time::Duration;

use jetsink::dead_letter::Format;
use jetsink::reason::{ReasonCode, Stage};
use jetsink::testing::builders::envelope;

use crate::harness::{Daemon, Rig, Settings, dlq, letter, oversized, sequences, small};

const SOON: Duration = Duration::from_secs(40);

fn write(rig: &Rig, name: &str, settings: &Settings) -> String {
    let file = rig.folder().join(name);
    std::fs::write(&file, settings.text()).unwrap();
    file.to_str().unwrap().to_owned()
}

async fn left(rig: &Rig) -> u64 {
    rig.client.stream_info("DLQ").await["state"]["messages"].as_u64().unwrap()
}

#[tokio::test]
async fn rejected_messages_pass_a_mended_gate_into_the_sink_once() {
    let rig = Rig::start().await;
    rig.client.publish_many("src.a", [small(1), oversized(5), small(1)].concat()).await;
    let strict = rig.settings_for_small();
    let mut daemon = Daemon::start(&strict, &[]);
    daemon.ready().await;
    rig.drained(SOON).await;
    assert_eq!(left(&rig).await, 5);

    let strict = write(&rig, "strict.toml", &strict);
    let locked = dlq(&rig.server, &["redrive", "-c", &strict, "--through-pipeline", "--yes"]).await;
    assert!(locked.code == Some(1) && locked.err.contains("sink_locked"), "{}", locked.err);
    daemon.stop().await;
    let again = dlq(&rig.server, &["redrive", "-c", &strict, "--through-pipeline", "--yes"]).await;
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("rejected again, size: payload_too_large"), "{}", again.err);
    assert_eq!(left(&rig).await, 5, "what is rejected again stays");
    assert_eq!(sequences(&rig.sink()), [1, 7]);

    let mended = write(&rig, "mended.toml", &rig.settings());
    let before = rig.client.stream_info("SRC").await["state"].clone();
    let ran = dlq(&rig.server, &["redrive", "2", "-c", &mended, "--through-pipeline", "--yes"]).await.fine();
    assert!(ran.text().contains("redriven 1, kept 0"), "{}", ran.text());
    let ran = dlq(&rig.server, &["redrive", "-c", &mended, "--through-pipeline", "--yes"]).await.fine();
    assert!(ran.text().contains("redriven 4, kept 0"), "{}", ran.text());
    assert_eq!(left(&rig).await, 0);
    let mut found = sequences(&rig.sink());
    found.sort_unstable();
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7]);
    let after = rig.client.stream_info("SRC").await["state"].clone();
    assert_eq!(before["last_seq"], after["last_seq"], "the stream saw nothing");
}

#[tokio::test]
async fn what_the_sink_has_already_is_only_deleted() {
    let rig = Rig::start().await;
    rig.client.publish_many("src.a", oversized(2)).await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    let mended = write(&rig, "mended.toml", &rig.settings());
    // The letters of a crash between the commit and the deletion: exported before, imported after.
    let lines = rig.folder().join("letters");
    dlq(&rig.server, &["export", "-c", &mended, "-o", lines.to_str().unwrap()]).await.fine();
    dlq(&rig.server, &["redrive", "-c", &mended, "--through-pipeline", "--yes"]).await.fine();
    dlq(&rig.server, &["import", lines.to_str().unwrap(), "-c", &mended, "--yes"]).await.fine();
    assert_eq!(left(&rig).await, 2);
    let ran = dlq(&rig.server, &["redrive", "-c", &mended, "--through-pipeline", "--yes"]).await.fine();
    assert!(ran.text().contains("redriven 2 (2 of them were there already), kept 0"), "{}", ran.text());
    assert_eq!(sequences(&rig.sink()), [1, 2]);
    assert_eq!(left(&rig).await, 0);
}

#[tokio::test]
async fn letters_of_other_streams_are_not_this_pipelines() {
    let rig = Rig::start().await;
    let source = jetsink::envelope::SourceNames::shared("OTHER", "w");
    let parts = letter(
        &envelope(1).source(source).build(),
        (Stage::Sink, ReasonCode::SinkRefused),
        Format::Json,
        65_536,
    );
    rig.client.store_parts("dlq.src", parts).await;
    let file = write(&rig, "own.toml", &rig.settings());
    let ran = dlq(&rig.server, &["redrive", "-c", &file, "--through-pipeline", "--yes"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("it is of stream OTHER"), "{}", ran.err);
    assert_eq!(left(&rig).await, 1);
}
