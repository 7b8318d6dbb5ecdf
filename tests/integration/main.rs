//! Integration tests: the real daemon against real servers. One file per behaviour.

#[cfg(test)]
mod harness;
#[cfg(test)]
mod harness_works;
