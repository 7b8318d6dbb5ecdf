//! Field cases 8 and 33: the disk is full for a while. Nobody's fault but the destination's: the daemon holds.

use std::fs;
use std::time::Duration;

use crate::harness::{Daemon, Rig, Tmpfs, small, stays, whole_records};

const SOON: Duration = Duration::from_secs(30);

fn daemon_on(rig: &Rig, mount: &Tmpfs) -> Daemon {
    let mut settings = rig.settings();
    settings.set("sink.file.directory", mount.path().join("sink").to_str().unwrap());
    Daemon::start(&settings, &[])
}

fn stored(mount: &Tmpfs) -> Vec<u64> {
    let mut found =
        whole_records(&mount.path().join("sink")).iter().map(|record| record.sequence()).collect::<Vec<_>>();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn a_short_blip_burns_no_deliveries_and_makes_no_dead_letters() {
    let (rig, mount) = (Rig::start().await, Tmpfs::mount("1m"));
    let mut daemon = daemon_on(&rig, &mount);
    daemon.ready().await;
    let ballast = mount.fill();
    let expected = rig.client.publish_many("src.a", small(20)).await;
    daemon.not_ready_because("sink_down", SOON).await;
    stays(Duration::from_millis(1500), "nothing is acknowledged or given up", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        let acked = info["ack_floor"]["stream_seq"].as_u64().unwrap();
        if acked == 0 && rig.dead_letters().await.is_empty() { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
    fs::remove_file(ballast).unwrap();
    rig.drained(SOON).await;
    daemon.ready().await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    let metrics = daemon.metrics().await.unwrap();
    assert_eq!(metrics.sum("jetsink_attempts_counted_total", &[]), 0.0);
    assert!(metrics.sum("jetsink_holds_total", &[]) >= 1.0);
    daemon.stop().await;
    assert_eq!(stored(&mount), expected);
}

#[tokio::test]
async fn a_full_disk_acknowledges_nothing_and_tears_nothing() {
    let (rig, mount) = (Rig::start().await, Tmpfs::mount("64k"));
    let bodies = (0..200).map(|number| format!("{{\"n\":{number},\"pad\":\"{}\"}}", "x".repeat(1000)));
    let expected = rig.client.publish_many("src.a", bodies.map(String::into_bytes).collect()).await;
    let mut daemon = daemon_on(&rig, &mount);
    daemon.not_ready_because("sink_down", SOON).await;
    stays(Duration::from_secs(4), "not ready, and no more acknowledged than written", async || {
        let seen = daemon.readiness().await?;
        let info = rig.client.consumer_info("SRC", "w").await;
        let acked = info["ack_floor"]["stream_seq"].as_u64().unwrap();
        let written = stored(&mount);
        let proven = (1..=acked).all(|sequence| written.contains(&sequence));
        if !seen.ready && proven && acked < 200 {
            Ok(())
        } else {
            Err(format!("{seen:?} {info} {written:?}"))
        }
    })
    .await;
    mount.resize("8m");
    rig.drained(SOON).await;
    daemon.ready().await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    daemon.stop().await;
    assert_eq!(stored(&mount), expected);
}

#[tokio::test]
async fn a_daemon_killed_on_a_full_disk_leaves_a_directory_that_can_be_used() {
    let (rig, mount) = (Rig::start().await, Tmpfs::mount("64k"));
    let bodies = (0..200).map(|number| format!("{{\"n\":{number},\"pad\":\"{}\"}}", "x".repeat(1000)));
    let expected = rig.client.publish_many("src.a", bodies.map(String::into_bytes).collect()).await;
    let mut daemon = daemon_on(&rig, &mount);
    daemon.not_ready_because("sink_down", SOON).await;
    daemon.kill();
    mount.resize("8m");
    let mut daemon = daemon_on(&rig, &mount);
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    assert_eq!(stored(&mount), expected);
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}
