//! Every boundary in turn; afterwards everything is there once.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::harness::{
    Client, Daemon, Rig, RigPlan, Settings, eventually, oversized, sequences, whole_records,
};

/// Every crash point between a pull and its ack.
const BOUNDARIES: [&str; 7] = [
    "file.before_write",
    "file.between_write_and_sync",
    "file.after_data_sync",
    "file.after_index_sync",
    "runner.before_ack",
    "runner.after_ack",
    "file.before_rename",
];
const CRASHES: usize = 56;
/// One life, from its start to its crash.
const LIFE: Duration = Duration::from_secs(30);
/// After the last crash: the ack wait of 2 s, a start, and the backlog.
const DRAINED: Duration = Duration::from_secs(60);

/// Publishes without a pause, until it is told to stop; gives the number of messages.
async fn publish_on(client: &Client, stop: &CancellationToken) -> u64 {
    let mut tick = interval(Duration::from_millis(2));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut count = 0;
    while !stop.is_cancelled() {
        tick.tick().await;
        let body = format!("{{\"number\":{count},\"pad\":\"{}\"}}", "p".repeat(200));
        client.publish("src.a", body).await;
        count += 1;
    }
    count
}

/// Runs the daemon until it dies at its crash point.
async fn crash_at(settings: &Settings, point: &str) {
    let mut daemon = Daemon::start(settings, &[("JETSINK_FAILPOINT", point)]);
    let status = eventually(LIFE, &format!("the daemon dies at {point}"), async || {
        daemon.ended().ok_or_else(|| daemon.log())
    })
    .await;
    assert_eq!(status.code(), None, "{point}: ended by a signal, not by itself:\n{}", daemon.log());
}

/// One life after the other; each boundary in turn, at another pass every time.
async fn crash_again_and_again(settings: &Settings, stop: &CancellationToken) {
    for crash in 0..CRASHES {
        let point = BOUNDARIES[crash % BOUNDARIES.len()];
        // The rename comes with the end of a segment; the others with every batch.
        let pass = if point == "file.before_rename" { 1 } else { 2 + crash % 3 };
        crash_at(settings, &format!("{point}:{pass}")).await;
    }
    stop.cancel();
}

async fn survive_crashes(rig: &Rig, settings: &Settings) {
    let stop = CancellationToken::new();
    let (published, ()) =
        tokio::join!(publish_on(&rig.client, &stop), crash_again_and_again(settings, &stop));
    let mut daemon = Daemon::start(settings, &[]);
    rig.drained(DRAINED).await;
    daemon.ready().await;
    daemon.stop().await;
    assert!(published > 500, "there was something to lose: {published}");
    assert_eq!(whole_records(&rig.sink()).len() as u64, published);
    assert_eq!(sequences(&rig.sink()), (1..=published).collect::<Vec<_>>());
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}

async fn rig() -> (Rig, Settings) {
    let rig = RigPlan::patient().start().await;
    let mut settings = rig.settings_with_usual_limits();
    settings.set("sink.file.rotate_bytes", "64 KiB");
    (rig, settings)
}

#[tokio::test]
async fn fifty_crashes_lose_nothing_and_store_nothing_twice() {
    let (rig, settings) = rig().await;
    survive_crashes(&rig, &settings).await;
}

#[tokio::test]
async fn the_same_with_compressed_segments() {
    let (rig, mut settings) = rig().await;
    settings.set("sink.file.compression", "zstd");
    survive_crashes(&rig, &settings).await;
}

/// Dies after dead letters are confirmed and before their originals are settled, a hundred times (or as often as
/// `JETSINK_DEAD_LETTER_CRASHES` says); every fifth time by SIGKILL as soon as the letter is there.
#[tokio::test]
async fn crashes_between_dead_letters_and_their_settlement_make_no_second_ones() {
    let crashes = std::env::var("JETSINK_DEAD_LETTER_CRASHES").map_or(100, |text| text.parse().unwrap());
    // The ack wait is short, since what each life had in hand comes back after it.
    let plan = RigPlan::patient().durable("ack_wait", 500_000_000_u64);
    let rig = plan.dead_letters("duplicate_window", 3_600_000_000_000_u64).start().await;
    let mut settings = rig.settings_with_usual_limits();
    settings.set("size_policy.max_payload_bytes", "1 KiB").set("consumer.expires", "1s");
    let mut rejected = Vec::new();
    for crash in 0..crashes {
        rejected.extend(rig.client.publish_many("src.bad", oversized(1)).await);
        if crash % 5 < 4 {
            crash_at(&settings, "dead_letter.before_settle").await;
        } else {
            kill_at_the_letter_of(*rejected.last().unwrap(), &rig, &settings).await;
        }
    }
    let daemon = Daemon::start(&settings, &[]);
    rig.drained(DRAINED).await;
    daemon.stop().await;
    assert_eq!(rig.dead_letters().await, rejected, "exactly one dead letter each");
    assert_eq!(sequences(&rig.sink()), [0_u64; 0]);
}

