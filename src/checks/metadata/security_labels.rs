//! The profile `nats-sinks.security-label.v1`.

use super::settings::{MetadataError, SecurityLabelSettings};

/// What a header, a rule or the default says: the fields that it sets, in canonical spelling.
pub(super) fn partial(
    value: &[u8],
    settings: &SecurityLabelSettings,
) -> Result<Option<String>, MetadataError> {
    let fault = |fault| MetadataError::Invalid { field: "security labels", fault };
    let text = std::str::from_utf8(value).map_err(|_| fault("they are no UTF-8 text"))?;
    if text.len() > settings.max_bytes {
        return Err(fault("they have too many bytes"));
    }
    Ok(super::labels::text(text))
}
