//! A delivery as it came in.

use std::time::Duration;

use bytes::Bytes;

use super::admitted::{Admitted, Committed};
use super::ports::{Gate, Sink, Verdict};
use super::rejected::{Rejected, Rejection};
use super::settlement::{Handle, Lease, Settlement, SettlementKind};
use crate::envelope::{Body, Envelope, Identity, Incarnation};
use crate::reason::{ErrorType, ReasonCode, Stage};

/// A delivery that no check has judged yet.
#[derive(Debug)]
#[must_use = "a delivery that is dropped comes back after the ack wait"]
pub struct Received {
    envelope: Envelope,
    handle: Handle,
    /// Why no client can be handed the message, of one that was read from its stream.
    undeliverable: Option<Box<str>>,
}

impl Received {
    /// Only a source makes deliveries: `nats/pulls/pull.rs`, `nats/streams/replay.rs` and the test model (`tests/tidy.rs` lists the callers).
    pub(crate) const fn new(envelope: Envelope, reply: Bytes, incarnation: Incarnation) -> Self {
        let identity = envelope.identity();
        Self { envelope, handle: Handle { reply, identity, incarnation }, undeliverable: None }
    }

    /// A message that the server has delivered and no client can read, built from what the stream stores; `reply` is
    /// rebuilt from its sequence, and `cause` says what is illegal, without data. It can only be dead-lettered. Only
    /// `nats/isolation/search.rs` makes these.
    pub(crate) fn undeliverable(
        envelope: Envelope,
        reply: Bytes,
        incarnation: Incarnation,
        cause: &str,
    ) -> Self {
        Self { undeliverable: Some(cause.into()), ..Self::new(envelope, reply, incarnation) }
    }

    /// The facts.
    #[must_use]
    pub const fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// What the message is.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.handle.identity
    }

    /// The right to keep this delivery ours.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.handle.lease()
    }

    /// Takes a message that no client can be handed out of the flow: it was never delivered, so nobody may judge or write
    /// it.
    ///
    /// # Errors
    /// The delivery itself, when it is an ordinary one.
    pub fn into_undeliverable(mut self) -> Result<Rejected, Box<Self>> {
        match self.undeliverable.take() {
            Some(cause) => Ok(self.reject_unread(Rejection {
                stage: Stage::Delivery,
                reason: ReasonCode::UndeliverableMessage,
                error_type: ErrorType::UndeliverableMessage,
                detail: cause.into(),
            })),
            None => Err(Box::new(self)),
        }
    }

    /// Runs the gate.
    ///
    /// # Errors
    /// The rejected delivery, if the gate says no, or if no client can be handed the message.
    pub fn admit(self, gate: &dyn Gate) -> Result<Admitted, Box<Rejected>> {
        if self.undeliverable.is_some() {
            return self.into_undeliverable().map_or_else(|own| own.admit(gate), |own| Err(Box::new(own)));
        }
        let Self { mut envelope, handle, .. } = self;
        let judgement = gate.judge(&envelope);
        envelope.metadata = judgement.metadata;
        match judgement.verdict {
            Verdict::Permitted => Ok(Admitted::new(envelope, handle, None)),
            Verdict::PermittedWithWarning(warning) => Ok(Admitted::new(envelope, handle, Some(warning))),
            Verdict::Rejected(rejection) => Err(Box::new(Rejected::new(envelope, handle, rejection))),
        }
    }

    /// Asks the sink whether it has the message already, without reading it.
    ///
    /// # Errors
    /// The delivery itself, if the sink does not remember it.
    pub async fn recall(self, sink: &dyn Sink) -> Result<Committed, Box<Self>> {
        if sink.remembers(self.handle.identity).await {
            Ok(Committed::remembered(self.handle))
        } else {
            Err(Box::new(self))
        }
    }

    /// Rejects without reading the message: for one that seems to kill whoever reads it (design §5, `crash_limit`).
    pub fn reject_unread(self, rejection: Rejection) -> Rejected {
        Rejected::new(self.envelope, self.handle, rejection)
    }

    /// Takes a stream's own deletion marker out of the flow: empty body *and* marker header *and* a stream that makes
    /// markers (`stream_makes_markers`, from its configuration, since any publisher can forge a header).
    ///
    /// # Errors
    /// The delivery itself, when it is data.
    pub fn into_marker(self, stream_makes_markers: bool) -> Result<Marker, Box<Self>> {
        let marked = stream_makes_markers
            && self.envelope.body == Body::Present
            && self.envelope.payload.is_empty()
            && self.envelope.headers.get("Nats-Marker-Reason").is_some();
        if marked { Ok(Marker { handle: self.handle }) } else { Err(Box::new(self)) }
    }

    /// Gives the delivery back for redelivery after `delay`.
    pub fn release(self, delay: Option<Duration>) -> Settlement {
        self.handle.settle(SettlementKind::Nak { delay })
    }

    pub(super) fn into_handle(self) -> Handle {
        self.handle
    }
}

/// Not data: a marker that the server itself put into the stream when a message expired or was deleted.
#[derive(Debug)]
#[must_use = "a marker that is dropped comes back after the ack wait"]
pub struct Marker {
    handle: Handle,
}

impl Marker {
    /// Acknowledges the marker: there is nothing to store.
    pub fn acknowledge(self) -> Settlement {
        self.handle.settle(SettlementKind::Ack)
    }
}
