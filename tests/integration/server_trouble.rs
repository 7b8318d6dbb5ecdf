//! The server is killed and restarted, stands still, or comes back with an older store.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Daemon, Rig, RigPlan, Tmpfs, eventually, records, small};

const SOON: Duration = Duration::from_secs(40);

async fn rig() -> Rig {
    RigPlan::patient().start().await
}

fn daemon(rig: &Rig) -> Daemon {
    Daemon::start(&rig.settings_with_usual_limits(), &[])
}

/// Bodies that are told apart over all sequences.
fn numbered(from: u64, count: u64) -> Vec<Vec<u8>> {
    (from..from + count).map(|number| format!("{{\"number\":{number}}}").into_bytes()).collect()
}

/// What a message is, as far as these tests can see it: its sequence and its own number.
fn pairs(directory: &Path) -> Vec<(u64, u64)> {
    let pair = |record: &crate::harness::Record| {
        (record.sequence(), record.json["payload"]["number"].as_u64().unwrap())
    };
    records(directory).iter().map(pair).collect()
}

/// Everything that the stream keeps is in the sink, and nothing is there twice.
async fn everything_once(rig: &Rig, directory: &Path) {
    let found = pairs(directory);
    let set = found.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(set.len(), found.len(), "something is there twice");
    let stored = rig.client.messages("SRC").await;
    let missing = stored.iter().map(|message| (message.sequence, message.json()["number"].as_u64().unwrap()));
    let missing = missing.filter(|pair| !set.contains(pair)).collect::<Vec<_>>();
    assert!(missing.is_empty(), "not in the sink: {missing:?}");
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}

#[tokio::test]
async fn five_kills_of_the_server_lose_nothing_and_store_nothing_twice() {
    let mut rig = self::rig().await;
    let mut daemon = self::daemon(&rig);
    daemon.ready().await;
    for kill in 0..5 {
        rig.client.publish_many("src.a", numbered(kill * 400, 400)).await;
        let enough = usize::try_from(kill * 400 + 30).unwrap();
        eventually(SOON, "the daemon is in the middle of its work", async || {
            let found = records(&rig.sink()).len();
            if found >= enough { Ok(()) } else { Err(format!("{found} of {enough}")) }
        })
        .await;
        rig.server.kill();
        rig.server.restart().await;
    }
    rig.drained(SOON).await;
    daemon.ready().await;
    assert!(daemon.metrics().await.unwrap().sum("jetsink_connects_total", &[]) >= 2.0);
    daemon.stop().await;
    everything_once(&rig, &rig.sink()).await;
}

#[tokio::test]
async fn a_kill_right_after_confirmed_acks_stores_nothing_twice() {
    let mut rig = self::rig().await;
    let mut daemon = self::daemon(&rig);
    daemon.ready().await;
    for kill in 0..5 {
        let last = *rig.client.publish_many("src.a", numbered(kill * 50, 50)).await.last().unwrap();
        loop {
            let info = rig.client.consumer_info("SRC", "w").await;
            if info["ack_floor"]["stream_seq"].as_u64() >= Some(last) {
                break;
            }
        }
        rig.server.kill();
        rig.server.restart().await;
    }
    rig.drained(SOON).await;
    daemon.ready().await;
    daemon.stop().await;
    everything_once(&rig, &rig.sink()).await;
}

#[tokio::test]
async fn a_server_that_stands_still_is_noticed_and_caught_up_with() {
    let rig = self::rig().await;
    let mut settings = rig.settings_with_usual_limits();
    settings.set("nats.ping_interval", "1s");
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    rig.server.pause();
    eventually(SOON, "the daemon says that it is not ready", async || {
        let seen = daemon.readiness().await?;
        if seen.ready { Err(format!("{seen:?}")) } else { Ok(()) }
    })
    .await;
    assert_eq!(daemon.alive().await, Ok(true), "waiting for a server is no reason to be killed");
    rig.server.resume();
    rig.client.publish_many("src.a", numbered(0, 20)).await;
    rig.drained(SOON).await;
    daemon.ready().await;
    daemon.stop().await;
    everything_once(&rig, &rig.sink()).await;
}

