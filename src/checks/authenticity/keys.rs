//! The keys that verify: read at start and again on demand, and swapped as a whole.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::canonical::opening;
use super::ed25519::Ed25519Key;
use super::settings::{Algorithm, AuthenticitySettings, KeySettings};
use crate::clock::Timestamp;
use crate::secret::{Secret, SecretError};

/// The shortest and the longest key of `hmac-sha256` in bytes (formats §2).
const HMAC_KEY: std::ops::RangeInclusive<usize> = 32..=1024;
/// Bytes of a public key of `ed25519`, and of a private seed.
const ED25519_KEY: usize = 32;

/// Why a text is not a key. It never shows the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not base64.
    #[error("it is not standard base64 with padding; `jetsink keygen` writes keys as they are read here")]
    NotBase64,
    /// Too short or too long for `hmac-sha256`.
    #[error(
        "an hmac-sha256 key has 32 to 1024 bytes, this one has {bytes}; make one with `jetsink keygen --algorithm hmac-sha256`"
    )]
    HmacLength {
        /// Its bytes.
        bytes: usize,
    },
    /// Not 32 bytes for `ed25519`.
    #[error(
        "an ed25519 key has 32 bytes, this one has {bytes}; make a pair with `jetsink keygen --algorithm ed25519`"
    )]
    Ed25519Length {
        /// Its bytes.
        bytes: usize,
    },
    /// No point of the curve.
    #[error("it is no ed25519 public key: no point of the curve; is it the private key, or was it cut?")]
    NoPoint,
    /// A point of small order, for which anybody can make signatures.
    #[error("it is a weak ed25519 public key, for which anybody can sign; make a pair with `jetsink keygen`")]
    Weak,
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomness,
}

/// Why the keys of the authenticity rules are not there. It names rule, key id and place, never the content.
#[derive(Debug, thiserror::Error)]
pub enum KeyRingError {
    /// The place cannot be read.
    #[error("message_authenticity.rules[{rule}] ({subject}): key {key_id} cannot be read")]
    Unread {
        /// The rule's place in the list, from 0.
        rule: usize,
        /// Its subjects.
        subject: String,
        /// The key's id.
        key_id: String,
        /// Why not.
        source: SecretError,
    },
    /// What stands there is no key.
    #[error("message_authenticity.rules[{rule}] ({subject}): key {key_id} from {place} cannot be used")]
    Unusable {
        /// The rule's place in the list, from 0.
        rule: usize,
        /// Its subjects.
        subject: String,
        /// The key's id.
        key_id: String,
        /// Where it was read.
        place: String,
        /// Why not.
        source: KeyError,
    },
    /// Two keys of one rule have one id.
    #[error(
        "message_authenticity.rules[{rule}] ({subject}): two keys have the id {key_id}; give each its own"
    )]
    IdTwice {
        /// The rule's place in the list, from 0.
        rule: usize,
        /// Its subjects.
        subject: String,
        /// The id.
        key_id: String,
    },
}

/// Every key of every rule, as they were read at one time.
#[derive(Debug)]
pub(super) struct KeyRing {
    /// By the rule's position; an exempt rule has none.
    rules: Vec<Vec<Key>>,
}

/// A key that verifies.
#[derive(Debug)]
pub(super) struct Key {
    id: String,
    not_before: Option<Timestamp>,
    not_after: Option<Timestamp>,
    /// The signed bytes up to the metadata.
    opening: Vec<u8>,
    verifier: Verifier,
}

enum Verifier {
    /// The state after the key was taken in: a message costs no key schedule.
    HmacSha256(Box<Hmac<Sha256>>),
    Ed25519(Ed25519Key),
}

impl KeyRing {
    pub(super) fn read(settings: &AuthenticitySettings) -> Result<Self, KeyRingError> {
        let mut rules = Vec::with_capacity(settings.rules.len());
        for (position, rule) in settings.rules.iter().enumerate() {
            let subject = rule.subject.as_str();
            let mut keys = Vec::new();
            let mut ids = HashSet::new();
            if let Some(signature) = &rule.signature {
                for key in &signature.keys {
                    if !ids.insert(&key.key_id) {
                        return Err(KeyRingError::IdTwice {
                            rule: position,
                            subject: subject.to_owned(),
                            key_id: key.key_id.clone(),
                        });
                    }
                    keys.push(Key::read(signature.algorithm, key, position, subject)?);
                }
            }
            rules.push(keys);
        }
        Ok(Self { rules })
    }

