//! The facts of the durable, for the loop.

use std::sync::Arc;

use crate::delivery::{BoxFuture, ConsumerFacts, ConsumerWatch, SourceError};
use crate::envelope::Incarnation;
use crate::nats::client::api::in_memory;
use crate::nats::durable::bind::BoundConsumer;
use crate::nats::durable::guard::Guard;
use crate::nats::error::ApiError;
use crate::preflight::nanoseconds;

/// Asks CONSUMER.INFO of one bound durable.
#[derive(Debug)]
pub struct NatsWatch {
    guard: Arc<Guard>,
}

impl NatsWatch {
    /// The watch of a bound durable.
    #[must_use]
    pub fn new(bound: &BoundConsumer) -> Self {
        Self { guard: Arc::clone(&bound.guard) }
    }
}

impl ConsumerWatch for NatsWatch {
    fn facts(&self) -> BoxFuture<'_, Result<ConsumerFacts, SourceError>> {
        Box::pin(async move {
            if self.guard.is_over() {
                return Err(SourceError::Gone { detail: "the durable is another one now".into() });
            }
            match self.guard.ask().await {
                Ok(info) => Ok(ConsumerFacts {
                    incarnation: Incarnation(nanoseconds(&info.created)),
                    waiting_pulls: in_memory(info.num_waiting),
                    ack_pending: in_memory(info.num_ack_pending),
                    pending: info.num_pending,
                    redelivered: in_memory(info.num_redelivered),
                    ack_floor: info.ack_floor.stream_seq,
                    delivered: info.delivered.stream_seq,
                }),
                Err(error @ (ApiError::ConsumerNotFound | ApiError::StreamNotFound)) => {
                    Err(SourceError::Gone { detail: error.to_string() })
                }
                Err(error) => Err(SourceError::Again { detail: error.to_string() }),
            }
        })
    }
}
