//! The dead-letter stream: verified, and published to.

pub(super) mod publish;
pub(super) mod stream;
