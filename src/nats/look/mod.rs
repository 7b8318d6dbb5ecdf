//! Looking at the server without changing anything: the facts that `preflight` judges, and permissions tried one by one.

pub(in crate::nats) mod denials;
pub(in crate::nats) mod read;
pub(in crate::nats) mod trials;