    /// The key of a rule with this id, if it may verify what the stream stored then.
    pub(super) fn get(&self, rule: usize, id: &str, stored_at: Timestamp) -> Option<&Key> {
        let keys = self.rules.get(rule)?;
        keys.iter().find(|key| key.id == id).filter(|key| key.is_valid_at(stored_at))
    }

    /// The ids of the keys, each once, in the order of the rules.
    pub(super) fn ids(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let ids = self.rules.iter().flatten().map(|key| key.id.as_str());
        ids.filter(|id| seen.insert(*id)).map(str::to_owned).collect()
    }
}

impl Key {
    fn read(
        algorithm: Algorithm,
        settings: &KeySettings,
        rule: usize,
        subject: &str,
    ) -> Result<Self, KeyRingError> {
        let secret = settings.source.read().map_err(|source| KeyRingError::Unread {
            rule,
            subject: subject.to_owned(),
            key_id: settings.key_id.clone(),
            source,
        })?;
        let verifier = Verifier::new(algorithm, &secret).map_err(|source| KeyRingError::Unusable {
            rule,
            subject: subject.to_owned(),
            key_id: settings.key_id.clone(),
            place: settings.source.place(),
            source,
        })?;
        Ok(Self {
            id: settings.key_id.clone(),
            not_before: settings.not_before,
            not_after: settings.not_after,
            opening: opening(algorithm, &settings.key_id),
            verifier,
        })
    }

    fn is_valid_at(&self, stored_at: Timestamp) -> bool {
        self.not_before.is_none_or(|first| first <= stored_at)
            && self.not_after.is_none_or(|last| stored_at <= last)
    }

    /// The signed bytes up to the metadata.
    pub(super) fn opening(&self) -> &[u8] {
        &self.opening
    }

    /// Whether the signature fits the bytes. Takes the same time for every wrong MAC.
    pub(super) fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        match &self.verifier {
            Verifier::HmacSha256(keyed) => {
                let mut mac = Hmac::clone(keyed);
                mac.update(bytes);
                mac.verify_slice(signature).is_ok()
            }
            Verifier::Ed25519(key) => key.verifies(bytes, signature),
        }
    }
}

impl Verifier {
    fn new(algorithm: Algorithm, text: &Secret) -> Result<Self, KeyError> {
        let bytes = decoded(text)?;
        match algorithm {
            Algorithm::HmacSha256 => {
                check_hmac_length(bytes.len())?;
                let mac =
                    Hmac::new_from_slice(&bytes).map_err(|_| KeyError::HmacLength { bytes: bytes.len() })?;
                Ok(Self::HmacSha256(Box::new(mac)))
            }
            Algorithm::Ed25519 => Ed25519Key::new(&ed25519_bytes(&bytes)?).map(Self::Ed25519),
        }
    }
}

/// The bytes of a key text. White space around it is dropped: files and variables often end with a line break.
pub(super) fn decoded(text: &Secret) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    STANDARD.decode(text.expose().trim()).map(Zeroizing::new).map_err(|_| KeyError::NotBase64)
}

pub(super) fn check_hmac_length(bytes: usize) -> Result<(), KeyError> {
    if HMAC_KEY.contains(&bytes) { Ok(()) } else { Err(KeyError::HmacLength { bytes }) }
}

pub(super) fn ed25519_bytes(bytes: &[u8]) -> Result<[u8; ED25519_KEY], KeyError> {
    bytes.try_into().map_err(|_| KeyError::Ed25519Length { bytes: bytes.len() })
}

/// Shows the algorithm, never the key.
impl std::fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::HmacSha256(_) => "hmac-sha256",
            Self::Ed25519(_) => "ed25519",
        })
    }
}
