//! The third check: what the operator asks of a message before it may be written.

mod settings;

pub use settings::{Policy, PolicyRule, PolicySettings};

use super::size::Bounded;
use crate::delivery::Rejection;
use crate::reason::{ErrorType, ReasonCode, Stage};

/// The proof that every check passed. Only [`check`] makes one.
#[derive(Debug)]
pub(super) struct Permitted {
    /// What a policy that only warns has against the message.
    pub(super) warning: Option<Box<Rejection>>,
}

pub(super) fn check(_bounded: &Bounded<'_>, policy: &Policy) -> Result<Permitted, Box<Rejection>> {
    match policy {
        Policy::NotRequired => Ok(Permitted { warning: None }),
        Policy::Required(_) => Err(Box::new(Rejection {
            stage: Stage::Policy,
            reason: ReasonCode::SubjectNotCoveredByPolicy,
            error_type: ErrorType::PolicyViolation,
            detail: "no policy rule matches the subject".into(),
        })),
    }
}
