//! What can go wrong between us and the server, by meaning.

use crate::secret::SecretError;

/// Why there is no connection, or no bound durable.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// A secret cannot be read.
    #[error("cannot read a secret for signing in")]
    Secret(#[from] SecretError),
    /// A server address, a name or a file is wrong.
    #[error("{0}")]
    Settings(String),
    /// No server can be reached, or none accepts us.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// A request was not answered.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Stream or durable do not exist.
    #[error("{0}")]
    Missing(String),
    /// The durable is not what the configuration says; every difference is named.
    #[error("durable {durable} of stream {stream} is not what the configuration says; it is never rewritten:\n{}", .differences.join("\n"))]
    Drift {
        /// The stream.
        stream: String,
        /// The durable.
        durable: String,
        /// `field: the server has …, the file says …`.
        differences: Vec<String>,
    },
    /// The dead-letter stream would lose dead letters.
    #[error("the dead-letter stream cannot be used: {0}")]
    DeadLetterStream(String),
}

impl NatsError {
    /// Whether only a change of the configuration, here or at the server, can help.
    #[must_use]
    pub const fn is_configuration(&self) -> bool {
        matches!(self, Self::Settings(_) | Self::Drift { .. } | Self::DeadLetterStream(_))
    }
}

/// Why a JetStream API request has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The stream does not exist (10059).
    #[error("stream not found")]
    StreamNotFound,
    /// The durable does not exist (10014).
    #[error("consumer not found")]
    ConsumerNotFound,
    /// The stream holds no such message (10037).
    #[error("message not found")]
    MessageNotFound,
    /// Somebody else has created the durable meanwhile (10148).
    #[error("consumer already exists")]
    ConsumerExists,
    /// Another error of the server.
    #[error("the server answers {description} (error {code})")]
    Server {
        /// Its `err_code`.
        code: u64,
        /// Its text.
        description: String,
    },
    /// Nobody listens: JetStream is off, or the domain does not exist.
    #[error(
        "nobody answers on {subject}: is JetStream enabled for this account, and nats.domain the server's?"
    )]
    NoResponders {
        /// The subject asked.
        subject: String,
    },
    /// No answer in time; a denied permission looks like this as well.
    #[error("no answer on {subject} in time; is publishing to it permitted?")]
    TimedOut {
        /// The subject asked.
        subject: String,
    },
    /// The client is dead.
    #[error("the client is dead")]
    Dead,
    /// The answer cannot be read.
    #[error("the answer on {subject} cannot be read")]
    Malformed {
        /// The subject asked.
        subject: String,
        /// Why not.
        source: serde_json::Error,
    },
}

/// An error and its causes, in one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
