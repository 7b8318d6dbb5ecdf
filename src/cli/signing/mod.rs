//! Signing a message by the rule for its subject: what `sign` and the cases of `test` share.

mod arguments;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

pub(super) use arguments::{AlgorithmArgument, KeyArguments, RuleArguments, Rules};

use super::message::Message;
use crate::checks::GateSettings;
use crate::checks::authenticity::{
    Algorithm, Authenticity, AuthenticitySettings, KeyError, SignatureRule, SigningInput, SigningKey,
    signed_bytes as bytes_of,
};
use crate::checks::explain::read_metadata;
use crate::envelope::{Envelope, SourceNames};
use crate::reason::ReasonCode;
use crate::secret::{SecretError, SecretSource};

/// By which key a message is signed.
#[derive(Clone, Debug)]
pub(super) struct SignWith {
    /// Where the private or shared key is.
    pub(super) source: SecretSource,
    /// The id that the signature names.
    pub(super) key_id: String,
    /// The algorithm, if it has to be another than the rule's.
    algorithm: Option<Algorithm>,
}

/// Why a message is not signed. No text shows a key.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    #[error("where is the key? Give --key-file, --key-env or --key-credential")]
    NoKey,
    #[error("no rule for signatures applies to the subject, so there is nothing to sign for")]
    NoRule,
    #[error("the rule for the subject is an exemption (enabled = false), so there is nothing to sign for")]
    Exempt,
    #[error("the rule for the subject has no key with this id; it has {0}")]
    UnknownKeyId(String),
    #[error("the message has a header {0} already; a second one would be ambiguous")]
    SignedAlready(String),
    #[error("metadata of the message is malformed ({reason}): {detail}")]
    Metadata { reason: ReasonCode, detail: String },
    #[error("the key id has a character that no header value can have")]
    KeyId,
    #[error("cannot read the key")]
    Unread(#[from] SecretError),
    #[error("the key cannot be used")]
    Unusable(#[from] KeyError),
}

/// `sign = { key_file = "…", key_id = "…" }` of a case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSignWith {
    key_file: Option<PathBuf>,
    key_env: Option<String>,
    key_credential: Option<String>,
    key_id: String,
    algorithm: Option<String>,
}

impl SignWith {
    pub(super) const fn new(source: SecretSource, key_id: String) -> Self {
        Self { source, key_id, algorithm: None }
    }

    /// The same, with a key file that is looked for beside `file`.
    pub(super) fn beside(mut self, file: &Path) -> Self {
        if let SecretSource::File(path) = &mut self.source {
            *path = file.with_file_name("").join(&path);
        }
        self
    }
}

impl<'de> Deserialize<'de> for SignWith {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let raw = RawSignWith::deserialize(deserializer)?;
        let source = match (raw.key_file, raw.key_env, raw.key_credential) {
            (Some(path), None, None) => SecretSource::File(path),
            (None, Some(name), None) => SecretSource::Environment(name),
            (None, None, Some(name)) => SecretSource::Credential(name),
            _ => return Err(D::Error::custom("sign takes one of key_file, key_env, key_credential")),
        };
        let algorithm = match raw.algorithm.as_deref() {
            None => None,
            Some("ed25519") => Some(Algorithm::Ed25519),
            Some("hmac-sha256") => Some(Algorithm::HmacSha256),
            Some(_) => return Err(D::Error::custom("algorithm is neither ed25519 nor hmac-sha256")),
        };
        Ok(Self { source, key_id: raw.key_id, algorithm })
    }
}

/// Appends the three headers of a signature, as the rule for the subject asks.
pub(super) fn sign_message(
    message: &mut Message,
    gate: &GateSettings,
    with: &SignWith,
) -> Result<(), SignError> {
    let (settings, rule) = rule_for(gate, &message.subject)?;
    // A rule without keys is one that the command line gave.
    if !rule.keys.is_empty() && !rule.keys.iter().any(|key| key.key_id == with.key_id) {
        let ids: Vec<_> = rule.keys.iter().map(|key| key.key_id.as_str()).collect();
        return Err(SignError::UnknownKeyId(ids.join(", ")));
    }
    if with.key_id.trim() != with.key_id || with.key_id.contains(char::is_control) {
        return Err(SignError::KeyId);
    }
    let names = &settings.headers;
    for name in [&names.algorithm, &names.key_id, &names.signature] {
        if message.headers.all_ignoring_case(name).next().is_some() {
            return Err(SignError::SignedAlready(name.clone()));
        }
    }
    let key = SigningKey::parse(with.algorithm.unwrap_or(rule.algorithm), &with.source.read()?)?;
    let envelope = message.envelope(SourceNames::shared("", ""));
    let metadata = read_metadata(gate, &envelope)
        .map_err(|rejection| SignError::Metadata { reason: rejection.reason, detail: rejection.detail })?;
    let input = SigningInput {
        subject: &envelope.subject,
        message_id: envelope.message_id(),
        metadata: &metadata,
        payload: &envelope.payload,
    };
    for (name, value) in key.sign(&with.key_id, &rule.signed_fields, &input).headers(names) {
        message.headers.append(name, value.to_owned());
    }
    Ok(())
}

/// The bytes that a signature of this message covers: by the rule for its subject, and by the key that the message names, or
/// by the first one. `None` if no rule asks for a signature.
pub(super) fn signed_bytes(gate: &GateSettings, envelope: &Envelope) -> Option<Vec<u8>> {
    let (settings, rule) = rule_for(gate, &envelope.subject).ok()?;
    let named = envelope.headers.all_ignoring_case(&settings.headers.key_id).next();
    let named = named.and_then(|value| std::str::from_utf8(value).ok()).map(str::trim);
    let key_id = named.or_else(|| rule.keys.first().map(|key| key.key_id.as_str()))?;
    let metadata = read_metadata(gate, envelope).ok()?;
    let input = SigningInput {
        subject: &envelope.subject,
        message_id: envelope.message_id(),
        metadata: &metadata,
        payload: &envelope.payload,
    };
    Some(bytes_of(rule.algorithm, key_id, &rule.signed_fields, &input))
}

/// The rule that applies to a subject.
fn rule_for<'a>(
    gate: &'a GateSettings,
    subject: &str,
) -> Result<(&'a AuthenticitySettings, &'a SignatureRule), SignError> {
    let Authenticity::Required(settings) = &gate.authenticity else { return Err(SignError::NoRule) };
    let rule = settings.rules.iter().find(|rule| rule.subject.matches(subject)).ok_or(SignError::NoRule)?;
    Ok((settings, rule.signature.as_ref().ok_or(SignError::Exempt)?))
}
