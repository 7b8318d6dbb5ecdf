//! The checks before the sink, in their fixed order: authenticity → size → policy. Judging is pure: no I/O, no clock.
//!
//! The order is made by types: each check takes what only the check before it can make, so no configuration and no edit
//! elsewhere can reorder or skip one. Metadata is read before the first check, since signatures cover it.

pub mod authenticity;
pub mod explain;
mod json_size;
pub mod metadata;
pub mod policy;
mod settings;
mod size;

pub use settings::{GateSettings, SizeLimits};

use self::authenticity::{AuthenticityCheck, KeyRingError};
use self::metadata::{MetadataReader, Reading};
use self::policy::{Policy, PolicyError, Rules};
use crate::delivery::{self, Judgement, Rejection, Verdict};
use crate::envelope::Envelope;

/// The gate of this program: what [`crate::delivery::Received::admit`] runs.
#[derive(Clone, Debug)]
pub struct Gate {
    metadata: MetadataReader,
    authenticity: AuthenticityCheck,
    size: SizeLimits,
    policy: Option<Rules>,
}

/// Why there is no gate.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyRingError),
    /// The rules of the pre-sink policy.
    #[error("the pre-sink policy cannot be used")]
    Policy(#[from] PolicyError),
}

impl Gate {
    /// A gate with these settings. Reads the keys and schemas that the settings name.
    ///
    /// # Errors
    /// A key or a schema cannot be read or used.
    pub fn open(settings: GateSettings) -> Result<Self, GateError> {
        Ok(Self {
            authenticity: AuthenticityCheck::open(settings.authenticity, &settings.metadata)?,
            metadata: MetadataReader::new(settings.metadata),
            size: settings.size,
            policy: match &settings.policy {
                Policy::NotRequired => None,
                Policy::Required(settings) => Some(Rules::open(settings)?),
            },
        })
    }

    /// The security checks that nobody asked for; the operator is told at start.
    #[must_use]
    pub fn absent_checks(&self) -> Vec<&'static str> {
        let authenticity =
            matches!(self.authenticity, AuthenticityCheck::NotRequired).then_some("authenticity");
        let policy = self.policy.is_none().then_some("policy");
        authenticity.into_iter().chain(policy).collect()
    }

    /// Reads the keys of authenticity rules again and swaps them as a whole; gives their ids, each once. Nothing else of
    /// the settings changes.
    ///
    /// # Errors
    /// A key cannot be read or used. The old keys stay.
    pub fn reload_keys(&self) -> Result<Vec<String>, GateError> {
        Ok(self.authenticity.reload_keys()?)
    }

    /// The ids of the keys in use, each once, in the order of the rules.
    #[must_use]
    pub fn key_ids(&self) -> Vec<String> {
        self.authenticity.key_ids()
    }

    fn pass(&self, envelope: &Envelope, reading: &Reading) -> Result<policy::Permitted, Box<Rejection>> {
        let authentic = self.authenticity.check(envelope, reading)?;
        let bounded = size::check(authentic, &self.size, self.metadata.headers())?;
        policy::check(&bounded, self.policy.as_ref())
    }
}

impl delivery::Gate for Gate {
    fn judge(&self, envelope: &Envelope) -> Judgement {
        let reading = self.metadata.read(envelope);
        let verdict = match self.pass(envelope, &reading) {
            Ok(policy::Permitted { warning: None }) => Verdict::Permitted,
            Ok(policy::Permitted { warning: Some(warning) }) => Verdict::PermittedWithWarning(warning),
            Err(rejection) => Verdict::Rejected(*rejection),
        };
        Judgement { verdict, metadata: reading.metadata }
    }

    fn is_heavy(&self) -> bool {
        self.authenticity.is_heavy()
    }
}

#[cfg(test)]
mod tests;
