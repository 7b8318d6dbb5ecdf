//! The dead-letter stream is away for long while rejections and good messages keep coming.
//!
//! `JETSINK_OUTAGE_SECONDS` sets how long; 300 is the run of an operator's worst night.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::harness::{Client, Daemon, Rig, RigPlan, eventually, oversized, sequences, small, stays};
use crate::outcome;

/// Among the other tests.
const USUAL_SECONDS: u64 = 15;
/// 1,000 good messages and 50 rejected ones a second.
const EVERY: Duration = Duration::from_millis(100);
const GOOD: usize = 100;
const BAD: usize = 5;
/// At 50 a second the bound is reached within five seconds.
const MOST_PARKED: i64 = 200;

/// Publishes at these rates until it is told to stop; gives the sequences of good messages and of rejected ones.
async fn publish_on(client: &Client, stop: &CancellationToken) -> (Vec<u64>, Vec<u64>) {
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    while !stop.is_cancelled() {
        tick.tick().await;
        good.extend(client.publish_many("src.good", small(GOOD)).await);
        bad.extend(client.publish_many("src.bad", oversized(BAD)).await);
    }
    (good, bad)
}

/// How the stream is away.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Deleted,
    Full,
}

impl Outage {
    async fn begin(self, rig: &Rig, plan: &RigPlan) {
        match self {
            Self::Deleted => drop(rig.client.api("STREAM.DELETE.DLQ", &Value::Null).await),
            Self::Full => {
                let mut full = plan.dead_letters.clone();
                full["max_bytes"] = Value::from(1024);
                rig.client.update_stream(&full).await;
            }
        }
    }

    async fn end(self, rig: &Rig, plan: &RigPlan) {
        match self {
            Self::Deleted => rig.client.create_stream(&plan.dead_letters).await,
            Self::Full => rig.client.update_stream(&plan.dead_letters).await,
        }
    }
}

async fn survives(outage: Outage) {
    let lasts = std::env::var("JETSINK_OUTAGE_SECONDS").map_or(USUAL_SECONDS, |text| text.parse().unwrap());
    // R0's durable gives up after four deliveries.
    let plan = RigPlan::default();
    let rig = plan.clone().start().await;
    let mut settings = rig.settings_for_small();
    settings
        .set("delivery.batch_size", 100)
        .set("delivery.max_parked", MOST_PARKED)
        .set("sink.file.rotate_bytes", "32 MiB");
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    outage.begin(&rig, &plan).await;
    let (began, stop) = (Instant::now(), CancellationToken::new());
    let ((good, bad), ()) = tokio::join!(publish_on(&rig.client, &stop), async {
        daemon.not_ready_because("dead_letter_unavailable", Duration::from_secs(10)).await;
        let told = began.elapsed();
        daemon.not_ready_because("pulling stops", Duration::from_secs(20)).await;
        let (held, before) = (began.elapsed(), outcome::newest(&rig.sink()));
        println!("{outage:?}: said so after {told:.1?}, held after {held:.1?} at sequence {before}");
        assert!(before > 100, "good ones flowed until the bound");
        let rest = Duration::from_secs(lasts).saturating_sub(began.elapsed());
        stays(rest, "it holds, says so and spends no delivery", async || {
            let seen = daemon.readiness().await?;
            let info = rig.client.consumer_info("SRC", "w").await;
            if !seen.ready && info["num_redelivered"] == 0 { Ok(()) } else { Err(format!("{seen:?} {info}")) }
        })
        .await;
        outage.end(&rig, &plan).await;
        let repaired = Instant::now();
        eventually(Duration::from_secs(60), "it is ready again", async || {
            let seen = daemon.readiness().await?;
            if seen.ready { Ok(()) } else { Err(seen.body) }
        })
        .await;
        println!("{outage:?}: ready {:.1?} after the repair", repaired.elapsed());
        stop.cancel();
    });
    rig.drained(Duration::from_secs(60 + lasts)).await;
    let metrics = daemon.metrics().await.unwrap();
    daemon.stop().await;
    println!("{outage:?}: {} good ones, {} rejected ones", good.len(), bad.len());
    assert_eq!(sequences(&rig.sink()), good, "every good one once");
    assert_eq!(rig.dead_letters().await, bad, "every rejected one in one dead letter");
    assert_eq!(metrics.sum("jetsink_redeliveries_received_total", &[]), 0.0, "no delivery was spent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_stream_that_is_gone_for_long_costs_no_message() {
    survives(Outage::Deleted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_stream_that_is_full_for_long_costs_no_message() {
    survives(Outage::Full).await;
}
