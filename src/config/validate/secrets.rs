//! Places of secrets. The secrets themselves never stand in the configuration.

use std::path::PathBuf;

use super::Validator;
use crate::secret::SecretSource;

/// The one place a secret is read from, and the key that names it: a file, an environment variable, a credential.
pub(super) fn source<'key>(
    secret: &str,
    keys: [(&'key str, &Option<String>); 3],
    validator: &mut Validator<'_>,
) -> Option<(&'key str, SecretSource)> {
    let given: Vec<&str> = keys.iter().filter(|(_, value)| value.is_some()).map(|(key, _)| *key).collect();
    if given.len() > 1 {
        let what = format!("more than one place for the {secret}: {}", given.join(", "));
        validator.refuse(&given, what, "keep one of them");
    }
    let [(file_key, file), (variable_key, variable), (credential_key, credential)] = keys;
    if let Some(path) = file {
        return Some((file_key, SecretSource::File(PathBuf::from(path))));
    }
    if let Some(name) = variable {
        let plain = |other: char| other.is_ascii_alphanumeric() || other == '_';
        let fine = name.chars().all(plain) && !name.starts_with(|first: char| first.is_ascii_digit());
        validator.require(
            fine,
            &[variable_key],
            "is not the name of an environment variable",
            "write the name of the variable that holds the secret, not the secret",
        );
        return Some((variable_key, SecretSource::Environment(name.clone())));
    }
    if let Some(name) = credential {
        validator.require(
            !name.contains('/') && name != "." && name != "..",
            &[credential_key],
            "is not the name of a credential",
            "write the name that LoadCredential= gives it in the unit",
        );
        return Some((credential_key, SecretSource::Credential(name.clone())));
    }
    None
}
