//! The gate as a whole.

use super::*;
use crate::clock::Timestamp;
use crate::delivery::Gate as _;
use crate::envelope::{Body, Headers, SharedMetadata, SourceNames};
use crate::reason::ReasonCode;

fn envelope(payload: Vec<u8>, headers: Headers) -> Envelope {
    Envelope {
        subject: "orders.new".into(),
        headers,
        payload: payload.into(),
        body: Body::Present,
        source: SourceNames::shared("ORDERS", "sink"),
        stream_sequence: 1,
        consumer_sequence: 1,
        delivery_count: 1,
        stored_at: Timestamp(1),
        pending: 0,
        metadata: SharedMetadata::NONE,
    }
}

#[test]
fn an_ordinary_message_passes_and_a_large_one_does_not() {
    let settings = GateSettings {
        size: SizeLimits { max_payload_bytes: 4, ..SizeLimits::default() },
        ..GateSettings::default()
    };
    let gate = Gate::open(settings).unwrap();
    assert_eq!(gate.judge(&envelope(b"1234".to_vec(), Headers::new())).verdict, Verdict::Permitted);
    let Verdict::Rejected(rejection) = gate.judge(&envelope(b"12345".to_vec(), Headers::new())).verdict
    else {
        panic!("a payload above the limit passed")
    };
    assert_eq!(rejection.reason, ReasonCode::PayloadTooLarge);
    assert_eq!(rejection.detail, "the payload has 5 bytes, the limit is 4");
    assert_eq!(gate.absent_checks(), ["authenticity", "policy"]);
}

#[test]
fn an_empty_body_is_data() {
    let gate = Gate::open(GateSettings::default()).unwrap();
    assert_eq!(gate.judge(&envelope(Vec::new(), Headers::new())).verdict, Verdict::Permitted);
}
