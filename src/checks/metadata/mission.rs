//! Mission metadata: one JSON object within the bounds of formats §1.

use super::settings::MetadataError;

/// The canonical text of a header's value; a blank one is explicitly nothing.
pub(super) fn read(value: &[u8]) -> Result<Option<String>, MetadataError> {
    let text = std::str::from_utf8(value)
        .map_err(|_| MetadataError::Invalid { field: "mission metadata", fault: "it is no UTF-8 text" })?;
    Ok(super::labels::text(text))
}
