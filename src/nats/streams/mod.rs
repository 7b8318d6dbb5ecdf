//! Streams read, made and given back without a consumer: what the tools for dead letters need.

pub(super) mod message;
pub(super) mod pages;
pub(super) mod replay;
pub(super) mod setup;
