//! The checks before the sink, in their fixed order: authenticity → size → policy. Pure: no I/O, no clock.
//!
//! The order is made by types: each check takes what only the check before it can make, so no configuration and no edit
//! elsewhere can reorder or skip one.

mod authenticity;
mod json_size;
pub mod metadata;
mod policy;
mod settings;
mod size;

pub use settings::{Authenticity, GateSettings, MetadataHeaders, Policy, SizeLimits};

use crate::delivery::{self, Rejection, Verdict};
use crate::envelope::Envelope;

/// The gate of this program: what [`crate::delivery::Received::admit`] runs.
#[derive(Clone, Debug)]
pub struct Gate {
    settings: GateSettings,
}

impl Gate {
    /// A gate with these settings.
    #[must_use]
    pub const fn new(settings: GateSettings) -> Self {
        Self { settings }
    }

    /// The security checks that nobody asked for; the operator is told at start.
    #[must_use]
    pub fn absent_checks(&self) -> Vec<&'static str> {
        let authenticity = match self.settings.authenticity {
            Authenticity::NotRequired => "authenticity",
        };
        let policy = match self.settings.policy {
            Policy::NotRequired => "policy",
        };
        vec![authenticity, policy]
    }

    fn pass(&self, envelope: &Envelope) -> Result<policy::Permitted, Box<Rejection>> {
        let authentic = authenticity::check(envelope, self.settings.authenticity)?;
        let bounded = size::check(authentic, &self.settings.size, &self.settings.metadata)?;
        policy::check(bounded, self.settings.policy)
    }
}

impl delivery::Gate for Gate {
    fn judge(&self, envelope: &Envelope) -> Verdict {
        match self.pass(envelope) {
            Ok(policy::Permitted { .. }) => Verdict::Permitted,
            Err(rejection) => Verdict::Rejected(*rejection),
        }
    }
}

#[cfg(test)]
mod tests;
