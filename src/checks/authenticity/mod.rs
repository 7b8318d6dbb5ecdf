//! The first check: whether the message is from whom it says (formats §2).
//!
//! Rules for subjects stand in order and the first that matches decides: a signature, or explicitly none. What no rule
//! covers is rejected unless the operator says otherwise. A verdict depends on the message and the keys alone, never on the
//! time of judging, so a redelivery and a replay end as the first delivery did.

mod canonical;
mod ed25519;
mod keys;
mod settings;
mod signer;
mod verify;

use std::sync::Arc;

pub use canonical::{SigningInput, signed_bytes};
pub use keys::{KeyError, KeyRingError};
pub use settings::{
    Algorithm, Authenticity, AuthenticityHeaders, AuthenticityRule, AuthenticitySettings, KeySettings,
    SignatureRule, SignedField,
};
pub use signer::{Signature, SigningKey};

use self::verify::Rules;
use super::metadata::{MetadataSettings, Reading};
use crate::delivery::Rejection;
use crate::envelope::Envelope;

/// The check, ready to judge. Clones share their keys.
#[derive(Clone, Debug)]
pub(super) enum AuthenticityCheck {
    /// The operator asks for no signatures.
    NotRequired,
    /// The rules.
    Required(Arc<Rules>),
}

/// An envelope that passed the first check. Only [`AuthenticityCheck::check`] makes one.
#[derive(Debug)]
pub(super) struct Authentic<'a> {
    envelope: &'a Envelope,
    reading: &'a Reading,
}

impl<'a> Authentic<'a> {
    pub(super) const fn envelope(&self) -> &'a Envelope {
        self.envelope
    }

    pub(super) const fn reading(&self) -> &'a Reading {
        self.reading
    }
}

impl AuthenticityCheck {
    /// Reads the keys. The headers behind signed fields are those of `metadata`.
    pub(super) fn open(
        authenticity: Authenticity,
        metadata: &MetadataSettings,
    ) -> Result<Self, KeyRingError> {
        Ok(match authenticity {
            Authenticity::NotRequired => Self::NotRequired,
            Authenticity::Required(settings) => Self::Required(Arc::new(Rules::open(settings, metadata)?)),
        })
    }

    /// Reads the keys again and swaps them as a whole; gives their ids.
    pub(super) fn reload_keys(&self) -> Result<Vec<String>, KeyRingError> {
        match self {
            Self::NotRequired => Ok(Vec::new()),
            Self::Required(rules) => rules.reload_keys(),
        }
    }

    /// The ids of the keys in use, each once.
    pub(super) fn key_ids(&self) -> Vec<String> {
        match self {
            Self::NotRequired => Vec::new(),
            Self::Required(rules) => rules.key_ids(),
        }
    }

    pub(super) fn is_heavy(&self) -> bool {
        match self {
            Self::NotRequired => false,
            Self::Required(rules) => rules.is_heavy(),
        }
    }

    pub(super) fn check<'a>(
        &self,
        envelope: &'a Envelope,
        reading: &'a Reading,
    ) -> Result<Authentic<'a>, Box<Rejection>> {
        match self {
            Self::NotRequired => {}
            Self::Required(rules) => rules.check(envelope, reading)?,
        }
        Ok(Authentic { envelope, reading })
    }
}

#[cfg(test)]
mod tests;
