//! The check as a whole: vectors of the reference, tampering, keys that overlap and expire, ambiguity.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::checks::metadata::MetadataReader;
use crate::clock::Timestamp;
use crate::envelope::{Body, Metadata};
use crate::reason::{ErrorType, ReasonCode, Stage};
use crate::secret::{Secret, SecretSource};
use crate::subject::SubjectPattern;
use crate::testing::builders;

mod keys;
mod rules;
mod tampering;
mod vectors;

/// A message before it is an envelope.
#[derive(Clone, Debug)]
struct Message {
    subject: String,
    headers: Vec<(String, Vec<u8>)>,
    payload: Vec<u8>,
    stored_at: i64,
}

impl Message {
    fn new(subject: &str, payload: &[u8]) -> Self {
        Self { subject: subject.into(), headers: Vec::new(), payload: payload.to_vec(), stored_at: 1_000 }
    }

    fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(own, _)| own != name);
        self
    }

    fn envelope(&self) -> Envelope {
        let mut envelope = builders::envelope(1).build();
        envelope.subject = self.subject.clone();
        envelope.headers = crate::envelope::Headers::new();
        for (name, value) in &self.headers {
            envelope.headers.append(name.clone(), value.clone());
        }
        envelope.payload = self.payload.clone().into();
        envelope.stored_at = Timestamp(self.stored_at);
        envelope
    }

    fn signed_by(self, key: &SigningKey, key_id: &str, fields: &[SignedField]) -> Self {
        let envelope = self.envelope();
        let reading = MetadataReader::new(MetadataSettings::default()).read(&envelope);
        let input = input(&envelope, &reading.metadata);
        let signature = key.sign(key_id, fields, &input);
        let names = AuthenticityHeaders::default();
        signature.headers(&names).iter().fold(self, |own, (name, value)| own.header(name, value))
    }
}

fn input<'a>(envelope: &'a Envelope, metadata: &'a Metadata) -> SigningInput<'a> {
    SigningInput {
        subject: &envelope.subject,
        message_id: envelope.message_id(),
        metadata,
        payload: &envelope.payload,
    }
}

/// What a rule needs to verify what `key` signs.
fn verifying(key: &SigningKey, key_id: &str) -> KeySettings {
    let text = key.public_text().map_or_else(|| key.secret_text(), Secret::new);
    KeySettings {
        key_id: key_id.into(),
        source: SecretSource::Inline(text),
        not_before: None,
        not_after: None,
    }
}

fn rule(
    subject: &str,
    algorithm: Algorithm,
    keys: Vec<KeySettings>,
    fields: &[SignedField],
) -> AuthenticityRule {
    AuthenticityRule {
        subject: SubjectPattern::parse(subject).unwrap(),
        signature: Some(SignatureRule { algorithm, keys, signed_fields: fields.to_vec() }),
    }
}

fn exempt(subject: &str) -> AuthenticityRule {
    AuthenticityRule { subject: SubjectPattern::parse(subject).unwrap(), signature: None }
}

fn open(rules: Vec<AuthenticityRule>) -> AuthenticityCheck {
    let settings =
        AuthenticitySettings { headers: AuthenticityHeaders::default(), rules, allow_unmatched: false };
    AuthenticityCheck::open(Authenticity::Required(settings), &MetadataSettings::default()).unwrap()
}

fn judge(check: &AuthenticityCheck, envelope: &Envelope) -> Result<(), Box<Rejection>> {
    let reading = MetadataReader::new(MetadataSettings::default()).read(envelope);
    check.check(envelope, &reading).map(drop)
}

/// The reason of the rejection, which is one of this check.
fn reason(check: &AuthenticityCheck, message: &Message) -> Option<ReasonCode> {
    judge(check, &message.envelope()).err().map(|rejection| {
        assert_eq!(rejection.stage, Stage::Authenticity);
        // A signed field whose header cannot be read is the one rejection of another kind.
        let malformed = rejection.reason == ReasonCode::MissionMetadataInvalid;
        let expected = if malformed { ErrorType::Validation } else { ErrorType::PolicyViolation };
        assert_eq!(rejection.error_type, expected);
        rejection.reason
    })
}

fn key(algorithm: Algorithm) -> SigningKey {
    SigningKey::parse(algorithm, &Secret::new(STANDARD.encode([7_u8; 32]))).unwrap()
}

const BOTH: [Algorithm; 2] = [Algorithm::HmacSha256, Algorithm::Ed25519];
const DEFAULT_FIELDS: &[SignedField] = &[SignedField::Subject, SignedField::MessageId];
