//! Mission metadata: one JSON object within the bounds of formats §1.

use super::settings::{MAX_DOCUMENT_BYTES, MetadataError};
use crate::json::{Bounds, Object};

/// The bounds of documents from producers, with so many bytes.
pub(super) const fn bounds(bytes: usize) -> Bounds {
    Bounds { bytes, ..Bounds::MISSION_METADATA }
}

/// The canonical text of a value; a blank one is explicitly nothing.
pub(super) fn read(value: &[u8]) -> Result<Option<String>, MetadataError> {
    document(value, MAX_DOCUMENT_BYTES)
        .map(|object| object.map(|object| object.canonical()))
        .map_err(MetadataError::MissionMetadata)
}

/// One JSON object, or `None` for a blank value.
pub(super) fn document(value: &[u8], max_bytes: usize) -> Result<Option<Object>, crate::json::JsonError> {
    if value.trim_ascii().is_empty() {
        return Ok(None);
    }
    Object::parse(value, &bounds(max_bytes)).map(Some)
}
