//! `[delivery]` and `[dead_letter]`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages::widen;
use crate::checks::authenticity::AuthenticityHeaders;
use crate::config::duration::Span;
use crate::config::size::ByteSize;
use crate::dead_letter::{RecordSettings, Redaction};
use crate::disposition::Backoff;
use crate::runner::DeliverySettings;

/// Batches, order, retries, stop.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Delivery {
    /// Messages of a batch.
    pub(in crate::config) batch_size: u64,
    /// Bytes of a batch.
    pub(in crate::config) batch_bytes: ByteSize,
    /// How long a batch that is not full waits for more; `0s` = the writer takes what is there when it is free.
    pub(in crate::config) linger: Span,
    /// Batches in hand at once.
    pub(in crate::config) max_in_flight_batches: u64,
    /// Attempts of one record while the sink works for others; then it is dead-lettered.
    pub(in crate::config) max_attempts: u64,
    /// Arrivals of one message after which it is dead-lettered unread, as a suspected crash. Each crash and each lost connection
    /// counts for everything in hand: well below 10 good messages can reach it, and with 2 everything in hand at a crash does.
    pub(in crate::config) crash_limit: u64,
    /// Delays between tries.
    pub(in crate::config) retry: Retry,
    /// What happens to a record between tries.
    pub(in crate::config) temporary_failure_action: TemporaryFailureAction,
    /// The order in which records become durable.
    pub(in crate::config) order: Order,
    /// A batch stops at its first transient failure until it has passed.
    pub(in crate::config) strict: bool,
    /// Keep deliveries ours with in-progress while they are in hand.
    pub(in crate::config) in_progress: bool,
    /// How long one delivery is kept that way at the most.
    pub(in crate::config) in_progress_cap: Span,
    /// Confirmation of acknowledgements.
    pub(in crate::config) ack_confirmation: AckConfirmation,
    /// Deadline of one write.
    pub(in crate::config) write_timeout: Span,
    /// Deadline of the orderly stop.
    pub(in crate::config) shutdown_timeout: Span,
    /// How often the facts of the durable are read.
    pub(in crate::config) watch_interval: Span,
    /// Rejections that wait for the dead-letter stream; a quarter of the durable's `max_ack_pending` when not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) max_parked: Option<u64>,
    /// Bytes of rejections that wait for the dead-letter stream.
    pub(in crate::config) parked_bytes: ByteSize,
}

/// Delays between tries.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Retry {
    /// The first delay.
    pub(in crate::config) initial: Span,
    /// The longest delay.
    pub(in crate::config) max: Span,
    /// The factor from one delay to the next, at least 1.
    pub(in crate::config) multiplier: f64,
    /// The share of a delay that is random, 0 to 0.5.
    pub(in crate::config) jitter: f64,
}

/// Confirmation of acknowledgements.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct AckConfirmation {
    /// Confirm every ack and term, not only the last ack of a batch.
    pub(in crate::config) enabled: bool,
}

impl Default for Delivery {
    fn default() -> Self {
        let settings = DeliverySettings::default();
        Self {
            batch_size: widen(settings.batch_size),
            batch_bytes: ByteSize(widen(settings.batch_bytes)),
            linger: Span(settings.linger),
            max_in_flight_batches: widen(settings.max_in_flight_batches),
            max_attempts: u64::from(settings.max_attempts),
            crash_limit: settings.crash_limit,
            retry: Retry::default(),
            temporary_failure_action: TemporaryFailureAction::default(),
            order: Order::default(),
            strict: settings.strict,
            in_progress: settings.in_progress,
            in_progress_cap: Span(settings.in_progress_cap),
            ack_confirmation: AckConfirmation { enabled: settings.confirm_every },
            write_timeout: Span(settings.write_timeout),
            shutdown_timeout: Span(settings.shutdown_timeout),
            watch_interval: Span(settings.watch_interval),
            max_parked: settings.max_parked.map(widen),
            parked_bytes: ByteSize(widen(settings.parked_bytes)),
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        let Backoff { initial, max, multiplier, jitter } = Backoff::default();
        Self { initial: Span(initial), max: Span(max), multiplier, jitter }
    }
}

/// What happens to a record between tries.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum TemporaryFailureAction {
    #[default]
    HoldBatch,
    Nak,
    LeaveUnacked,
}

/// The order in which records become durable.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Order {
    #[default]
    Stream,
    Subject,
    Any,
}

/// Where failed messages go.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct DeadLetter {
    /// Subject of the dead letters. Required when the section is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) subject: Option<String>,
    /// Facts that follow the subject as tokens of their own, so that a letter goes to `<subject>.<stage>.<reason>`.
    pub(in crate::config) subject_tokens: Vec<SubjectToken>,
    /// The stream that must confirm; found by subject at start when not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) stream: Option<String>,
    /// The stream that captures the server's advisories about messages that it delivers no more; found by subject at start when
    /// not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) advisory_stream: Option<String>,
    /// Messages that the server delivers no more are settled after their dead letter is confirmed, which removes them from a work
    /// queue.
    pub(in crate::config) remove_exhausted: bool,
    /// Deadline of one confirmation.
    pub(in crate::config) timeout: Span,
    /// One JSON object, or the original bytes with the facts as headers.
    pub(in crate::config) format: Format,
    /// Carry `error_type` and `error`.
    pub(in crate::config) include_error: bool,
    /// Carry the original headers.
    pub(in crate::config) include_headers: bool,
    /// Headers, in any case, whose values a letter does not carry; by default also what `message_authenticity.signature_header`
    /// names.
    pub(in crate::config) redact_headers: Vec<String>,
    /// Carry the body.
    pub(in crate::config) include_payload: bool,
    /// A body that fits in no form may be left out although the source stream does not keep it.
    pub(in crate::config) allow_body_loss: bool,
    /// Originals are terminated, not acknowledged, after their dead letter is confirmed.
    pub(in crate::config) ack_term_after_publish: bool,
    /// When so many messages are rejected that the pipeline holds; off unless both keys are set.
    pub(in crate::config) breaker: Breaker,
}

/// Too many rejections.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Breaker {
    /// Hold when so many of the last messages were rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) rejected: Option<u64>,
    /// The number of last messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) of: Option<u64>,
}

/// A fact of the letter as one token of its subject.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum SubjectToken {
    Stage,
    Reason,
    Stream,
    Consumer,
}

impl Default for DeadLetter {
    fn default() -> Self {
        let record = RecordSettings::default();
        Self {
            subject: None,
            subject_tokens: Vec::new(),
            stream: None,
            advisory_stream: None,
            remove_exhausted: true,
            timeout: Span(Duration::from_secs(5)),
            format: Format::default(),
            include_error: record.include_error,
            include_headers: record.include_headers,
            redact_headers: usual_redactions(AuthenticityHeaders::default().signature),
            include_payload: record.include_payload,
            allow_body_loss: record.allow_body_loss,
            ack_term_after_publish: DeliverySettings::default().ack_term_after_publish,
            breaker: Breaker::default(),
        }
    }
}

/// What is redacted when nothing is said: what gives access, and the signature.
pub(in crate::config) fn usual_redactions(signature_header: String) -> Vec<String> {
    Redaction::USUAL.into_iter().map(str::to_owned).chain([signature_header]).collect()
}

/// The form of a dead letter.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Format {
    #[default]
    Json,
    Original,
}
