//! Field case 32: a crash in the middle of a line; lines that hold what readers trip over; two daemons on one file.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::{Daemon, Rig, RigPlan, ServerPlan, eventually, sequences, small, stays, whole_records};

const SOON: Duration = Duration::from_secs(30);

/// The segment that is being written.
fn open_segment(rig: &Rig) -> PathBuf {
    let entries = fs::read_dir(rig.sink()).unwrap().map(|entry| entry.unwrap().path());
    let open = entries.filter(|path| path.extension().is_some_and(|own| own == "open"));
    open.max().expect("an open segment")
}

#[tokio::test]
async fn a_torn_tail_swallows_neither_the_record_before_nor_the_one_after() {
    let tails: [&[u8]; 4] = [b"{\"a\":1,\"b\":", b"{\"a\":\"\xe2\x82", b"{\"a\":1}", b"\0\0\0\0"];
    for tail in tails {
        let rig = Rig::start().await;
        rig.client.publish_many("src.a", small(3)).await;
        let mut daemon = rig.daemon();
        rig.sink_holds(&[1, 2, 3], SOON).await;
        rig.drained(SOON).await;
        daemon.kill();
        OpenOptions::new().append(true).open(open_segment(&rig)).unwrap().write_all(tail).unwrap();
        let mut daemon = rig.daemon();
        daemon.ready().await;
        rig.client.publish_many("src.a", small(3)).await;
        rig.drained(SOON).await;
        daemon.stop().await;
        let found = whole_records(&rig.sink()).iter().map(|record| record.sequence()).collect::<Vec<_>>();
        assert_eq!(found, [1, 2, 3, 4, 5, 6], "after the tail {:?}", String::from_utf8_lossy(tail));
    }
}

#[tokio::test]
async fn bodies_with_line_ends_and_odd_signs_stay_on_their_line() {
    let mut plan = RigPlan {
        server: ServerPlan { extra: "max_payload: 1MB".into(), ..ServerPlan::default() },
        ..RigPlan::default()
    };
    plan.durable["ack_wait"] = 10_000_000_000_u64.into();
    let rig = plan.start().await;
    let long = format!("{{\"long\":\"{}\"}}", "y".repeat(700 * 1024));
    let texts =
        ["a\nb", "a\r\nb\r\n", "a\u{2028}b\u{2029}", "a\0b", "{\n  \"pretty\": [1,\n  2]\n}\n", &*long];
    for text in texts {
        rig.client.publish("src.a", text).await;
    }
    rig.client.publish("src.a", vec![0xff, 0x0a, 0xfe]).await;
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    let records = whole_records(&rig.sink());
    assert_eq!(records.len(), texts.len() + 1);
    for (record, text) in records.iter().zip(texts).take(4) {
        assert_eq!(record.json["payload"]["payload"], text);
    }
    assert_eq!(records[4].json["payload"]["pretty"][1], 2);
    assert_eq!(records[5].json["payload"]["long"].as_str().unwrap().len(), 700 * 1024);
    assert_eq!(records[6].json["payload"]["payload"], "/wr+");
}

#[tokio::test]
async fn of_two_daemons_on_one_directory_one_works_and_the_other_takes_over() {
    let rig = Rig::start().await;
    let mut first = rig.daemon();
    first.ready().await;
    let mut second = rig.daemon();
    second.not_ready_because("sink_locked", SOON).await;
    rig.client.publish_many("src.a", small(100)).await;
    rig.sink_holds(&(1..=100).collect::<Vec<_>>(), SOON).await;
    stays(Duration::from_secs(3), "the second one pulls nothing", async || {
        let seen = second.readiness().await?;
        let info = rig.client.consumer_info("SRC", "w").await;
        let received = second.metrics().await?.sum("jetsink_messages_received_total", &[]);
        let fits = !seen.ready && received == 0.0 && info["num_waiting"].as_u64() <= Some(4);
        if fits { Ok(()) } else { Err(format!("{seen:?} {received} {info}")) }
    })
    .await;
    first.stop().await;
    second.ready().await;
    rig.client.publish_many("src.a", small(100)).await;
    rig.drained(SOON).await;
    second.stop().await;
    assert_eq!(sequences(&rig.sink()), (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_killed_daemon_frees_its_directory_at_once() {
    let rig = Rig::start().await;
    let mut first = rig.daemon();
    first.ready().await;
    let mut second = rig.daemon();
    second.not_ready_because("sink_locked", SOON).await;
    first.kill();
    second.ready().await;
    second.stop().await;
}

#[tokio::test]
async fn another_pipeline_is_refused_on_a_directory_that_has_an_owner() {
    let rig = Rig::start().await;
    let mut daemon = rig.daemon();
    daemon.ready().await;
    daemon.stop().await;
    let other = serde_json::json!({ "durable_name": "other", "ack_policy": "explicit", "deliver_policy": "all",
                                    "replay_policy": "instant" });
    rig.client.create_consumer("SRC", &other).await;
    let mut settings = rig.settings();
    settings.set("consumer.durable", "other");
    let mut daemon = Daemon::start(&settings, &[]);
    eventually(SOON, "it is refused, or not ready, and nothing is pulled", async || {
        let refused = daemon.ended().is_some_and(|status| !status.success());
        let not_ready = daemon.readiness().await.is_ok_and(|seen| seen.body.contains("sink"));
        if refused || not_ready { Ok(()) } else { Err(daemon.log()) }
    })
    .await;
    assert_eq!(rig.client.consumer_info("SRC", "other").await["delivered"]["consumer_seq"], 0);
}
