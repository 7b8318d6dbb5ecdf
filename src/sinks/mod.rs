//! Sinks: where records become durable. The contract is [`crate::delivery::Sink`].

pub mod file;
mod payload;
pub mod stdout;

pub use payload::PayloadMode;
