//! The immutable facts of one delivery.
//!
//! An envelope is built once, by the source, and only read from then on. It holds no way to settle anything.

mod header_block;
mod headers;
mod identity;
mod metadata;
mod mqtt;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use header_block::{HeaderBlockError, SubjectError, parse_subject};
pub use headers::Headers;
pub use identity::{Identity, Incarnation, SourceNames};
pub use metadata::{Metadata, SharedMetadata};
pub use mqtt::{Mqtt, Qos, TopicError, subject_to_topic, topic_to_subject};

use crate::clock::Timestamp;

/// The facts of one delivery.
#[derive(Clone)]
pub struct Envelope {
    /// The subject the message was published to.
    pub subject: String,
    /// Its headers as received.
    pub headers: Headers,
    /// Its body; empty when the body was left out, see [`Envelope::body`].
    pub payload: Bytes,
    /// Whether the body is there.
    pub body: Body,
    /// Stream and durable it came from.
    pub source: Arc<SourceNames>,
    /// Its sequence in the stream.
    pub stream_sequence: u64,
    /// Its sequence in the durable's deliveries.
    pub consumer_sequence: u64,
    /// How often the server has delivered it, this delivery included; at least 1. It raises suspicion, nothing more.
    pub delivery_count: u64,
    /// When the stream stored it.
    pub stored_at: Timestamp,
    /// How many messages were still to be delivered after this one.
    pub pending: u64,
    /// What the gate read; nothing before the gate has judged, or when nobody may read the message.
    pub metadata: SharedMetadata,
}

/// The headers of a message id, compared in any case; the first that is not blank counts (formats §1).
pub const MESSAGE_ID_HEADERS: [&str; 3] = ["Nats-Msg-Id", "Nats-Message-Id", "message-id"];

/// Whether a delivery carries its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The payload is the body; an empty payload is an empty body.
    Present,
    /// The durable is configured headers-only: the server left the body out (formats §1).
    Omitted {
        /// The size the server stated in `Nats-Msg-Size`; `None` when the header is missing or malformed.
        original_size: Option<u64>,
        /// The header was there and not a plain number.
        malformed: bool,
    },
    /// The message is gone from its stream, and nobody has its body: this stands for it in its record of loss. Time and, unless
    /// the durable has one subject only, the subject are not known either.
    Lost,
}

impl Envelope {
    /// What this message is (design §1).
    #[must_use]
    pub const fn identity(&self) -> Identity {
        Identity { sequence: self.stream_sequence, stored_at: self.stored_at }
    }

    /// The bytes this delivery holds in memory, as the byte budgets count them: body, headers and subject.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.payload.len() + self.headers.total_bytes() + self.subject.len()
    }

    /// The message id its publisher gave it: the first non-empty of three header names, in any case (formats §1).
    #[must_use]
    pub fn message_id(&self) -> Option<&str> {
        MESSAGE_ID_HEADERS.into_iter().find_map(|name| {
            self.headers
                .all_ignoring_case(name)
                .filter_map(|value| std::str::from_utf8(value).ok())
                .map(str::trim)
                .find(|value| !value.is_empty())
        })
    }

    /// The idempotency key (formats §5). A delivery always has a stream and a sequence, so its first form always applies.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("stream-sequence:{}:{}", self.source.stream, self.stream_sequence)
    }
}

/// Shows where the message is, never what it says.
impl fmt::Debug for Envelope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Envelope")
            .field("stream", &self.source.stream)
            .field("stream_sequence", &self.stream_sequence)
            .field("delivery_count", &self.delivery_count)
            .field("subject_bytes", &self.subject.len())
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
