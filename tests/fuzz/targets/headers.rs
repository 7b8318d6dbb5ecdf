//! Raw header blocks, and the gate over whatever headers come out: total, and a rejection quotes nothing of the message.

#![no_main]

mod common;

use jetsink::checks::Gate;
use jetsink::delivery::Gate as _;
use jetsink::envelope::Headers;
use std::sync::LazyLock;

static GATE: LazyLock<Gate> = LazyLock::new(|| Gate::open(common::settings()).expect("the settings are valid"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(headers) = Headers::parse_block(data) else { return };
    let envelope = common::envelope("orders.new", headers, b"{}");
    drop(envelope.message_id().map(str::to_owned));
    drop(envelope.mqtt());
    drop(GATE.judge(&envelope));
});
