//! The one lawful way: it compiles, so the other programs fail for the reason they state.

use std::time::Duration;

use jetsink::clock::Timestamp;
use jetsink::delivery::{DeadLetterPublisher, Gate, Received, Rejected, Settlement, Sink, Turn, write};

async fn sink_way(delivery: Received, gate: &dyn Gate, sink: &dyn Sink) -> Vec<Settlement> {
    let Ok(admitted) = delivery.admit(gate) else { return Vec::new() };
    let outcome = write(vec![admitted], sink, Turn::now(), Duration::from_secs(1), false).await;
    outcome.committed.into_iter().map(|committed| committed.acknowledge()).collect()
}

async fn dead_letter_way(rejected: Rejected, publisher: &dyn DeadLetterPublisher) -> Option<Settlement> {
    let dead_lettered = rejected.dead_letter(publisher, Timestamp(0)).await.ok()?;
    Some(dead_lettered.terminate())
}

fn main() {
    let _ = sink_way;
    let _ = dead_letter_way;
}
