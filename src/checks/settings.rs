//! Validated settings of the checks.

use super::authenticity::Authenticity;
use super::metadata::MetadataSettings;
use super::policy::Policy;

/// The size policy (`[size_policy]`, formats §3). Sizes in bytes; a value above its limit is a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// Body.
    pub max_payload_bytes: usize,
    /// Header lines.
    pub max_header_count: usize,
    /// One header name.
    pub max_header_name_bytes: usize,
    /// One header value.
    pub max_header_value_bytes: usize,
    /// All names and values together.
    pub max_headers_bytes: usize,
    /// Labels.
    pub max_label_count: usize,
    /// One label.
    pub max_label_bytes: usize,
    /// All labels together.
    pub max_labels_bytes: usize,
    /// Mission metadata as compact JSON.
    pub max_mission_metadata_bytes: usize,
    /// The record without its payload.
    pub max_standard_metadata_bytes: usize,
    /// The record.
    pub max_normalized_record_bytes: usize,
    /// Messages of a batch; checked against `delivery.batch_size` at start.
    pub max_batch_messages: usize,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self {
            max_payload_bytes: 16 << 20,
            max_header_count: 128,
            max_header_name_bytes: 256,
            max_header_value_bytes: 8192,
            max_headers_bytes: 65_536,
            max_label_count: 64,
            max_label_bytes: 128,
            max_labels_bytes: 4096,
            max_mission_metadata_bytes: 8192,
            max_standard_metadata_bytes: 262_144,
            max_normalized_record_bytes: 20 << 20,
            max_batch_messages: 10_000,
        }
    }
}

/// Everything the gate needs. Authenticity and policy are explicit *not required* values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateSettings {
    /// The first check.
    pub authenticity: Authenticity,
    /// The second.
    pub size: SizeLimits,
    /// The third.
    pub policy: Policy,
    /// Where metadata is found.
    pub metadata: MetadataSettings,
}
