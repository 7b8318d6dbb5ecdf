//! Messages that the server delivers no more: it gave up on them (`MAX_DELIVERIES`), or somebody else terminated them.
//!
//! The server says so once, as an advisory, and keeps no list. A stream captures the advisories of the bound durable, and a
//! durable of their own gives each to one daemon. `reader` and its `desk` read them, `judge` says which to believe, `given_up` turns them
//! into messages that can only be dead-lettered, and `claims` learns from the acker when one is settled: only then is the
//! advisory acknowledged. `exhausted` counts what a work queue keeps for nobody, without advisories. Nothing in here can stop the flow of messages (adr/0017).

pub(super) mod advisory;
pub(super) mod claims;
pub(super) mod desk;
pub(super) mod exhausted;
pub(super) mod given_up;
pub(super) mod judge;
pub(super) mod names;
pub(super) mod reader;
pub(super) mod setup;
pub(super) mod source;
