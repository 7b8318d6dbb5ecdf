//! The first check: whether the message is from whom it says.

use super::settings::Authenticity;
use crate::delivery::Rejection;
use crate::envelope::Envelope;

/// An envelope that passed the first check. Only [`check`] makes one.
#[derive(Debug)]
pub(super) struct Authentic<'a>(&'a Envelope);

impl<'a> Authentic<'a> {
    pub(super) const fn envelope(&self) -> &'a Envelope {
        self.0
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a required authenticity will reject")]
pub(super) const fn check(
    envelope: &Envelope,
    authenticity: Authenticity,
) -> Result<Authentic<'_>, Box<Rejection>> {
    match authenticity {
        Authenticity::NotRequired => Ok(Authentic(envelope)),
    }
}
