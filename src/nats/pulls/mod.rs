//! Pulls: the loop over one inbox, the accounting of what is open, the status lines.

pub(super) mod open_pulls;
pub(super) mod pull;
pub(super) mod status;
