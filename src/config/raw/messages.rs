//! `[size_policy]`, and what the checks share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::SizeLimits;
use crate::config::size::ByteSize;

/// What happens to a message that no rule covers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum UnmatchedSubjectAction {
    #[default]
    Reject,
    Allow,
}

/// Limits of sizes. A value above its limit is a violation.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct SizePolicy {
    /// Body.
    pub(in crate::config) max_payload_bytes: ByteSize,
    /// Header lines.
    pub(in crate::config) max_header_count: u64,
    /// One header name.
    pub(in crate::config) max_header_name_bytes: ByteSize,
    /// One header value.
    pub(in crate::config) max_header_value_bytes: ByteSize,
    /// All header names and values together.
    pub(in crate::config) max_headers_bytes: ByteSize,
    /// Labels.
    pub(in crate::config) max_label_count: u64,
    /// One label.
    pub(in crate::config) max_label_bytes: ByteSize,
    /// All labels together.
    pub(in crate::config) max_labels_bytes: ByteSize,
    /// Mission metadata as compact JSON.
    pub(in crate::config) max_mission_metadata_bytes: ByteSize,
    /// The record without its payload.
    pub(in crate::config) max_standard_metadata_bytes: ByteSize,
    /// The whole record.
    pub(in crate::config) max_normalized_record_bytes: ByteSize,
    /// Messages of a batch: the upper limit of `delivery.batch_size`.
    pub(in crate::config) max_batch_messages: u64,
}

impl Default for SizePolicy {
    fn default() -> Self {
        let limits = SizeLimits::default();
        let size = |bytes| ByteSize(widen(bytes));
        Self {
            max_payload_bytes: size(limits.max_payload_bytes),
            max_header_count: widen(limits.max_header_count),
            max_header_name_bytes: size(limits.max_header_name_bytes),
            max_header_value_bytes: size(limits.max_header_value_bytes),
            max_headers_bytes: size(limits.max_headers_bytes),
            max_label_count: widen(limits.max_label_count),
            max_label_bytes: size(limits.max_label_bytes),
            max_labels_bytes: size(limits.max_labels_bytes),
            max_mission_metadata_bytes: size(limits.max_mission_metadata_bytes),
            max_standard_metadata_bytes: size(limits.max_standard_metadata_bytes),
            max_normalized_record_bytes: size(limits.max_normalized_record_bytes),
            max_batch_messages: widen(limits.max_batch_messages),
        }
    }
}

/// A `usize` never exceeds a `u64` where this builds.
pub(super) fn widen(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
