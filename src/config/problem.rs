//! What is wrong with a configuration: every problem at once, each with its place, key, cause and remedy.
//!
//! No text here may quote a value that could be a secret: texts are built from key names, from lists of choices, and from
//! numbers.

use std::fmt;
use std::path::PathBuf;

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the file, on this line where the format tells it.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// The line, from 1.
        line: Option<usize>,
    },
    /// In this environment variable.
    Environment(String),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: Some(line) } => write!(formatter, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(formatter, "{}", path.display()),
            Self::Environment(name) => write!(formatter, "environment variable {name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The key, `delivery.batch_size` for instance; `None` when the text itself cannot be read.
    pub key: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.place)?;
        if let Some(key) = &self.key {
            write!(formatter, "{key}: ")?;
        }
        write!(formatter, "{}; {}", self.what, self.remedy)
    }
}

/// Why no settings came out of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}; check the path and the permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not text.
    #[error("the configuration {} is not UTF-8 text; save it as UTF-8, or is it the right file?", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The file is larger than any configuration.
    #[error("the configuration {} is larger than {limit} bytes; is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size.
        limit: u64,
    },
    /// The extension says nothing.
    #[error("the configuration {} has no known format; name it .toml, .json, .yaml or .yml", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// Everything that is wrong, in order of place.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A key as it may be printed: shortened, control characters escaped.
pub(super) fn printable(name: &str) -> String {
    const LONGEST: usize = 64;
    let mut text: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_one_line() {
        let problem = Problem {
            place: Place::File { path: "jetsink.toml".into(), line: Some(3) },
            key: Some("delivery.linger".into()),
            what: "a number has no unit".into(),
            remedy: "write \"5s\"".into(),
        };
        assert_eq!(
            problem.to_string(),
            "jetsink.toml:3: delivery.linger: a number has no unit; write \"5s\""
        );
    }

    #[test]
    fn names_are_printed_short_and_clean() {
        assert_eq!(printable("a\nb"), "a\\nb");
        assert_eq!(printable(&"x".repeat(65)).chars().count(), 65);
        assert_eq!(printable(&"x".repeat(64)), "x".repeat(64));
    }
}
