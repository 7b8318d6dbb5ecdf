//! Signature headers with any value: nobody without the key passes, and judging is total.

#![no_main]

mod common;

use jetsink::checks::Gate;
use jetsink::delivery::{Gate as _, Verdict};
use jetsink::envelope::Headers;
use std::sync::LazyLock;

static GATE: LazyLock<Gate> = LazyLock::new(|| Gate::open(common::signed_settings()).expect("the settings are valid"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut pieces = data.split(|byte| *byte == b'\n');
    let mut next = || pieces.next().unwrap_or_default();
    let subject = if next().first().is_some_and(|byte| *byte & 1 == 1) { "hmac.a" } else { "ed.a" };
    let mut headers = Headers::new();
    headers.append("Nats-Sinks-Authenticity-Algorithm", next().to_vec());
    headers.append("Nats-Sinks-Authenticity-Key-Id", next().to_vec());
    headers.append("Nats-Sinks-Authenticity-Signature", next().to_vec());
    headers.append("Nats-Msg-Id", next().to_vec());
    headers.append("Nats-Sinks-Mission-Metadata", next().to_vec());
    let judgement = GATE.judge(&common::envelope(subject, headers, next()));
    assert!(matches!(judgement.verdict, Verdict::Rejected(_)), "a forged signature passed");
});
