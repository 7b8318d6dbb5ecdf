//! Sinks: where records become durable. The contract is [`crate::delivery::Sink`].

#[cfg(test)]
pub(crate) mod conformance;
pub mod file;
mod payload;
mod record;
pub mod stdout;
mod time_text;

pub use payload::{PayloadMode, Record};
