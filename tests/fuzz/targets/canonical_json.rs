//! Bounded JSON documents: total, and the canonical spelling is a fixed point that says the same.

#![no_main]

use jetsink::json::{Bounds, Object};
use serde_json::Value;

const BOUNDS: Bounds = Bounds { bytes: 8192, depth: 8, fields: 128, items: 256 };
/// A canonical spelling may be longer than what it was read from: `1e15` has eighteen characters.
const LONGER: Bounds = Bounds { bytes: 1 << 20, ..BOUNDS };

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(object) = Object::parse(data, &BOUNDS) else { return };
    let canonical = object.canonical();
    let again = Object::parse(canonical.as_bytes(), &LONGER).expect("a canonical spelling reads back");
    assert_eq!(again.canonical(), canonical);
    let theirs = serde_json::from_slice::<Value>(data).expect("what we read is JSON");
    assert_eq!(serde_json::from_str::<Value>(&canonical).expect("what we write is JSON"), theirs);
});
