//! `[size_policy]` → [`SizeLimits`].

use crate::checks::SizeLimits;
use crate::config::raw::SizePolicy;
use crate::config::size;
use crate::config::validate::Validator;

pub(super) fn validate(raw: &SizePolicy, validator: &mut Validator<'_>) -> SizeLimits {
    let pairs = [
        ("max_headers_bytes", raw.max_headers_bytes, "max_header_name_bytes", raw.max_header_name_bytes),
        ("max_headers_bytes", raw.max_headers_bytes, "max_header_value_bytes", raw.max_header_value_bytes),
        ("max_labels_bytes", raw.max_labels_bytes, "max_label_bytes", raw.max_label_bytes),
        (
            "max_normalized_record_bytes",
            raw.max_normalized_record_bytes,
            "max_payload_bytes",
            raw.max_payload_bytes,
        ),
    ];
    for (whole, whole_limit, part, part_limit) in pairs {
        if whole_limit.0 < part_limit.0 {
            validator.refuse(
                &[&format!("size_policy.{whole}"), &format!("size_policy.{part}")],
                format!(
                    "the limit of the whole ({}) is below {part} ({}), the limit of a part of it",
                    size::format(whole_limit.0),
                    size::format(part_limit.0)
                ),
                format!("raise {whole}, or lower {part}"),
            );
        }
    }
    let mut limit =
        |name: &str, value, least| validator.count(&format!("size_policy.{name}"), value, least, u64::MAX);
    SizeLimits {
        max_payload_bytes: limit("max_payload_bytes", raw.max_payload_bytes.0, 0),
        max_header_count: limit("max_header_count", raw.max_header_count, 0),
        max_header_name_bytes: limit("max_header_name_bytes", raw.max_header_name_bytes.0, 0),
        max_header_value_bytes: limit("max_header_value_bytes", raw.max_header_value_bytes.0, 0),
        max_headers_bytes: limit("max_headers_bytes", raw.max_headers_bytes.0, 0),
        max_label_count: limit("max_label_count", raw.max_label_count, 0),
        max_label_bytes: limit("max_label_bytes", raw.max_label_bytes.0, 0),
        max_labels_bytes: limit("max_labels_bytes", raw.max_labels_bytes.0, 0),
        max_mission_metadata_bytes: limit("max_mission_metadata_bytes", raw.max_mission_metadata_bytes.0, 0),
        max_standard_metadata_bytes: limit(
            "max_standard_metadata_bytes",
            raw.max_standard_metadata_bytes.0,
            0,
        ),
        max_normalized_record_bytes: limit(
            "max_normalized_record_bytes",
            raw.max_normalized_record_bytes.0,
            0,
        ),
        max_batch_messages: limit("max_batch_messages", raw.max_batch_messages, 1),
    }
}
