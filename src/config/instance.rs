//! `{instance}` in a path: `JETSINK_INSTANCE`, else the host name. It must be one plain path part.

/// What stands for the name in a path.
const PLACEHOLDER: &str = "{instance}";

/// The longest instance name.
const LONGEST: usize = 128;

/// Why a path cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InstanceError {
    #[error("holds {{instance}}, yet neither JETSINK_INSTANCE nor the host name is known")]
    Unknown,
    #[error(
        "holds {{instance}}, yet its value is not 1 to 128 of A-Z, a-z, 0-9, `.`, `_`, `-`, or begins with `.`"
    )]
    NotPlain,
    #[error("holds braces that are not {{instance}}")]
    OtherBraces,
}

/// Puts the instance into the path.
///
/// # Errors
/// See [`InstanceError`].
pub(super) fn expand(path: &str, instance: Option<&str>) -> Result<String, InstanceError> {
    if path.replace(PLACEHOLDER, "").contains(['{', '}']) {
        return Err(InstanceError::OtherBraces);
    }
    if !path.contains(PLACEHOLDER) {
        return Ok(path.to_owned());
    }
    let instance = instance.ok_or(InstanceError::Unknown)?;
    let plain = |other: char| other.is_ascii_alphanumeric() || "._-".contains(other);
    if instance.is_empty()
        || instance.len() > LONGEST
        || instance.starts_with('.')
        || !instance.chars().all(plain)
    {
        return Err(InstanceError::NotPlain);
    }
    Ok(path.replace(PLACEHOLDER, instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_is_one_plain_part() {
        assert_eq!(expand("/a/{instance}/b", Some("host-1")), Ok("/a/host-1/b".into()));
        assert_eq!(expand("/a", None), Ok("/a".into()));
        assert_eq!(expand("/a/{instance}", None), Err(InstanceError::Unknown));
        assert_eq!(expand("/a/{Instance}", Some("x")), Err(InstanceError::OtherBraces));
        for instance in ["", "..", "a/b", ".x", "a b", "ü"] {
            assert_eq!(expand("/{instance}", Some(instance)), Err(InstanceError::NotPlain), "{instance}");
        }
    }
}
