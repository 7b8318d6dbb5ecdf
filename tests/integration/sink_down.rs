//! Field cases 8 and 33: the disk is full for a while. Nobody's fault but the destination's: the daemon holds.

use std::fs;
use std::time::Duration;

use crate::harness::{Daemon, Rig, RigPlan, Tmpfs, Trace, small, stays, whole_records};

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

#[tokio::test]
async fn a_minute_without_a_sink_dead_letters_nothing_of_two_thousand_in_hand() {
    let rig = RigPlan::default().durable("max_ack_pending", 3000).start().await;
    let mount = Tmpfs::mount("4m");
    let mut settings = rig.settings();
    settings
        .set("sink.file.directory", mount.path().join("sink").to_str().unwrap())
        .set("delivery.batch_size", 500);
    let expected = rig.client.publish_many("src.a", small(2500)).await;
    // The first writes take three seconds each until they fail: time enough to take in all that may be in hand.
    let trace = Trace::injecting("pwrite64:delay_enter=3000000:when=1..3");
    let mut daemon = Daemon::start_under(trace.launcher(), &settings, &[]);
    daemon.ready().await;
    let ballast = mount.fill();
    daemon.not_ready_because("sink_down", SOON).await;
    let mut most = 0;
    stays(Duration::from_secs(60), "it holds, works on nothing and gives nothing up", async || {
        let info = rig.client.consumer_info("SRC", "w").await;
        most = most.max(info["num_ack_pending"].as_u64().unwrap());
        let acked = info["ack_floor"]["stream_seq"].as_u64().unwrap();
        let fits = acked < 2500 && !daemon.readiness().await?.ready;
        if fits { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
    assert!(most > 1500, "in hand at the most: {most}");
    fs::remove_file(ballast).unwrap();
    rig.drained(Duration::from_secs(60)).await;
    daemon.ready().await;
    daemon.stop().await;
    assert_eq!(stored(&mount), expected);
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}

#[tokio::test]
async fn one_message_that_the_sink_never_takes_costs_none_of_a_thousand_good_ones() {
    let rig = Rig::start().await;
    let before = rig.client.publish_many("src.a", small(500)).await;
    let bad = rig.client.publish("src.a", "this is not JSON").await;
    let after = rig.client.publish_many("src.a", small(500)).await;
    let mut settings = rig.settings();
    settings.set("sink.file.payload_mode", "json_only").set("delivery.batch_size", 100);
    let mut daemon = Daemon::start(&settings, &[]);
    rig.drained(SOON).await;
    daemon.ready().await;
    rig.sink_holds(&[before, after].concat(), SOON).await;
    assert_eq!(rig.dead_letters().await, [bad]);
    assert_eq!(rig.client.messages("DLQ").await[0].header("Jetsink-Reason"), Some("payload_not_json"));
    daemon.stop().await;
}
