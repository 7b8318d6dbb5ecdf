//! `jetsink check --connect` and `jetsink permissions`: each finding on the state that it warns of, on new and old servers.

mod bench;
mod consumers;
mod dead_letters;
mod granted;
mod limits;
mod origin;
mod permissions;
mod retention;
mod watched;
