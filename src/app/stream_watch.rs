//! Reads the stream and its durable again and again; shows and says what changes. Failing to read disturbs nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use crate::nats::FactsReader;
use crate::telemetry::{Metrics, StreamLimit};
use crate::watch::{Look, Told, Watch};

/// The watch of one life of the connection.
#[derive(Debug)]
pub(super) struct StreamWatch {
    pub(super) reader: FactsReader,
    pub(super) stream: String,
    pub(super) durable: String,
    pub(super) every: Duration,
    pub(super) metrics: Arc<Metrics>,
}

impl StreamWatch {
    /// Runs until it is dropped.
    pub(super) async fn run(self) {
        let began = Instant::now();
        let mut watch = Watch::default();
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.reader.look(&self.stream, &self.durable, watch.deleted_before()).await {
                Ok((stream, durable, deleted)) => {
                    let look = Look { stream, durable, deleted, at: began.elapsed() };
                    self.show(&look);
                    let told = watch.take(look);
                    self.tell(&told);
                }
                Err(error) => {
                    self.metrics.watch_failures.increment();
                    debug!(%error, "the stream cannot be looked at now");
                }
            }
        }
    }

    fn show(&self, look: &Look) {
        let (metrics, state) = (&self.metrics, &look.stream.state);
        metrics.stream_messages.set(state.messages);
        metrics.stream_bytes.set(state.bytes);
        metrics.stream_first_sequence.set(state.first_seq);
        metrics.stream_last_sequence.set(state.last_seq);
        metrics.stream_deleted.set(state.num_deleted);
        metrics.stream_consumers.set(state.consumer_count);
        metrics.consumer_ack_pending_limit.set(look.durable.config.max_ack_pending.max(0));
    }

    fn tell(&self, told: &Told) {
        let metrics = &self.metrics;
        let [messages, bytes] = told.fill;
        metrics.stream_limit_fill.set_hundredths(StreamLimit::Messages, messages);
        metrics.stream_limit_fill.set_hundredths(StreamLimit::Bytes, bytes);
        metrics.consumer_ack_floor_age.set(told.ack_floor_age.as_secs());
        metrics.stream_vanished.add(told.vanished);
        metrics.stream_deleted_in_flight.add(told.deleted_in_flight);
        metrics.stream_removed_unread.add(told.removed_unread);
        metrics.leader_changes.add(told.leader_changes);
        for notice in &told.notices {
            if notice.warns {
                warn!(code = notice.code, "{}", notice.text);
            } else {
                info!(code = notice.code, "{}", notice.text);
            }
        }
    }
}
