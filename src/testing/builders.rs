//! Envelopes, deliveries and small ports for tests.

use std::sync::Arc;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::delivery::{Admitted, Gate, Judgement, Received, Rejection, Verdict};
use crate::envelope::{Body, Envelope, Headers, Incarnation, SharedMetadata, SourceNames};
use crate::reason::{ErrorType, ReasonCode, Stage};

/// Builds one envelope; every part has a plain value until it is set.
#[derive(Clone, Debug)]
pub struct EnvelopeBuilder(Envelope);

/// An envelope with this stream sequence, delivered for the first time.
#[must_use]
pub fn envelope(stream_sequence: u64) -> EnvelopeBuilder {
    EnvelopeBuilder(Envelope {
        subject: "src.a".into(),
        headers: Headers::new(),
        payload: Bytes::from_static(b"{}"),
        body: Body::Present,
        source: SourceNames::shared("SRC", "w"),
        stream_sequence,
        consumer_sequence: stream_sequence,
        delivery_count: 1,
        stored_at: Timestamp(1_767_225_600_000_000_000)
            .plus(std::time::Duration::from_millis(stream_sequence)),
        pending: 0,
        metadata: SharedMetadata::NONE,
    })
}

impl EnvelopeBuilder {
    /// Its subject.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.0.subject = subject.into();
        self
    }

    /// One more header line.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.0.headers.append(name, value);
        self
    }

    /// Its body.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.0.payload = payload.into();
        self
    }

    /// Whether the body is there.
    #[must_use]
    pub fn body(mut self, body: Body) -> Self {
        self.0.body = body;
        self
    }

    /// Stream and durable.
    #[must_use]
    pub fn source(mut self, source: Arc<SourceNames>) -> Self {
        self.0.source = source;
        self
    }

    /// How often it was delivered.
    #[must_use]
    pub const fn delivery_count(mut self, count: u64) -> Self {
        self.0.delivery_count = count;
        self
    }

    /// When the stream stored it.
    #[must_use]
    pub const fn stored_at(mut self, stored_at: Timestamp) -> Self {
        self.0.stored_at = stored_at;
        self
    }

    /// The envelope.
    #[must_use]
    pub fn build(self) -> Envelope {
        self.0
    }

    /// The envelope as a delivery of the durable's first life.
    pub fn received(self) -> Received {
        received(self.0, Incarnation(1))
    }

    /// The envelope as an admitted delivery.
    ///
    /// # Panics
    /// Never: the gate it passes permits everything.
    pub fn admitted(self) -> Admitted {
        match self.received().admit(&OpenGate) {
            Ok(admitted) => admitted,
            Err(rejected) => unreachable!("the open gate rejected {:?}", rejected.identity()),
        }
    }
}

/// A delivery of this envelope with the reply subject a server would give it.
pub fn received(envelope: Envelope, incarnation: Incarnation) -> Received {
    let reply = reply_subject(&envelope);
    Received::new(envelope, reply, incarnation)
}

/// The reply subject of a delivery in its first form (`$JS.ACK.<stream>.<consumer>.<count>.<sequence>.<consumer
/// sequence>.<time>.<pending>`).
#[must_use]
pub fn reply_subject(envelope: &Envelope) -> Bytes {
    Bytes::from(format!(
        "$JS.ACK.{}.{}.{}.{}.{}.{}.{}",
        envelope.source.stream,
        envelope.source.consumer,
        envelope.delivery_count,
        envelope.stream_sequence,
        envelope.consumer_sequence,
        envelope.stored_at.0,
        envelope.pending
    ))
}

/// A rejection by the size policy.
#[must_use]
pub fn too_large() -> Rejection {
    Rejection {
        stage: Stage::Size,
        reason: ReasonCode::PayloadTooLarge,
        error_type: ErrorType::SizePolicyViolation,
        detail: "the payload is above the limit".into(),
    }
}

/// Permits everything.
#[derive(Clone, Copy, Debug)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn judge(&self, _envelope: &Envelope) -> Judgement {
        Verdict::Permitted.into()
    }
}

/// Rejects every message that carries the header `Test-Bad`.
#[derive(Clone, Copy, Debug)]
pub struct HeaderGate;

impl HeaderGate {
    /// The header that makes a message bad.
    pub const HEADER: &'static str = "Test-Bad";
}

impl Gate for HeaderGate {
    fn judge(&self, envelope: &Envelope) -> Judgement {
        if envelope.headers.get(Self::HEADER).is_some() {
            Verdict::Rejected(too_large()).into()
        } else {
            Verdict::Permitted.into()
        }
    }
}
