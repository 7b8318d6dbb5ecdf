//! A schedule on the model.

#![expect(clippy::future_not_send, reason = "it runs on a runtime of one thread")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jetsink::clock::Timestamp;
use jetsink::delivery::{
    Acker, Budget, Committed, Confirm, Guarantee, Received, Settlement, Source, Turn, write,
};
use jetsink::envelope::Headers;
use jetsink::testing::model_stream::{DurableConfig, ModelConnection, ModelServer, Retention, StreamConfig};
use jetsink::testing::{Journal, Warehouse, builders};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{ACK_WAIT, EXPIRES, Move, NAK_DELAY, Schedule, Seen, TURN, Verb};

struct Player {
    server: ModelServer,
    connection: ModelConnection,
    source: Box<dyn Source>,
    acker: Arc<dyn Acker>,
    in_hand: BTreeMap<u64, Received>,
}

pub(super) async fn play(schedule: &Schedule) -> Seen {
    let retention = if schedule.work_queue { Retention::WorkQueue } else { Retention::Limits };
    let server = ModelServer::new(
        StreamConfig { retention, ..StreamConfig::default() },
        DurableConfig {
            ack_wait: ACK_WAIT,
            max_deliver: schedule.max_deliver,
            max_ack_pending: schedule.max_ack_pending,
            ..DurableConfig::default()
        },
        1,
    );
    let connection = server.connect(EXPIRES);
    let mut player = Player {
        source: connection.source(),
        acker: connection.acker(),
        in_hand: BTreeMap::new(),
        server,
        connection,
    };
    let start = Instant::now();
    let mut seen = Seen::default();
    for (turn, moves) in (0u32..).zip(&schedule.turns) {
        sleep_until(start + TURN * turn).await;
        for one in moves {
            match one {
                Move::Publish => drop(player.server.publish("src.a", Headers::new(), "{}")),
                Move::Pull(batch) => seen.pulls.push(player.pull(*batch).await),
                Move::Say(index, verb) => player.say(*index, *verb).await,
            }
        }
    }
    sleep_until(start + TURN * u32::try_from(schedule.turns.len()).expect("a small number")).await;
    let facts = player.server.facts().expect("the durable is there");
    seen.facts = (facts.ack_pending as u64, facts.pending, schedule.floor(facts.ack_floor), facts.delivered);
    seen.kept = player.server.kept().len() as u64;
    seen
}

impl Player {
    async fn pull(&mut self, batch: usize) -> Vec<(u64, u64)> {
        let budget = Budget { messages: batch, bytes: 1 << 20 };
        let mut received = Vec::new();
        // The pull goes out with the first look; then nothing more is asked for.
        if let Ok(first) = timeout(Duration::from_micros(1), self.source.pull(budget)).await {
            received.extend(first.expect("the source works"));
        }
        while self.source.open_pulls() > 0 {
            received.extend(self.source.pull(Budget::default()).await.expect("the source works"));
        }
        let mut seen = Vec::new();
        for delivery in received {
            let envelope = delivery.envelope();
            seen.push((envelope.stream_sequence, envelope.delivery_count));
            self.in_hand.insert(envelope.stream_sequence, delivery);
        }
        seen.sort_unstable();
        seen
    }

    async fn say(&mut self, index: usize, verb: Verb) {
        let Some(&sequence) = self.in_hand.keys().nth(index % self.in_hand.len().max(1)) else { return };
        if matches!(verb, Verb::InProgress) {
            self.acker.extend(vec![self.in_hand[&sequence].lease()]).await;
        } else {
            let delivery = self.in_hand.remove(&sequence).expect("it is in hand");
            let settlement = match verb {
                Verb::Nak => delivery.release(None),
                Verb::NakLater => delivery.release(Some(NAK_DELAY)),
                Verb::Term => self.term(delivery).await,
                Verb::Ack | Verb::InProgress => ack(delivery).await,
            };
            let _settled = self.acker.settle(vec![settlement], Confirm::Last).await;
        }
        sleep(Duration::from_millis(1)).await;
    }

    async fn term(&self, delivery: Received) -> Settlement {
        let rejected = delivery.reject_unread(builders::too_large());
        let publisher = self.connection.publisher();
        rejected.dead_letter(&*publisher, Timestamp(0)).await.expect("it is stored").terminate()
    }
}

async fn ack(delivery: Received) -> Settlement {
    let admitted = delivery.admit(&builders::OpenGate).expect("the gate is open");
    let warehouse = Warehouse::new(Journal::open(), Guarantee::AtLeastOnce);
    warehouse.set_latency(Duration::ZERO);
    let sink = warehouse.open();
    let outcome = write(vec![admitted], &*sink, Turn::now(), Duration::from_secs(1), false).await;
    outcome.committed.into_iter().map(Committed::acknowledge).next().expect("it is stored")
}
