//! Configurations: whatever stands in the file, there are settings or errors that name a place; and the gate of valid settings
//! opens or says why not.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use jetsink::checks::Gate;
use jetsink::config::{self, Environment};

static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("jetsink-fuzz-{}.toml", std::process::id())));

/// What a configuration needs beside the part that is fuzzed.
const MINIMAL: &str = "[nats]\nservers = [\"nats://127.0.0.1\"]\n[consumer]\nstream = \"S\"\ndurable = \"d\"\n\
                       [sink]\ntype = \"stdout\"\n[dead_letter]\nsubject = \"dlq\"\n";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut text = MINIMAL.as_bytes().to_vec();
    text.extend_from_slice(data);
    std::fs::write(&*FILE, &text).expect("the folder of temporary files takes a file");
    match config::load(&FILE, &Environment::default()) {
        Ok(loaded) => drop(Gate::open(loaded.settings.gate)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
