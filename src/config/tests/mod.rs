//! The whole way from a text to settings.

mod canary;
mod documents;
mod gate;
mod pairs;
mod texts;

use std::path::PathBuf;

use super::{ConfigError, Environment, Loaded, Place, Problem, load};

/// A valid file that says no more than it must.
const MINIMAL: &str = r#"
[nats]
servers = ["nats://127.0.0.1:4222"]
[consumer]
stream = "ORDERS"
durable = "files"
[sink.file]
directory = "/var/lib/jetsink"
"#;

/// Loads a text as a file of this extension. Places name the file by its bare name.
fn load_text(extension: &str, text: &str, environment: &Environment) -> Result<Loaded, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("c.{extension}"));
    std::fs::write(&path, text).unwrap();
    load(&path, environment).map_err(|error| match error {
        ConfigError::Invalid(problems) => ConfigError::Invalid(problems.into_iter().map(bare).collect()),
        ConfigError::Unreadable { .. }
        | ConfigError::NotText { .. }
        | ConfigError::TooLarge { .. }
        | ConfigError::UnknownFormat { .. } => error,
    })
}

fn bare(problem: Problem) -> Problem {
    let place = match problem.place {
        Place::File { line, path } => {
            Place::File { line, path: PathBuf::from(path.file_name().unwrap_or_default()) }
        }
        variable @ Place::Environment(_) => variable,
    };
    Problem { place, ..problem }
}

fn problems(result: Result<Loaded, ConfigError>) -> Vec<Problem> {
    let problems = problems_if_any(result);
    assert!(!problems.is_empty(), "the configuration is valid");
    problems
}

fn problems_if_any(result: Result<Loaded, ConfigError>) -> Vec<Problem> {
    match result {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(problems)) => problems,
        Err(error) => panic!("{error}"),
    }
}

/// The minimal file with these overrides.
fn with(overrides: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let variables: Vec<_> =
        overrides.iter().map(|(key, value)| (super::environment::variable_of(key), *value)).collect();
    let environment = Environment::with(variables.iter().map(|(name, value)| (name.as_str(), *value)));
    load_text("toml", MINIMAL, &environment)
}
