//! Validated settings of the stdout sink (`[sink.stdout]`).

use crate::sinks::PayloadMode;
use crate::sinks::file::Record;

/// What is written to standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdoutSettings {
    /// What a line holds.
    pub record: Record,
    /// How payloads stand in a full record (formats §7).
    pub payload_mode: PayloadMode,
}

impl Default for StdoutSettings {
    fn default() -> Self {
        Self { record: Record::Full, payload_mode: PayloadMode::JsonOrEnvelope }
    }
}
