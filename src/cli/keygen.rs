//! `jetsink keygen`: a new key in a file that nobody else can read, and the rule that goes with it.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::signing::AlgorithmArgument;
use super::{output, refuse_input};
use crate::checks::authenticity::{Algorithm, KeyError, SigningKey};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The algorithm
    #[arg(long, value_enum, value_name = "ALGORITHM")]
    algorithm: AlgorithmArgument,
    /// The id that the rule and the producers call the key by
    #[arg(long, value_name = "ID", default_value = "producer-1")]
    key_id: String,
    /// The new file with the private or shared key; one that is there already is left alone
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The new file with the public key (ed25519); without it the public key is part of the answer
    #[arg(long, value_name = "FILE")]
    public: Option<PathBuf>,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum KeygenError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("cannot write {}: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("a shared key has no public part: leave out --public")]
    NothingPublic,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    match generate(arguments) {
        Ok(answer) => output::to_stdout(&answer),
        Err(error) => refuse_input(&error),
    }
}

fn generate(arguments: &Arguments) -> Result<String, KeygenError> {
    let algorithm = Algorithm::from(arguments.algorithm);
    let key = SigningKey::generate(algorithm)?;
    let public = key.public_text();
    if public.is_none() && arguments.public.is_some() {
        return Err(KeygenError::NothingPublic);
    }
    write_new(&arguments.out, key.secret_text().expose(), 0o600)?;
    let mut answer = String::new();
    let verified_by = match (&public, &arguments.public) {
        (None, _) => arguments.out.clone(),
        (Some(public), Some(path)) => {
            write_new(path, public, 0o644)?;
            path.clone()
        }
        (Some(public), None) => {
            answer.push_str(&format!("# The public key, for the file that key_file names:\n# {public}\n\n"));
            PathBuf::from(format!("{}.pub", arguments.key_id))
        }
    };
    answer.push_str(&snippet(algorithm, &arguments.key_id, &verified_by));
    Ok(answer)
}

/// Writes a file that must not be there yet.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), KeygenError> {
    let written =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path).and_then(|mut file| {
            file.write_all(format!("{text}\n").as_bytes())?;
            file.sync_all()
        });
    written.map_err(|source| KeygenError::Unwritable { path: path.to_path_buf(), source })
}

/// The rule to paste into a configuration.
fn snippet(algorithm: Algorithm, key_id: &str, key_file: &Path) -> String {
    let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
    format!(
        "[message_authenticity]\n\
         enabled = true\n\
         \n\
         [[message_authenticity.rules]]\n\
         subject = \">\"\n\
         algorithm = {}\n\
         key_id = {}\n\
         key_file = {}\n",
        text(algorithm.as_str()),
        text(key_id),
        text(&key_file.display().to_string())
    )
}
