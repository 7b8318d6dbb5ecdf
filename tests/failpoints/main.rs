//! Crash tests: the daemon is built with its crash points and dies at each of them, again and again, while messages keep
//! coming. Needs the feature `failpoints` (tests/run.sh builds it).

#[cfg(test)]
mod crashes;
#[cfg(test)]
#[path = "../integration/harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the harness serves the integration tests as well")]
mod harness;
#[cfg(test)]
mod ten_kinds;