#[tokio::test]
async fn a_stream_made_anew_while_the_daemon_is_stopped_is_written_from_its_start() {
    let plan = RigPlan::default();
    let rig = plan.clone().start().await;
    rig.client.publish_many("src.a", numbered(0, 5)).await;
    let daemon = self::daemon(&rig);
    rig.drained(SOON).await;
    daemon.stop().await;
    rig.client.api("STREAM.DELETE.SRC", &Value::Null).await;
    rig.client.create_stream(&plan.source).await;
    rig.client.create_consumer("SRC", &plan.durable).await;
    rig.client.publish_many("src.a", numbered(100, 5)).await;
    let daemon = self::daemon(&rig);
    rig.drained(SOON).await;
    daemon.stop().await;
    everything_once(&rig, &rig.sink()).await;
    assert_eq!(pairs(&rig.sink()).len(), 10);
}

#[tokio::test]
async fn no_late_ack_settles_a_message_of_the_new_stream() {
    let plan = RigPlan::default();
    let (rig, mount) = (plan.clone().start().await, Tmpfs::mount("1m"));
    let directory = mount.path().join("sink");
    let mut settings = rig.settings_with_usual_limits();
    settings.set("sink.file.directory", directory.to_str().unwrap());
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    let ballast = mount.fill();
    rig.client.publish_many("src.a", numbered(0, 10)).await;
    daemon.not_ready_because("sink_down", SOON).await;
    rig.client.api("STREAM.DELETE.SRC", &Value::Null).await;
    rig.client.create_stream(&plan.source).await;
    rig.client.create_consumer("SRC", &plan.durable).await;
    rig.client.publish_many("src.a", numbered(100, 10)).await;
    fs::remove_file(ballast).unwrap();
    rig.drained(SOON).await;
    daemon.ready().await;
    daemon.stop().await;
    everything_once(&rig, &directory).await;
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Five messages, a copy of the store, five more, all written; then the server comes back with the copy.
async fn roll_back(rig: &mut Rig) {
    rig.client.publish_many("src.a", numbered(0, 5)).await;
    rig.drained(SOON).await;
    rig.server.stop().await;
    let backup = rig.folder().join("backup");
    copy(&rig.server.store(), &backup);
    rig.server.restart().await;
    rig.client.publish_many("src.a", numbered(5, 5)).await;
    rig.drained(SOON).await;
    rig.server.kill();
    fs::remove_dir_all(rig.server.store()).unwrap();
    copy(&backup, &rig.server.store());
}

#[tokio::test]
async fn a_store_rolled_back_while_the_daemon_runs_gets_its_new_messages_written() {
    let mut rig = self::rig().await;
    let mut daemon = self::daemon(&rig);
    daemon.ready().await;
    roll_back(&mut rig).await;
    rig.server.restart().await;
    let sequences = rig.client.publish_many("src.a", numbered(100, 5)).await;
    assert_eq!(sequences, [6, 7, 8, 9, 10], "the sequences of messages that are gone");
    rig.drained(SOON).await;
    daemon.ready().await;
    daemon.stop().await;
    everything_once(&rig, &rig.sink()).await;
    assert_eq!(pairs(&rig.sink()).len(), 15);
}

#[tokio::test]
async fn a_store_rolled_back_while_the_daemon_is_stopped_gets_its_new_messages_written() {
    let mut rig = self::rig().await;
    let mut daemon = self::daemon(&rig);
    roll_back(&mut rig).await;
    daemon.kill();
    rig.server.restart().await;
    rig.client.publish_many("src.a", numbered(100, 5)).await;
    let daemon = self::daemon(&rig);
    rig.drained(SOON).await;
    daemon.stop().await;
    everything_once(&rig, &rig.sink()).await;
    assert_eq!(pairs(&rig.sink()).len(), 15);
}

#[tokio::test]
async fn the_old_server_serves_as_well() {
    let mut plan = RigPlan::default();
    plan.server.kind = crate::harness::ServerKind::Old;
    let mut rig = plan.start().await;
    let mut daemon = Daemon::start(&rig.settings_for_small(), &[]);
    daemon.ready().await;
    rig.client.publish_many("src.a", small(200)).await;
    rig.client.publish_many("src.bad", crate::harness::oversized(2)).await;
    rig.drained(SOON).await;
    rig.server.kill();
    rig.server.restart().await;
    rig.client.publish_many("src.a", small(200)).await;
    rig.drained(SOON).await;
    daemon.ready().await;
    daemon.stop().await;
    let found = crate::harness::sequences(&rig.sink());
    assert_eq!(found, (1..=200).chain(203..=402).collect::<Vec<_>>());
    assert_eq!(rig.dead_letters().await, [201, 202]);
}
