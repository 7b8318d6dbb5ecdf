//! The third check: what the operator asks of a message before it may be written.

use super::settings::Policy;
use super::size::Bounded;
use crate::delivery::Rejection;

/// The proof that every check passed. Only [`check`] makes one.
#[derive(Debug)]
pub(super) struct Permitted(());

#[expect(clippy::unnecessary_wraps, reason = "a required policy will reject")]
pub(super) const fn check(_bounded: Bounded<'_>, policy: Policy) -> Result<Permitted, Box<Rejection>> {
    match policy {
        Policy::NotRequired => Ok(Permitted(())),
    }
}
