//! How a command ends when it does not end well.

use std::io;
use std::process::ExitCode;

use crate::cli::{EXIT_CONFIG, output};
use crate::nats::{NatsError, chain};

/// `EX_UNAVAILABLE`: the server or the stream is not there.
const EXIT_UNAVAILABLE: u8 = 69;

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The configuration is not valid; everything was said already.
    #[error("the configuration is not valid")]
    Configuration,
    /// Server or stream.
    #[error(transparent)]
    Nats(#[from] NatsError),
    /// Reading or writing a file or a pipe.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// The answer cannot be written.
    #[error("cannot write the answer: {0}")]
    Answer(#[from] io::Error),
    /// Wrong arguments, or something that was asked for is not there.
    #[error("{0}")]
    Refused(String),
    /// Done as far as possible; what was not done is said already.
    #[error("not everything was done")]
    Partly,
}

impl Failure {
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }

    /// Says why, and gives the exit code.
    pub(super) fn report(&self) -> ExitCode {
        let code = match self {
            Self::Configuration => return ExitCode::from(EXIT_CONFIG),
            Self::Partly => return ExitCode::FAILURE,
            // The reader has gone away (`| head`): it has all it wants.
            Self::Answer(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Self::Nats(NatsError::Settings(_)) => ExitCode::from(EXIT_CONFIG),
            Self::Nats(_) => ExitCode::from(EXIT_UNAVAILABLE),
            Self::Answer(_) | Self::File(..) | Self::Refused(_) => ExitCode::FAILURE,
        };
        output::to_stderr(&format!("jetsink dlq: {}\n", chain(self)));
        code
    }
}
