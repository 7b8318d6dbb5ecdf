//! The strict reading of payloads: total, never more lenient than serde_json, and one line keeps what the payload says.

#![no_main]

use jetsink::json::StrictReader;
use serde_json::Value;
use serde_json::value::RawValue;

libfuzzer_sys::fuzz_target!(|payload: &[u8]| {
    let Some(json) = StrictReader::default().read(payload) else { return };
    serde_json::from_slice::<&RawValue>(payload).expect("what is strict JSON is JSON");
    let mut line = Vec::new();
    json.write_on_one_line(&mut line);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
    serde_json::from_slice::<&RawValue>(&line).expect("the line is JSON");
    // A number beyond a double is JSON, and yet no Value of serde_json.
    if let Ok(value) = serde_json::from_slice::<Value>(payload) {
        assert_eq!(serde_json::from_slice::<Value>(&line).ok(), Some(value));
    }
});
