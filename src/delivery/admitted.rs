//! A delivery that passed the gate, and the proof that its record is durable.

use std::time::Duration;

use super::batch::{Slot, WriteBatch};
use super::ports::Sink;
use super::received::Received;
use super::rejected::{Rejected, Rejection};
use super::settlement::{Handle, Settlement, SettlementKind};
use super::turn::Turn;
use crate::disposition::{Fault, Refusal};
use crate::envelope::{Envelope, Identity};
use crate::reason::{ErrorType, ReasonCode, Stage};

/// A delivery that passed the gate and may be written.
#[derive(Debug)]
#[must_use = "a delivery that is dropped comes back after the ack wait"]
pub struct Admitted {
    envelope: Envelope,
    handle: Handle,
    warning: Option<Box<Rejection>>,
}

impl Admitted {
    pub(super) const fn new(envelope: Envelope, handle: Handle, warning: Option<Box<Rejection>>) -> Self {
        Self { envelope, handle, warning }
    }

    /// What a policy that only warns has against the message.
    #[must_use]
    pub fn warning(&self) -> Option<&Rejection> {
        self.warning.as_deref()
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

    /// The sink's final "no", or attempts used up.
    pub fn reject(self, rejection: Rejection) -> Rejected {
        Rejected::new(self.envelope, self.handle, rejection)
    }

    /// The sink's final "no", as the rejection its dead letter carries.
    pub fn refuse(self, refusal: Refusal) -> Rejected {
        let rejection = Rejection {
            stage: Stage::Sink,
            reason: refusal.reason,
            error_type: if refusal.reason == ReasonCode::PayloadNotJson {
                ErrorType::Serialization
            } else {
                ErrorType::PermanentSink
            },
            detail: refusal.detail,
        };
        self.reject(rejection)
    }

    /// Gives the delivery back for redelivery after `delay`.
    pub fn release(self, delay: Option<Duration>) -> Settlement {
        self.handle.settle(SettlementKind::Nak { delay })
    }
}

/// A delivery whose record is durable in the sink.
#[derive(Debug)]
#[must_use = "an unacknowledged delivery comes back after the ack wait"]
pub struct Committed {
    handle: Handle,
}

impl Committed {
    /// Only [`Received::recall`] calls this, right after the sink said that it has the record.
    pub(super) const fn remembered(handle: Handle) -> Self {
        Self { handle }
    }

    /// Acknowledges the message.
    pub fn acknowledge(self) -> Settlement {
        self.handle.settle(SettlementKind::Ack)
    }

    /// What the message is.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.handle.identity
    }

    /// The proof by which later deliveries of the same message may share this commit.
    #[must_use]
    pub const fn proof(&self) -> CommitProof {
        CommitProof { identity: self.handle.identity }
    }
}

/// Says that one message is durable in the sink; made only from a [`Committed`] delivery of it.
#[derive(Debug)]
pub struct CommitProof {
    identity: Identity,
}

impl CommitProof {
    /// Shares the commit with another delivery of the very same message (design §5, two copies of one message).
    ///
    /// # Errors
    /// The other delivery itself, if it is of another message.
    pub fn share(&self, other: Received) -> Result<Committed, Box<Received>> {
        if other.identity() == self.identity {
            Ok(Committed { handle: other.into_handle() })
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

/// What became of a written batch: every delivery is in exactly one of the two lists.
#[derive(Debug)]
pub struct WriteOutcome {
    /// Durable records.
    pub committed: Vec<Committed>,
    /// The others, each with the fault the sink reported for it; a slot the sink left untouched is transient.
    pub failed: Vec<(Admitted, Fault)>,
}

/// Writes the deliveries as one batch and zips the sink's report by index.
///
/// The sink awaits `turn` before it makes anything durable, so that batches can be encoded while an earlier one is synced.
/// When `deadline` passes first, the outcome is unknown and every record is transient: it will be written again.
pub async fn write(
    records: Vec<Admitted>,
    sink: &dyn Sink,
    turn: Turn,
    deadline: Duration,
    strict: bool,
) -> WriteOutcome {
    let batch = WriteBatch::new(records, strict);
    let report = tokio::time::timeout(deadline, sink.write(&batch, turn)).await;
    let slots =
        report.map_or_else(|_| batch.timed_out_slots(deadline), |report| report.into_slots(batch.len()));
    let mut outcome = WriteOutcome { committed: Vec::with_capacity(batch.len()), failed: Vec::new() };
    for (record, slot) in batch.into_records().into_iter().zip(slots) {
        match slot {
            Slot::Committed => outcome.committed.push(Committed { handle: record.handle }),
            Slot::Failed(fault) => outcome.failed.push((record, fault)),
        }
    }
    outcome
}
