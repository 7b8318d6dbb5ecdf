//! THE SEAL: the states of one delivery, the only transitions between them, and the ports they call.
//!
//! ```text
//! Received ──admit(gate)──▶ Admitted ──write(sink)──▶ Committed ───▶ acknowledge
//!     │                        ├─ transient, sink down ─▶ Admitted   (retried in place, released, or held)
//!     └──▶ Rejected ◀──────────┘ refused by the sink, or attempts used up; or read from the stream
//!             └─ dead_letter(publisher) ─▶ DeadLettered ─▶ acknowledge | terminate
//!                (publish failed: Rejected comes back)
//! ```
//!
//! Each state is its own struct and each transition consumes it and calls the port itself. `acknowledge` and `terminate`
//! exist only on [`Committed`], [`DeadLettered`] and [`Marker`], each built in one function, right after the line that
//! awaited the durable answer. Dropping a delivery never sends anything: silence means redelivery, never success.
//!
//! This folder stays flat and small: its private fields are the proof, and every file in it can see them.

mod admitted;
mod batch;
mod ports;
mod received;
mod rejected;
mod settlement;
mod turn;

pub use admitted::{Admitted, CommitProof, Committed, WriteOutcome, write};
pub use batch::{WriteBatch, WriteReport};
pub use ports::{
    Acker, BoxFuture, Budget, Confirm, ConsumerFacts, ConsumerWatch, DeadLetterError, DeadLetterPublisher,
    Gate, Guarantee, Judgement, PublishReceipt, Settled, Sink, SinkLimits, Source, SourceError, Verdict,
};
pub use received::{Marker, Received};
pub use rejected::{DeadLetterProof, DeadLettered, Rejected, Rejection};
pub use settlement::{Lease, Settlement, SettlementKind};
pub use turn::{Turn, TurnOver, TurnQueue};
