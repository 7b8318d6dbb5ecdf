//! Secrets: where they come from, and a type that never shows them.

use std::fmt;
use std::path::{Path, PathBuf};

/// A secret text. It has no `Display` and its `Debug` is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself. Every caller is a place to review.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

/// Where a secret is read from. It is read again at every use, so a rotated secret needs no restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A file; one trailing line break is dropped.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A credential that systemd passed to the service, by name (`LoadCredential=`).
    Credential(String),
    /// Given in the configuration itself, or taken out of a server URL.
    Inline(Secret),
}

/// Why a secret could not be read. The text names the place, never the content.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read the secret file {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not text.
    #[error("the secret file {path} is not UTF-8 text")]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The variable is not set.
    #[error("the environment variable {name} is not set, or is not UTF-8 text")]
    Environment {
        /// The variable.
        name: String,
    },
    /// systemd passed no credentials.
    #[error(
        "credential {name} is wanted, yet CREDENTIALS_DIRECTORY is not set; add LoadCredential={name}:… to the unit"
    )]
    NoCredentials {
        /// The credential.
        name: String,
    },
}

impl SecretSource {
    /// Reads the secret.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn read(&self) -> Result<Secret, SecretError> {
        match self {
            Self::File(path) => read_file(path),
            Self::Environment(name) => std::env::var(name)
                .map(Secret::new)
                .map_err(|_| SecretError::Environment { name: name.clone() }),
            Self::Credential(name) => std::env::var_os("CREDENTIALS_DIRECTORY").map_or_else(
                || Err(SecretError::NoCredentials { name: name.clone() }),
                |directory| read_file(&Path::new(&directory).join(name)),
            ),
            Self::Inline(secret) => Ok(secret.clone()),
        }
    }

    /// The place in words, for messages; never the content.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::File(path) => format!("the file {}", path.display()),
            Self::Environment(name) => format!("the environment variable {name}"),
            Self::Credential(name) => format!("the credential {name}"),
            Self::Inline(_) => "the configuration itself".into(),
        }
    }
}

fn read_file(path: &Path) -> Result<Secret, SecretError> {
    let bytes =
        std::fs::read(path).map_err(|source| SecretError::File { path: path.to_path_buf(), source })?;
    let mut text = String::from_utf8(bytes).map_err(|_| SecretError::NotText { path: path.to_path_buf() })?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(Secret(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let source = SecretSource::Inline(Secret::new("CANARY".into()));
        assert!(!format!("{source:?}").contains("CANARY"));
    }

    #[test]
    fn one_trailing_line_break_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, "s e\ncret\r\n").unwrap();
        assert_eq!(SecretSource::File(path).read().unwrap().expose(), "s e\ncret");
    }

    #[test]
    fn a_missing_secret_names_its_place() {
        let error = SecretSource::Environment("JETSINK_NO_SUCH".into()).read().unwrap_err();
        assert!(error.to_string().contains("JETSINK_NO_SUCH"));
    }
}
