//! Field case 18: a stop loses no acknowledgement, so a deploy repeats nothing.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Daemon, Rig, RigPlan, eventually, records, sequences, small};

const ROUNDS: u64 = 20;
const MESSAGES: usize = 1000;
const SOON: Duration = Duration::from_secs(40);

/// Waits until the sink holds at least this many records.
async fn at_least(rig: &Rig, count: usize) {
    eventually(SOON, "the sink has grown", async || {
        let found = records(&rig.sink()).len();
        if found >= count { Ok(()) } else { Err(format!("{found} of {count}")) }
    })
    .await;
}

#[tokio::test]
async fn twenty_stops_in_the_middle_of_work_repeat_nothing() {
    let rig = Rig::start().await;
    let mut settings = rig.settings();
    // A stop waits until the last open pull has ended.
    settings.set("consumer.expires", "1s");
    let mut published = 0;
    for round in 0..ROUNDS {
        let mut daemon = Daemon::start(&settings, &[]);
        rig.client.publish_many("src.a", small(MESSAGES / 20)).await;
        published += MESSAGES / 20;
        // A different place in the work every time.
        let place = usize::try_from(round * 7 % 50).unwrap();
        at_least(&rig, (published - 50 + place).min(published)).await;
        eventually(SOON, "the daemon is past its start", async || {
            daemon.readiness().await.and_then(|seen| if seen.ready { Ok(()) } else { Err(seen.body) })
        })
        .await;
        daemon.stop().await;
        let info = rig.client.consumer_info("SRC", "w").await;
        assert_eq!(info["num_ack_pending"], 0, "round {round}: every ack has arrived: {info}");
    }
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    let info = rig.client.consumer_info("SRC", "w").await;
    assert_eq!(info["delivered"]["consumer_seq"], MESSAGES, "no message was delivered twice: {info}");
    assert_eq!(sequences(&rig.sink()), (1..=1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stop_while_the_server_restarts_loses_nothing_and_stores_nothing_twice() {
    let mut rig = RigPlan::patient().start().await;
    let mut settings = rig.settings_with_usual_limits();
    settings.set("delivery.shutdown_timeout", "10s");
    for round in 0..5 {
        let mut daemon = Daemon::start(&settings, &[]);
        daemon.ready().await;
        rig.client.publish_many("src.a", small(200)).await;
        at_least(&rig, round * 200 + 50).await;
        daemon.signal(Signal::TERM);
        rig.server.kill();
        rig.server.restart().await;
        // Whether the last acks arrived is a matter of luck here; that it ends in time is not.
        let code = daemon.exit_code(Duration::from_secs(20)).await;
        assert!(code.is_some(), "it ended by itself:\n{}", daemon.log());
    }
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    rig.all_accounted_for().await;
    let found = sequences(&rig.sink());
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "each once: {found:?}");
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}

#[tokio::test]
async fn after_a_kill_only_what_was_in_hand_comes_again_and_the_sink_shows_none_of_it_twice() {
    let rig = RigPlan::patient().start().await;
    let expected = rig.client.publish_many("src.a", small(500)).await;
    let settings = rig.settings_with_usual_limits();
    for kill in 1..=5 {
        let mut daemon = Daemon::start(&settings, &[]);
        at_least(&rig, kill * 60).await;
        daemon.kill();
    }
    let mut daemon = Daemon::start(&settings, &[]);
    rig.drained(SOON).await;
    daemon.ready().await;
    daemon.stop().await;
    assert_eq!(sequences(&rig.sink()), expected);
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}

#[tokio::test]
async fn a_second_signal_ends_at_once_and_what_was_not_finished_comes_back() {
    let mut rig = Rig::start().await;
    let expected = rig.client.publish_many("src.a", small(50)).await;
    let mut daemon = rig.daemon();
    at_least(&rig, 50).await;
    // A server that stands still keeps the drain from ending.
    rig.server.pause();
    daemon.signal(Signal::TERM);
    daemon.signal(Signal::INT);
    let code = daemon.exit_code(Duration::from_secs(5)).await;
    rig.server.resume();
    assert_ne!(code, Some(0), "an aborted stop is not a success");
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    assert_eq!(sequences(&rig.sink()), expected);
    rig.server.stop().await;
}
