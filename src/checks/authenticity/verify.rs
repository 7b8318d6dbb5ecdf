//! One message against the rules: what is looked at in which order, and what is said when it does not fit (formats §2).

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::canonical::{SigningInput, ordered, write_rest};
use super::keys::{KeyRing, KeyRingError};
use super::settings::{Algorithm, AuthenticityHeaders, AuthenticitySettings, SignatureRule, SignedField};
use crate::checks::metadata::{MetadataSettings, Reading};
use crate::delivery::Rejection;
use crate::envelope::{Body, Envelope, Headers, MESSAGE_ID_HEADERS};
use crate::reason::{ErrorType, ReasonCode, Stage};
use crate::subject::SubjectPattern;

/// Decoded, a signature of either algorithm fits in here with room to spare; a longer one fits no key.
const SIGNATURE_ROOM: usize = 72;
/// Headers that one rule looks at: three of the signature, three of the message id, five of metadata.
const MAX_HEADERS: usize = 11;
/// What a header value stands for that is not text: no name, no key id, no base64.
const NOT_TEXT: &str = "\u{fffd}";

/// The rules with their keys.
#[derive(Debug)]
pub(in crate::checks) struct Rules {
    settings: AuthenticitySettings,
    rules: Vec<Rule>,
    /// Swapped as a whole, so a message never meets half of a reload.
    keys: RwLock<Arc<KeyRing>>,
}

#[derive(Debug)]
struct Rule {
    subject: SubjectPattern,
    /// `None` = exempt.
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    algorithm: Algorithm,
    /// In the order of the signed bytes.
    fields: Vec<SignedField>,
    /// Names of headers that may be there once: those of the signature first, then those behind the signed fields.
    headers: Vec<String>,
}

/// What a message says about its signature, trimmed; what is blank is not there.
struct Claims<'a> {
    algorithm: Option<&'a str>,
    key_id: Option<&'a str>,
    signature: Option<&'a str>,
}

impl Rules {
    /// Reads the keys.
    pub(super) fn open(
        settings: AuthenticitySettings,
        metadata: &MetadataSettings,
    ) -> Result<Self, KeyRingError> {
        let keys = RwLock::new(Arc::new(KeyRing::read(&settings)?));
        let rules = settings
            .rules
            .iter()
            .map(|rule| Rule {
                subject: rule.subject.clone(),
                asked: rule
                    .signature
                    .as_ref()
                    .map(|signature| Asked::new(signature, &settings.headers, metadata)),
            })
            .collect();
        Ok(Self { settings, rules, keys })
    }

    /// Reads the keys again; gives their ids. On failure the old ones stay.
    pub(super) fn reload_keys(&self) -> Result<Vec<String>, KeyRingError> {
        let fresh = Arc::new(KeyRing::read(&self.settings)?);
        let ids = fresh.ids();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(ids)
    }

    pub(super) fn key_ids(&self) -> Vec<String> {
        self.keys().ids()
    }

    /// Whether some rule asks for a public-key signature.
    pub(super) fn is_heavy(&self) -> bool {
        let mut asked = self.rules.iter().filter_map(|rule| rule.asked.as_ref());
        asked.any(|asked| asked.algorithm == Algorithm::Ed25519)
    }

    fn keys(&self) -> Arc<KeyRing> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The first rule that matches decides.
    pub(super) fn check(&self, envelope: &Envelope, reading: &Reading) -> Result<(), Box<Rejection>> {
        let mut rules = self.rules.iter().enumerate();
        let Some((position, rule)) = rules.find(|(_, rule)| rule.subject.matches(&envelope.subject)) else {
            return if self.settings.allow_unmatched {
                Ok(())
            } else {
                let reason = ReasonCode::SubjectNotCoveredByAuthenticityPolicy;
                Err(reject(reason, "no authenticity rule matches the subject"))
            };
        };
        let Some(asked) = &rule.asked else { return Ok(()) };
        let claims = asked.claims(&envelope.headers)?;
        let key_id = asked.check_names(&claims, &self.settings.headers)?;
        let keys = self.keys();
        let Some(key) = keys.get(position, key_id, envelope.stored_at) else {
            let detail = "no key of the rule has the id that the message names and was valid when the stream stored it";
            return Err(reject(ReasonCode::KeyIdMismatch, detail));
        };
        let Some(signature) = claims.signature else {
            return Err(missing(ReasonCode::SignatureHeaderMissing, &self.settings.headers.signature));
        };
        asked.check_signed_values(reading)?;
        if envelope.body != Body::Present {
            let detail =
                "the durable is headers-only: without the body, which is signed, nothing can be verified";
            return Err(reject(ReasonCode::SignatureInvalid, detail));
        }
        let mut room = [0; SIGNATURE_ROOM];
        let decoded = STANDARD.decode_slice(signature, &mut room).ok().and_then(|length| room.get(..length));
        let Some(signature) = decoded else {
            let detail = "the signature is no standard base64 of the length that the algorithm has";
            return Err(reject(ReasonCode::SignatureInvalid, detail));
        };
        let input = SigningInput {
            subject: &envelope.subject,
            message_id: envelope.message_id(),
            metadata: &reading.metadata,
            payload: &envelope.payload,
        };
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(key.opening());
        write_rest(&asked.fields, &input, &mut bytes);
        if key.verifies(&bytes, signature) {
            Ok(())
        } else {
            let detail =
                "the signature does not fit: payload, signed fields or key are others than at signing";
            Err(reject(ReasonCode::SignatureInvalid, detail))
        }
    }
}

