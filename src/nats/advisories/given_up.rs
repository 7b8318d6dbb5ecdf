//! The message of an advisory as the loop takes it in: it can only be dead-lettered.

use std::sync::Arc;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::delivery::{Received, Rejection};
use crate::envelope::{Body, Envelope, Headers, Identity, Incarnation, SharedMetadata, SourceNames};
use crate::nats::advisories::advisory::{Advisory, Kind};
use crate::nats::isolation::stored::StoredMessage;
use crate::reason::{ErrorType, ReasonCode, Stage};

/// The message, as its stream stores it.
pub(in crate::nats) fn given_up(
    advisory: &Advisory,
    message: StoredMessage,
    source: &Arc<SourceNames>,
    incarnation: Incarnation,
    reply: Bytes,
) -> Received {
    let envelope = message.into_envelope(source, advisory.deliveries.max(1), |block| {
        Headers::parse_block(&block).unwrap_or_else(|_| Headers::unread(block))
    });
    let (reason, error_type) = match advisory.kind {
        Kind::Exhausted | Kind::Stuck => (ReasonCode::DeliveriesExhausted, ErrorType::AttemptsExhausted),
        Kind::Terminated { .. } | Kind::TerminatedByUs | Kind::Deleted => {
            (ReasonCode::TerminatedElsewhere, ErrorType::UndeliverableMessage)
        }
    };
    let detail = advisory.detail();
    Received::from_stream(
        envelope,
        reply,
        incarnation,
        Rejection { stage: Stage::Delivery, reason, error_type, detail },
    )
}

/// What a lost message is known by: nobody knows when it was stored, so the time of its advisory stands for that.
pub(in crate::nats) const fn lost_identity(advisory: &Advisory) -> Identity {
    Identity { sequence: advisory.stream_sequence, stored_at: advisory.at }
}

/// The record of a loss. `subject`: where the durable has one subject only.
pub(in crate::nats) fn lost(
    advisory: &Advisory,
    subject: Option<&str>,
    source: &Arc<SourceNames>,
    incarnation: Incarnation,
    reply: Bytes,
) -> Received {
    let Identity { sequence, stored_at } = lost_identity(advisory);
    let envelope = Envelope {
        subject: subject.unwrap_or_default().to_owned(),
        headers: Headers::new(),
        payload: Bytes::new(),
        body: Body::Lost,
        source: Arc::clone(source),
        stream_sequence: sequence,
        consumer_sequence: 0,
        delivery_count: advisory.deliveries.max(1),
        stored_at,
        pending: 0,
        metadata: SharedMetadata::NONE,
    };
    let verdict = Rejection {
        stage: Stage::Delivery,
        reason: ReasonCode::MessageLost,
        error_type: ErrorType::UndeliverableMessage,
        detail: format!("the body is gone from the stream; {}", advisory.detail()),
    };
    Received::from_stream(envelope, reply, incarnation, verdict)
}

impl Advisory {
    fn detail(&self) -> String {
        let at = Timestamp::rfc3339(self.at);
        match &self.kind {
            Kind::Exhausted => {
                format!("the server delivered it {} times and gave up on it at {at}", self.deliveries)
            }
            Kind::Terminated { reason } if reason.is_empty() => {
                format!("it was terminated at {at}, or removed while it was delivered; no reason was given")
            }
            Kind::Terminated { reason } => format!("it was terminated by somebody else at {at}: {reason}"),
            Kind::TerminatedByUs => format!("it was terminated at {at}"),
            Kind::Stuck => {
                "the work queue keeps it, and its durable has delivered it and awaits it no more".to_owned()
            }
            Kind::Deleted => format!("it was removed from the stream at {at}, delivered and not settled"),
        }
    }
}
