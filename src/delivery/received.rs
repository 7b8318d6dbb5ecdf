//! A delivery as it came in.

use std::time::Duration;

use bytes::Bytes;

use super::admitted::{Admitted, Committed};
use super::ports::{Gate, Sink, Verdict};
use super::rejected::{Rejected, Rejection};
use super::settlement::{Handle, Lease, Settlement, SettlementKind};
use crate::envelope::{Body, Envelope, Identity, Incarnation};

/// A delivery that no check has judged yet.
#[derive(Debug)]
#[must_use = "a delivery that is dropped comes back after the ack wait"]
pub struct Received {
    envelope: Envelope,
    handle: Handle,
    /// Why it can only be dead-lettered, of a message that was read from its stream.
    verdict: Option<Box<Rejection>>,
}

impl Received {
    /// Only a source makes deliveries: `nats/pulls/pull.rs`, `nats/streams/replay.rs` and the test model (`tests/tidy.rs` lists the callers).
    pub(crate) const fn new(envelope: Envelope, reply: Bytes, incarnation: Incarnation) -> Self {
        let identity = envelope.identity();
        Self { envelope, handle: Handle { reply, identity, incarnation }, verdict: None }
    }

    /// A message that was read from its stream instead of being delivered, and can only be dead-lettered for the reason given:
    /// no client can be handed it, or the server has given up on it. `reply` is rebuilt from its sequence; empty = nothing may
    /// be settled by it. Only `nats/isolation/search.rs` and `nats/advisories/given_up.rs` make these.
    pub(crate) fn from_stream(
        envelope: Envelope,
        reply: Bytes,
        incarnation: Incarnation,
        verdict: Rejection,
    ) -> Self {
        Self { verdict: Some(Box::new(verdict)), ..Self::new(envelope, reply, incarnation) }
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

    /// Why it can only be dead-lettered, of a message that was read from its stream; `None` of a delivery.
    #[must_use]
    pub fn verdict(&self) -> Option<&Rejection> {
        self.verdict.as_deref()
    }

    /// Takes a message that was read from its stream out of the flow: nobody may judge or write it.
    ///
    /// # Errors
    /// The delivery itself, when it is one.
    pub fn into_rejected(mut self) -> Result<Rejected, Box<Self>> {
        match self.verdict.take() {
            Some(verdict) => Ok(self.reject_unread(*verdict)),
            None => Err(Box::new(self)),
        }
    }

    /// Runs the gate.
    ///
    /// # Errors
    /// The rejected delivery, if the gate says no, or if it was read from its stream to be dead-lettered.
    pub fn admit(self, gate: &dyn Gate) -> Result<Admitted, Box<Rejected>> {
        if self.verdict.is_some() {
            return self.into_rejected().map_or_else(|own| own.admit(gate), |own| Err(Box::new(own)));
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
