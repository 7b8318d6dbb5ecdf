//! A delivery that must not be written, and the proof that its dead letter is stored.

use super::ports::{DeadLetterError, DeadLetterPublisher, PublishReceipt};
use super::received::Received;
use super::settlement::{Handle, Settlement, SettlementKind};
use crate::clock::Timestamp;
use crate::envelope::{Envelope, Identity};
use crate::reason::{ErrorType, ReasonCode, Stage};

/// A "no", with what its dead letter says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Where it was said.
    pub stage: Stage,
    /// Why, as a code.
    pub reason: ReasonCode,
    /// The class of the failure.
    pub error_type: ErrorType,
    /// Why, in words; no payload value, no header value, no secret. Cut to 512 bytes in the dead letter.
    pub detail: String,
}

/// A delivery that waits for its dead letter. It can be neither acknowledged, nor terminated, nor released.
#[derive(Debug)]
#[must_use = "a delivery that is dropped comes back after the ack wait"]
pub struct Rejected {
    envelope: Envelope,
    handle: Handle,
    rejection: Rejection,
}

impl Rejected {
    pub(super) const fn new(envelope: Envelope, handle: Handle, rejection: Rejection) -> Self {
        Self { envelope, handle, rejection }
    }

    /// The facts.
    #[must_use]
    pub const fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Why it was rejected.
    #[must_use]
    pub const fn rejection(&self) -> &Rejection {
        &self.rejection
    }

    /// What the message is.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.handle.identity
    }

    /// Gives up the share of a larger receive buffer that the payload may pin, for a delivery that will wait long.
    pub fn detach_payload(&mut self) {
        self.envelope.payload = bytes::Bytes::copy_from_slice(&self.envelope.payload);
    }

    /// Publishes the dead letter and awaits its confirmation.
    ///
    /// # Errors
    /// The rejected delivery itself with what went wrong; nothing has been settled.
    pub async fn dead_letter(
        self,
        publisher: &dyn DeadLetterPublisher,
        failed_at: Timestamp,
    ) -> Result<DeadLettered, (Box<Self>, DeadLetterError)> {
        match publisher.publish(&self.envelope, &self.rejection, failed_at).await {
            Ok(receipt) => Ok(DeadLettered { handle: self.handle, reason: self.rejection.reason, receipt }),
            Err(error) => Err((Box::new(self), error)),
        }
    }
}

/// A delivery whose dead letter is confirmed by the stream that keeps it.
#[derive(Debug)]
#[must_use = "an unsettled delivery comes back after the ack wait"]
pub struct DeadLettered {
    handle: Handle,
    reason: ReasonCode,
    receipt: PublishReceipt,
}

impl DeadLettered {
    /// Acknowledges the original.
    pub fn acknowledge(self) -> Settlement {
        self.handle.settle(SettlementKind::Ack)
    }

    /// Terminates the original, with the reason code.
    pub fn terminate(self) -> Settlement {
        self.handle.settle(SettlementKind::Term { reason: self.reason })
    }

    /// What the message is.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.handle.identity
    }

    /// The stream's answer.
    #[must_use]
    pub const fn receipt(&self) -> &PublishReceipt {
        &self.receipt
    }

    /// The proof by which later deliveries of the same message may share this dead letter.
    #[must_use]
    pub fn proof(&self) -> DeadLetterProof {
        DeadLetterProof { identity: self.handle.identity, reason: self.reason, receipt: self.receipt.clone() }
    }
}

/// Says that the dead letter of one message is confirmed; made only from a [`DeadLettered`] delivery of it.
#[derive(Debug)]
pub struct DeadLetterProof {
    identity: Identity,
    reason: ReasonCode,
    receipt: PublishReceipt,
}

impl DeadLetterProof {
    /// Shares the dead letter with another delivery of the very same message.
    ///
    /// # Errors
    /// The other delivery itself, if it is of another message.
    pub fn share(&self, other: Received) -> Result<DeadLettered, Box<Received>> {
        if other.identity() == self.identity {
            Ok(DeadLettered {
                handle: other.into_handle(),
                reason: self.reason,
                receipt: self.receipt.clone(),
            })
        } else {
            Err(Box::new(other))
        }
    }

    /// The message.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.identity
    }
}
