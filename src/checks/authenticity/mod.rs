//! The first check: whether the message is from whom it says.

mod settings;

pub use settings::{
    Algorithm, Authenticity, AuthenticityHeaders, AuthenticityRule, AuthenticitySettings, KeySettings,
    SignatureRule, SignedField,
};

use super::metadata::Reading;
use crate::delivery::Rejection;
use crate::envelope::Envelope;
use crate::reason::{ErrorType, ReasonCode, Stage};

/// An envelope that passed the first check. Only [`check`] makes one.
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

pub(super) fn check<'a>(
    envelope: &'a Envelope,
    reading: &'a Reading,
    authenticity: &Authenticity,
) -> Result<Authentic<'a>, Box<Rejection>> {
    match authenticity {
        Authenticity::NotRequired => Ok(Authentic { envelope, reading }),
        Authenticity::Required(_) => Err(Box::new(Rejection {
            stage: Stage::Authenticity,
            reason: ReasonCode::SubjectNotCoveredByAuthenticityPolicy,
            error_type: ErrorType::PolicyViolation,
            detail: "no authenticity rule matches the subject".into(),
        })),
    }
}
