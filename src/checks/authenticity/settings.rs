//! What is asked of a message's authenticity (`[message_authenticity]`, formats §2).

use crate::clock::Timestamp;
use crate::secret::SecretSource;
use crate::subject::SubjectPattern;

/// What is asked of a message's authenticity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authenticity {
    /// Nothing: said in the log at start.
    #[default]
    NotRequired,
    /// A signature, where a rule says so.
    Required(AuthenticitySettings),
}

/// The rules for signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticitySettings {
    /// Names of the headers.
    pub headers: AuthenticityHeaders,
    /// The first that matches the subject wins.
    pub rules: Vec<AuthenticityRule>,
    /// Whether a message that no rule covers passes; else it is rejected.
    pub allow_unmatched: bool,
}

/// Names of the headers that carry a signature, compared in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticityHeaders {
    /// The algorithm.
    pub algorithm: String,
    /// The key id.
    pub key_id: String,
    /// The signature in standard base64.
    pub signature: String,
}

impl Default for AuthenticityHeaders {
    fn default() -> Self {
        Self {
            algorithm: "Nats-Sinks-Authenticity-Algorithm".into(),
            key_id: "Nats-Sinks-Authenticity-Key-Id".into(),
            signature: "Nats-Sinks-Authenticity-Signature".into(),
        }
    }
}

/// What is asked of the messages of some subjects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticityRule {
    /// The subjects.
    pub subject: SubjectPattern,
    /// The signature; `None` = exempt (`enabled = false`).
    pub signature: Option<SignatureRule>,
}

/// A signature that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureRule {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// One key or more, with distinct ids.
    pub keys: Vec<KeySettings>,
    /// What is signed beside the payload.
    pub signed_fields: Vec<SignedField>,
}

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `hmac-sha256`; a shared key of 32 to 1024 bytes.
    HmacSha256,
    /// `ed25519`; the public key of 32 bytes.
    Ed25519,
}

impl Algorithm {
    /// Its name in headers, configuration and signed bytes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// One key of a rule. What `source` gives is the key in standard base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    /// The id that producers send.
    pub key_id: String,
    /// Where the key is read from, at start and again on SIGHUP.
    pub source: SecretSource,
    /// Messages that the stream stored before are not verified by it.
    pub not_before: Option<Timestamp>,
    /// Messages that the stream stored after are not verified by it.
    pub not_after: Option<Timestamp>,
}

/// A field that a signature covers beside the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignedField {
    /// `classification`
    Classification,
    /// `labels`
    Labels,
    /// `message_id`
    MessageId,
    /// `mission_metadata`
    MissionMetadata,
    /// `priority`
    Priority,
    /// `security_labels`
    SecurityLabels,
    /// `subject`
    Subject,
}

impl SignedField {
    /// Every field, in the order of the signed bytes.
    pub const ALL: &'static [Self] = &[
        Self::Classification,
        Self::Labels,
        Self::MessageId,
        Self::MissionMetadata,
        Self::Priority,
        Self::SecurityLabels,
        Self::Subject,
    ];

    /// Its name in configuration and signed bytes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Classification => "classification",
            Self::Labels => "labels",
            Self::MessageId => "message_id",
            Self::MissionMetadata => "mission_metadata",
            Self::Priority => "priority",
            Self::SecurityLabels => "security_labels",
            Self::Subject => "subject",
        }
    }
}
