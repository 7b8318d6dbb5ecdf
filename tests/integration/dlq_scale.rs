//! Many dead letters: what listing, counting and a dry run take. The count is small here and given by
//! `JETSINK_DLQ_LETTERS` for a measurement (`cargo test --release --test integration dlq_scale -- --nocapture`).

use std::time::Duration;

use jetsink::dead_letter::{Format, Part};
use jetsink::reason::{ReasonCode, Stage};
use jetsink::testing::builders::envelope;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::harness::{Rig, RigPlan, letter, start_dlq};

/// The bound of design and issue for 100,000 letters.
const PEAK_KIB: u64 = 64 << 10;
const DURATION: Duration = Duration::from_secs(10);

async fn fill(rig: &Rig, count: u64) {
    let mut parts: Vec<Part> = Vec::new();
    for number in 1..=count {
        let body = format!("{{\"number\":{number},\"pad\":\"{}\"}}", "x".repeat(480));
        let reasons = [ReasonCode::PayloadTooLarge, ReasonCode::SinkRefused, ReasonCode::AttemptsExhausted];
        let reason = reasons[usize::try_from(number % 3).unwrap()];
        let own = envelope(number).header("Tenant", "a").payload(body).build();
        parts.extend(letter(&own, (Stage::Sink, reason), Format::Json, 65_536));
        if parts.len() >= 5000 {
            rig.client.store_parts("dlq.src", std::mem::take(&mut parts)).await;
        }
    }
    rig.client.store_parts("dlq.src", parts).await;
}

/// Lines of output, duration, and the peak of resident memory in KiB.
async fn measured(rig: &Rig, words: &[&str]) -> (usize, Duration, u64) {
    let began = Instant::now();
    let mut child = start_dlq(&rig.server, words);
    let id = child.id().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut tick = interval(Duration::from_millis(10));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut peak, mut lines) = (0, 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        tokio::select! {
            read = out.read(&mut buffer) => {
                let read = read.unwrap();
                if read == 0 {
                    break;
                }
                lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
            }
            _ = tick.tick() => {}
        }
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let own = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let own = own.and_then(|own| own.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
        peak = peak.max(own.unwrap_or(0));
    }
    assert!(child.wait().await.unwrap().success());
    (lines, began.elapsed(), peak)
}

#[tokio::test]
async fn many_letters_take_little_memory_and_time() {
    let count =
        std::env::var("JETSINK_DLQ_LETTERS").ok().and_then(|text| text.parse().ok()).unwrap_or(6_000u64);
    for (allow_direct, way) in [(true, "batches"), (false, "one by one")] {
        let rig = RigPlan::default().dead_letters("allow_direct", allow_direct).start().await;
        fill(&rig, count).await;
        let third = usize::try_from(count / 3).unwrap();
        let all = usize::try_from(count).unwrap();
        for (words, expected) in [
            (&["ls", "--reason", "sink_refused", "--format", "json"][..], third),
            (&["ls", "--format", "json"], all),
            (&["stats", "--format", "json"], 1),
            (&["redrive", "--dry-run", "--format", "json"], all),
        ] {
            let (lines, took, peak) = measured(&rig, &[words, &["--stream", "DLQ"]].concat()).await;
            println!("{count} letters, {way}: {words:?}: {took:?}, peak {peak} KiB");
            assert!(lines.abs_diff(expected) <= 1, "{words:?}: {lines} lines");
            assert!(peak < PEAK_KIB, "{words:?}: {peak} KiB");
            assert!(took < DURATION || cfg!(debug_assertions), "{words:?}: {took:?}");
        }
    }
}