impl Asked {
    fn new(rule: &SignatureRule, own: &AuthenticityHeaders, metadata: &MetadataSettings) -> Self {
        let fields = ordered(&rule.signed_fields);
        let mut headers = vec![own.algorithm.clone(), own.key_id.clone(), own.signature.clone()];
        for name in fields.iter().flat_map(|field| headers_behind(*field, metadata)) {
            if !headers.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                headers.push(name.to_owned());
            }
        }
        Self { algorithm: rule.algorithm, fields, headers }
    }

    /// One pass over the headers: what the message claims, and that nothing the check rests on is there twice.
    fn claims<'a>(&self, headers: &'a Headers) -> Result<Claims<'a>, Box<Rejection>> {
        let mut found: [Option<&'a Bytes>; MAX_HEADERS] = [None; MAX_HEADERS];
        for (name, value) in headers.iter() {
            let Some(position) = self.headers.iter().position(|own| own.eq_ignore_ascii_case(name)) else {
                continue;
            };
            let Some(place) = found.get_mut(position) else { continue };
            if place.replace(value).is_some() {
                let own = self.headers.get(position).map_or("", String::as_str);
                let detail = format!("the header {own} is there twice, or in two spellings");
                return Err(reject(ReasonCode::AuthenticityHeaderAmbiguous, detail));
            }
        }
        let [algorithm, key_id, signature, ..] = found.map(text);
        Ok(Claims { algorithm, key_id, signature })
    }

    /// The key id that the message names, once its algorithm is the rule's.
    fn check_names<'a>(
        &self,
        claims: &Claims<'a>,
        names: &AuthenticityHeaders,
    ) -> Result<&'a str, Box<Rejection>> {
        let Some(algorithm) = claims.algorithm else {
            return Err(missing(ReasonCode::AlgorithmHeaderMissing, &names.algorithm));
        };
        if !is_named(self.algorithm, algorithm) {
            let detail = format!("the rule asks for {}; the message names another", self.algorithm.as_str());
            return Err(reject(ReasonCode::AlgorithmMismatch, detail));
        }
        claims.key_id.ok_or_else(|| missing(ReasonCode::KeyIdHeaderMissing, &names.key_id))
    }

    /// A signed field that could not be read makes the signature moot, and its own fault is the better answer.
    fn check_signed_values(&self, reading: &Reading) -> Result<(), Box<Rejection>> {
        let Some(malformed) = &reading.malformed else { return Ok(()) };
        let possible: &[SignedField] = if malformed.reason == ReasonCode::MissionMetadataInvalid {
            // Also said of the other headers, when their bytes are no text.
            &[
                SignedField::Classification,
                SignedField::Labels,
                SignedField::MissionMetadata,
                SignedField::Priority,
            ]
        } else if [ReasonCode::SecurityLabelsInvalid, ReasonCode::SecurityLabelNotAllowed]
            .contains(&malformed.reason)
        {
            &[SignedField::SecurityLabels]
        } else {
            return Ok(());
        };
        if possible.iter().any(|field| self.fields.contains(field)) {
            Err(Box::new(Rejection { stage: Stage::Authenticity, ..(**malformed).clone() }))
        } else {
            Ok(())
        }
    }
}

/// The headers that a field is made of.
fn headers_behind(field: SignedField, metadata: &MetadataSettings) -> Vec<&str> {
    let names = &metadata.headers;
    match field {
        SignedField::Subject => Vec::new(),
        SignedField::MessageId => MESSAGE_ID_HEADERS.to_vec(),
        SignedField::Priority => vec![&names.priority],
        SignedField::Classification => vec![&names.classification],
        SignedField::Labels => vec![&names.labels],
        SignedField::MissionMetadata => vec![&names.mission_metadata],
        // The profile is completed from the metadata that it repeats.
        SignedField::SecurityLabels => match &metadata.security_labels {
            Some(labels) => vec![&labels.header, &names.priority, &names.classification, &names.labels],
            None => Vec::new(),
        },
    }
}

/// The text of a header, trimmed; a blank one is as good as none.
fn text(value: Option<&Bytes>) -> Option<&str> {
    let text = std::str::from_utf8(value?).unwrap_or(NOT_TEXT).trim();
    (!text.is_empty()).then_some(text)
}

/// Whether a text names the algorithm: lower-cased, `_` taken for `-`.
fn is_named(algorithm: Algorithm, text: &str) -> bool {
    let letters = text.bytes().map(|letter| if letter == b'_' { b'-' } else { letter.to_ascii_lowercase() });
    letters.eq(algorithm.as_str().bytes())
}

fn missing(reason: ReasonCode, header: &str) -> Box<Rejection> {
    reject(reason, format!("the header {header} is missing or blank"))
}

fn reject(reason: ReasonCode, detail: impl Into<String>) -> Box<Rejection> {
    Box::new(Rejection {
        stage: Stage::Authenticity,
        reason,
        error_type: ErrorType::PolicyViolation,
        detail: detail.into(),
    })
}
