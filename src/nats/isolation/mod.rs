//! Messages that no client can be handed: found in the stream, and taken out of the way (design §11).

pub(super) mod isolate;
pub(super) mod quarantine;
pub(super) mod search;
pub(super) mod stored;
