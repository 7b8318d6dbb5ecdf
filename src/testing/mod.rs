//! Test builds only: an in-memory JetStream, scripted sinks, fault plans, builders.
//!
//! Everything here runs on tokio's clock, so a test that pauses it decides about time. Everything that matters is written
//! into one [`Journal`], in the order in which it came about; the invariants of design §9 read nothing else.

pub mod builders;
mod clock;
mod fault_plan;
mod journal;
pub mod model_stream;
mod scripted_sink;

pub use clock::ModelClock;
pub use fault_plan::{Disturbance, FaultPlan, PlannedFault};
pub use journal::{Entry, Journal, Step};
pub use scripted_sink::{Conduct, RecordFault, ScriptedSink, StoredRecord, Warehouse};
