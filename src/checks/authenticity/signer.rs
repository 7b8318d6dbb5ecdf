//! The other side of the check: keys that sign, for producers and tests.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Signer as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::canonical::{SigningInput, signed_bytes};
use super::keys::{self, KeyError};
use super::settings::{Algorithm, AuthenticityHeaders, SignedField};
use crate::secret::Secret;

/// Bytes of a generated key: what `hmac-sha256` takes at least, and the seed of `ed25519`.
const GENERATED: usize = 32;

/// A key that signs. It never shows itself.
pub struct SigningKey(Kind);

enum Kind {
    HmacSha256(Zeroizing<Vec<u8>>),
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

/// A signature, and what a message says beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The id of the key.
    pub key_id: String,
    /// The signature in standard base64.
    pub text: String,
}

impl SigningKey {
    /// Reads a key: the shared key of `hmac-sha256` (32 to 1024 bytes) or the private seed of `ed25519` (32 bytes), in
    /// standard base64.
    ///
    /// # Errors
    /// The text is no such key.
    pub fn parse(algorithm: Algorithm, text: &Secret) -> Result<Self, KeyError> {
        let bytes = keys::decoded(text)?;
        match algorithm {
            Algorithm::HmacSha256 => {
                keys::check_hmac_length(bytes.len())?;
                Ok(Self(Kind::HmacSha256(bytes)))
            }
            Algorithm::Ed25519 => {
                let seed = Zeroizing::new(keys::ed25519_bytes(&bytes)?);
                Ok(Self::from_seed(&seed))
            }
        }
    }

    /// Makes a new key of 32 random bytes from the system.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate(algorithm: Algorithm) -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0_u8; GENERATED]);
        getrandom::fill(&mut *bytes).map_err(|_| KeyError::NoRandomness)?;
        Ok(match algorithm {
            Algorithm::HmacSha256 => Self(Kind::HmacSha256(Zeroizing::new(bytes.to_vec()))),
            Algorithm::Ed25519 => Self::from_seed(&bytes),
        })
    }

    fn from_seed(seed: &[u8; GENERATED]) -> Self {
        Self(Kind::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(seed))))
    }

    /// Its algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self.0 {
            Kind::HmacSha256(_) => Algorithm::HmacSha256,
            Kind::Ed25519(_) => Algorithm::Ed25519,
        }
    }

    /// The key itself in standard base64: what [`SigningKey::parse`] reads.
    #[must_use]
    pub fn secret_text(&self) -> Secret {
        Secret::new(match &self.0 {
            Kind::HmacSha256(key) => STANDARD.encode(key.as_slice()),
            Kind::Ed25519(key) => STANDARD.encode(key.as_bytes()),
        })
    }

    /// The public key in standard base64: what a rule's key is for `ed25519`. `None` for `hmac-sha256`, whose one key is
    /// secret and signs as well as verifies.
    #[must_use]
    pub fn public_text(&self) -> Option<String> {
        match &self.0 {
            Kind::HmacSha256(_) => None,
            Kind::Ed25519(key) => Some(STANDARD.encode(key.verifying_key().as_bytes())),
        }
    }

    /// Signs a message.
    #[must_use]
    pub fn sign(&self, key_id: &str, fields: &[SignedField], input: &SigningInput<'_>) -> Signature {
        let bytes = signed_bytes(self.algorithm(), key_id, fields, input);
        let text = match &self.0 {
            // Its length was checked; a key of any length makes a MAC.
            Kind::HmacSha256(key) => Hmac::<Sha256>::new_from_slice(key)
                .map(|mac| STANDARD.encode(mac.chain_update(&bytes).finalize().into_bytes()))
                .unwrap_or_default(),
            Kind::Ed25519(key) => STANDARD.encode(key.sign(&bytes).to_bytes()),
        };
        Signature { algorithm: self.algorithm(), key_id: key_id.to_owned(), text }
    }
}

impl Signature {
    /// The three headers of a signed message, in a fixed order.
    #[must_use]
    pub fn headers<'a>(&'a self, names: &'a AuthenticityHeaders) -> [(&'a str, &'a str); 3] {
        [
            (&names.algorithm, self.algorithm.as_str()),
            (&names.key_id, &self.key_id),
            (&names.signature, &self.text),
        ]
    }
}

/// Shows the algorithm, never the key.
impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SigningKey").field(&self.algorithm()).finish()
    }
}
