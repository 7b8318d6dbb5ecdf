//! Validated settings of the connection, the durable and the dead-letter publisher.

use crate::dead_letter::LetterSubject;
use crate::subject::{SubjectError, SubjectPattern};
use std::path::PathBuf;
use std::time::Duration;

use crate::secret::SecretSource;

/// How to reach and sign in to the servers (`[nats]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// `host:port`, `nats://…` or `tls://…`; user and password are taken out of the URL before it gets here.
    pub servers: Vec<String>,
    /// The name the server shows for this connection.
    pub name: String,
    /// How to sign in.
    pub sign_in: SignIn,
    /// The context of the nats command that servers, sign-in and TLS files come from, for messages.
    pub context: Option<String>,
    /// TLS.
    pub tls: TlsSettings,
    /// Prefix of reply subjects, for least-privilege users.
    pub inbox_prefix: Option<String>,
    /// JetStream domain, if not the default one.
    pub domain: Option<String>,
    /// Deadline of one connection attempt.
    pub connect_timeout: Duration,
    /// Deadline of one request.
    pub request_timeout: Duration,
    /// How often a silent connection is tested; it is given up on the third test without an answer.
    pub ping_interval: Duration,
}

/// How to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// Not at all.
    Anonymous,
    /// User and password.
    UserPassword {
        /// The user.
        user: String,
        /// The password.
        password: SecretSource,
    },
    /// A token.
    Token(SecretSource),
    /// An nkey seed.
    Nkey(SecretSource),
    /// A credentials file (JWT and seed).
    Credentials(SecretSource),
}

/// TLS towards the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Refuse a server without TLS.
    pub required: bool,
    /// Start TLS before the server's first line.
    pub first: bool,
    /// CA certificates (PEM), instead of the machine's store.
    pub ca_file: Option<PathBuf>,
    /// Client certificate and key (PEM), for mTLS.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
}

/// The stream and its durable (`[consumer]`). Fields that are `None` are not set in the file: they are not compared when a
/// durable is bound, and take the server's default when one is created.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsumerSettings {
    /// The stream.
    pub stream: String,
    /// The durable.
    pub durable: String,
    /// Bind only, or create when missing.
    pub mode: BindMode,
    /// What to do when stream or durable vanish while running.
    pub on_gone: OnGone,
    /// Subjects it filters; empty = not set.
    pub filter_subjects: Vec<String>,
    /// Where a created durable starts.
    pub deliver_policy: Option<DeliverPolicy>,
    /// Ack wait.
    pub ack_wait: Option<Duration>,
    /// Max deliver; −1 = unlimited, which is also what a created durable gets.
    pub max_deliver: Option<i64>,
    /// Max ack pending.
    pub max_ack_pending: Option<i64>,
    /// Back-off list.
    pub backoff: Vec<Duration>,
    /// Replicas of a created durable.
    pub replicas: Option<usize>,
    /// The operator expects the durable to leave bodies out.
    pub headers_only_expected: bool,
    /// How long one pull stays open.
    pub expires: Duration,
}

/// What to do when the durable does not exist at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindMode {
    /// Refuse to start.
    Bind,
    /// Create it; an existing one is still never rewritten.
    CreateIfMissing,
}

/// What to do when stream or durable vanish while running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnGone {
    /// Not ready; wait until they are there again, then bind.
    Wait,
    /// Exit non-zero.
    Exit,
}

/// Where a created durable starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliverPolicy {
    /// From the first message.
    All,
    /// Only what comes from now on.
    New,
    /// From a stream sequence.
    StartSequence(u64),
}

/// The dead-letter publisher (`[dead_letter]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherSettings {
    /// Subject of the dead letters, or what it begins with.
    pub subject: String,
    /// What follows it.
    pub subject_tokens: Vec<crate::dead_letter::SubjectToken>,
    /// The stream that must confirm; found by subject at start when not given.
    pub stream: Option<String>,
    /// Deadline of one confirmation.
    pub timeout: Duration,
    /// What the server gives up on.
    pub advisories: AdvisorySettings,
    /// The record.
    pub record: crate::dead_letter::RecordSettings,
}

/// Messages that the server delivers no more (`[dead_letter]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvisorySettings {
    /// The stream that captures the advisories; found by subject at start when not given.
    pub stream: Option<String>,
    /// Settle the original after its dead letter is confirmed, so that a work queue gets rid of it.
    pub remove_exhausted: bool,
}

impl PublisherSettings {
    /// What matches every subject that the letters of this durable may go to.
    ///
    /// # Errors
    /// The subject is none.
    pub fn pattern(&self, stream: &str, consumer: &str) -> Result<SubjectPattern, SubjectError> {
        LetterSubject::new(&self.subject, &self.subject_tokens, stream, consumer).pattern()
    }

    /// Every subject that they may go to.
    #[must_use]
    pub fn all(&self, stream: &str, consumer: &str) -> Vec<String> {
        LetterSubject::new(&self.subject, &self.subject_tokens, stream, consumer).all()
    }
}
