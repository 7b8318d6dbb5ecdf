//! Validated settings of the stdout sink (`[sink.stdout]`).

use crate::sinks::{PayloadMode, Record};

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdoutSettings {
    /// What a line holds.
    pub record: Record,
    /// How payloads stand in a record (formats §7).
    pub payload_mode: PayloadMode,
}

impl Default for StdoutSettings {
    fn default() -> Self {
        Self { record: Record::Full, payload_mode: PayloadMode::JsonOrEnvelope }
    }
}
