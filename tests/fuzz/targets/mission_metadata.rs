//! Metadata headers with any value: the gate judges them all, and what it keeps of mission metadata and security labels is in
//! its canonical spelling.

#![no_main]

mod common;

use jetsink::checks::Gate;
use jetsink::delivery::Gate as _;
use jetsink::envelope::Headers;
use jetsink::json::{Bounds, Object};
use std::sync::LazyLock;

static GATE: LazyLock<Gate> = LazyLock::new(|| Gate::open(common::settings()).expect("the settings are valid"));
const BOUNDS: Bounds = Bounds { bytes: 1 << 20, depth: 9, fields: 128, items: 256 };

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let names = [
        "Nats-Sinks-Mission-Metadata",
        "Nats-Sinks-Security-Labels",
        "Nats-Sinks-Labels",
        "Nats-Sinks-Priority",
        "Nats-Sinks-Classification",
    ];
    let mut headers = Headers::new();
    for (name, value) in names.into_iter().zip(data.split(|byte| *byte == b'\n')) {
        headers.append(name, value.to_vec());
    }
    let metadata = GATE.judge(&common::envelope("orders.new", headers, b"{}")).metadata;
    for text in [&metadata.mission_metadata, &metadata.security_labels].into_iter().flatten() {
        let object = Object::parse(text.as_bytes(), &BOUNDS).expect("kept metadata is a document");
        assert_eq!(object.canonical(), *text);
    }
    assert!(metadata.labels.iter().all(|label| !label.is_empty() && !label.contains(';')));
});
