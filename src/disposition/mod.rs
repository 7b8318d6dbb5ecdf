//! What to do about a record that was not committed. Pure: no I/O, no clock; the runner carries the decisions out.

mod decide;
mod fault;
mod retry;

pub use decide::{Disposition, Failure, Witness, decide};
pub use fault::{Fault, Refusal};
pub use retry::{Backoff, Rng};
