//! The durable: bound and verified, watched, and guarded against being taken for another one of its name.

pub(super) mod bind;
pub(super) mod drift;
pub(super) mod guard;
mod namesake;
pub(super) mod watch;
