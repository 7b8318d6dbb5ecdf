//! jetsink carries messages from NATS JetStream into durable places without losing one.
//!
//! It pulls batches from a durable consumer, passes every message through authenticity → size → pre-sink policy, writes
//! what passes into a sink, publishes what fails to a dead-letter subject, and only then acknowledges.
//!
//! # Map
//! Start at [`delivery`], the seal: the states of one delivery and the only ways between them. Then [`runner`], which moves
//! batches through those states. Around them: [`envelope`] (the facts of a delivery), [`checks`] (the gate), [`disposition`]
//! (what to do about a failure), [`dead_letter`] (the record of one), [`nats`] (the server), [`preflight`] (what is wrong there),
//! [`watch`] (what changes there), [`sinks`] (the destinations), [`config`], [`telemetry`] and [`app`], which puts them together.
//!
//! # Invariants
//! - Nothing is acknowledged before it is durable in the sink or confirmed in the dead-letter stream.
//! - Checks never do I/O and never read the clock. Sinks cannot reach the right to settle.
//! - Only [`nats`] knows async-nats; only its pull loop and the test model make deliveries.
//! - Nothing on the data path is unbounded. `Drop` never sends. There is no global mutable state.

pub mod app;
pub mod checks;
pub mod cli;
pub mod clock;
pub mod config;
pub mod dead_letter;
pub mod delivery;
pub mod disposition;
pub mod envelope;
#[cfg(feature = "failpoints")]
pub mod failpoint;
pub mod json;
pub mod nats;
pub mod preflight;
pub mod reason;
pub mod runner;
pub mod secret;
pub mod sinks;
pub mod subject;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod watch;
