//! Whole set-ups under faults: a cluster whose nodes die in turn, and a long run with a fault every few seconds.
//!
//! `tests/soak.sh SECONDS SEED` runs the soak for longer than the minute it takes among the other tests.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod faults;
#[cfg(test)]
#[path = "../integration/harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the harness serves the integration tests as well")]
mod harness;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod outcome;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod traffic;