async fn kill_at_the_letter_of(sequence: u64, rig: &Rig, settings: &Settings) {
    let before = rig.client.stream_info("DLQ").await["state"]["last_seq"].as_u64();
    let mut daemon = Daemon::start(settings, &[]);
    eventually(LIFE, &format!("a dead letter of {sequence}"), async || {
        let last = rig.client.stream_info("DLQ").await["state"]["last_seq"].as_u64();
        if last > before { Ok(()) } else { Err(daemon.log()) }
    })
    .await;
    daemon.kill();
}

/// Runs one daemon after the other until one has dead-lettered what kills it; gives that one.
async fn outlive(rig: &Rig, settings: &Settings, boom: u64, most_lives: usize) -> Daemon {
    for _ in 0..most_lives {
        let mut daemon = Daemon::start(settings, &[("JETSINK_FAILPOINT", "gate.boom")]);
        let died = eventually(LIFE, "the daemon dies, or has dead-lettered what kills it", async || {
            match (daemon.ended(), rig.dead_letters().await) {
                (Some(_), _) => Ok(true),
                (None, letters) if letters == [boom] => Ok(false),
                (None, letters) => Err(format!("{letters:?}")),
            }
        })
        .await;
        if !died {
            return daemon;
        }
    }
    panic!("it still dies after {most_lives} lives");
}

/// Field case 19: one message ends every process that reads it; five good ones stand beside it, and `traffic` comes in
/// meanwhile or does not.
async fn one_that_kills(rig: &Rig, settings: &mut Settings, most_lives: usize, traffic: bool) {
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 2]).await;
    let boom = rig.client.publish("src.a", "BOOM").await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 3]).await;
    settings.set("consumer.expires", "1s");
    let stop = CancellationToken::new();
    if !traffic {
        stop.cancel();
    }
    let (published, daemon) = tokio::join!(publish_on(&rig.client, &stop), async {
        let daemon = outlive(rig, settings, boom, most_lives).await;
        stop.cancel();
        daemon
    });
    rig.drained(DRAINED).await;
    let expected = (1..=6 + published).filter(|sequence| *sequence != boom).collect::<Vec<_>>();
    rig.sink_holds(&expected, DRAINED).await;
    assert_eq!(rig.dead_letters().await, [boom], "no neighbour pays");
    let letter = rig.client.messages("DLQ").await.remove(0);
    assert_eq!(letter.header("Jetsink-Reason"), Some("suspected_crash"));
    assert_eq!(letter.json()["payload_base64"], "Qk9PTQ==");
    daemon.stop().await;
}

#[tokio::test]
async fn a_message_that_kills_the_process_is_dead_lettered_unread_at_the_crash_limit() {
    let rig = RigPlan::patient().start().await;
    one_that_kills(&rig, &mut rig.settings_with_usual_limits(), 11, false).await;
}

#[tokio::test]
async fn the_same_while_other_messages_keep_coming() {
    let rig = RigPlan::patient().start().await;
    one_that_kills(&rig, &mut rig.settings_with_usual_limits(), 11, true).await;
}

/// R0's own limits: `crash_limit` 3, `max_deliver` 4. What kills is read twice, and no neighbour may pay for that.
#[tokio::test]
async fn the_same_with_a_crash_limit_of_three() {
    let rig = Rig::start().await;
    one_that_kills(&rig, &mut rig.settings(), 6, false).await;
}

#[tokio::test]
async fn the_same_with_a_crash_limit_of_three_while_other_messages_keep_coming() {
    let rig = Rig::start().await;
    one_that_kills(&rig, &mut rig.settings(), 6, true).await;
}
