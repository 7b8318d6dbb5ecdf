//! Validated settings of the runner (`[delivery]`, design §6).

use std::time::Duration;

use crate::disposition::Backoff;

/// The knobs of delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliverySettings {
    /// Messages of a batch.
    pub batch_size: usize,
    /// Bytes of a batch.
    pub batch_bytes: usize,
    /// How long a batch that is not full waits for more; 0 = the writer takes what is there when it is free.
    pub linger: Duration,
    /// Batches in hand at once.
    pub max_in_flight_batches: usize,
    /// Attempts of one record while the sink works for others.
    pub max_attempts: u32,
    /// Arrivals of one message after which it is dead-lettered unread.
    pub crash_limit: u64,
    /// Delays between tries.
    pub retry: Backoff,
    /// What happens to a record between tries.
    pub temporary_failure_action: TemporaryFailureAction,
    /// The order of writes.
    pub order: Order,
    /// A batch stops at its first transient failure until it has passed.
    pub strict: bool,
    /// Keep deliveries ours with in-progress while they are in hand.
    pub in_progress: bool,
    /// How long one delivery is kept that way at the most.
    pub in_progress_cap: Duration,
    /// Every ack and term is confirmed, not only the last of a batch.
    pub confirm_every: bool,
    /// Deadline of one write.
    pub write_timeout: Duration,
    /// Deadline of the orderly stop.
    pub shutdown_timeout: Duration,
    /// How often the durable's facts are read.
    pub watch_interval: Duration,
    /// Rejections that wait for the dead-letter stream outside the batch permits.
    pub max_parked: Option<usize>,
    /// Their bytes.
    pub parked_bytes: usize,
    /// Originals are terminated, not acknowledged, after their dead letter is confirmed.
    pub ack_term_after_publish: bool,
    /// When so many are rejected that the pipeline holds.
    pub breaker: Option<BreakerSettings>,
}

/// Rejections that are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// So many of the last messages.
    pub rejected: usize,
    /// The last messages; not below `rejected`.
    pub of: usize,
}

/// What happens to a record between tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporaryFailureAction {
    /// It stays in hand under its lease and is tried again in place.
    HoldBatch,
    /// It is given back with a delay.
    Nak,
    /// Nothing is sent; the ack wait ends and it comes back.
    LeaveUnacked,
}

/// The order in which records become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First tries in pull order.
    Stream,
    /// First tries of one subject in pull order; subjects side by side in lanes.
    Subject,
    /// Batches side by side.
    Any,
}

impl Default for DeliverySettings {
    fn default() -> Self {
        Self {
            batch_size: 500,
            batch_bytes: 8 << 20,
            linger: Duration::ZERO,
            max_in_flight_batches: 4,
            max_attempts: 5,
            crash_limit: 10,
            retry: Backoff::default(),
            temporary_failure_action: TemporaryFailureAction::HoldBatch,
            order: Order::Stream,
            strict: false,
            in_progress: true,
            in_progress_cap: Duration::from_secs(3600),
            confirm_every: false,
            write_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(25),
            watch_interval: Duration::from_secs(10),
            max_parked: None,
            parked_bytes: 8 << 20,
            ack_term_after_publish: false,
            breaker: None,
        }
    }
}
