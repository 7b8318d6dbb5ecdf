//! The third check: what the operator asks of a message before it may be written (formats §4).
//!
//! Every rule whose subjects match applies. Rules are judged in the order of the file and, within a rule, what it asks in
//! the order of formats §4; the first violation is the verdict. Nothing that is said about a violation quotes the message:
//! only the operator's own words stand in it (a label, a limit, a name that a schema knows).

mod encrypted;
mod error;
mod rules;
mod schema;
mod settings;

pub use error::PolicyError;
pub(super) use rules::Rules;
pub use schema::SchemaError;
pub use settings::{Policy, PolicyRule, PolicySettings};

use super::size::Bounded;
use crate::delivery::Rejection;

/// The proof that every check passed. Only [`check`] makes one.
#[derive(Debug)]
pub(super) struct Permitted {
    /// What a policy that only warns has against the message.
    pub(super) warning: Option<Box<Rejection>>,
}

/// Judges by the rules; without any nothing is asked.
pub(super) fn check(bounded: &Bounded<'_>, rules: Option<&Rules>) -> Result<Permitted, Box<Rejection>> {
    let Some(rules) = rules else { return Ok(Permitted { warning: None }) };
    let authentic = bounded.authentic();
    match rules.judge(authentic.envelope(), &authentic.reading().metadata) {
        Ok(()) => Ok(Permitted { warning: None }),
        Err(violation) if rules.only_warns() => Ok(Permitted { warning: Some(violation) }),
        Err(violation) => Err(violation),
    }
}

#[cfg(test)]
mod tests;
