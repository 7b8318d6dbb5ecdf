//! What every letter must keep, whatever the message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
use serde_json::Value;

use super::*;
use crate::envelope::{Headers, Metadata, SharedMetadata, SourceNames};
use crate::reason::{ErrorType, ReasonCode, Stage};

const KEEPS: SizeBudget = SizeBudget { max_payload: 1 << 20, source_keeps_body: true };
const WORK_QUEUE: SizeBudget = SizeBudget { max_payload: 65_536, source_keeps_body: false };

fn envelope(payload: impl Into<Bytes>, lines: &[(&str, &[u8])]) -> Envelope {
    let mut headers = Headers::new();
    for (name, value) in lines {
        headers.append(*name, value.to_vec());
    }
    Envelope {
        subject: "orders.new".into(),
        headers,
        payload: payload.into(),
        body: Body::Present,
        source: SourceNames::shared("ORDERS", "sink"),
        stream_sequence: 42,
        consumer_sequence: 50,
        delivery_count: 2,
        stored_at: Timestamp(1_796_078_187_322_511_484),
        pending: 3,
        metadata: SharedMetadata::new(Metadata {
            priority: Some("high".into()),
            labels: vec!["a".into(), "b".into()],
            ..Metadata::default()
        }),
    }
}

fn rejection(detail: &str) -> Rejection {
    Rejection {
        stage: Stage::Size,
        reason: ReasonCode::PayloadTooLarge,
        error_type: ErrorType::SizePolicyViolation,
        detail: detail.into(),
    }
}

fn rendered(
    envelope: &Envelope,
    rejection: &Rejection,
    settings: &RecordSettings,
    budget: SizeBudget,
) -> Result<Vec<Part>, TooLarge> {
    let letter = Letter { envelope, rejection, failed_at: Timestamp(1_796_078_190_000_000_000), sink: None };
    render(&letter, settings, budget)
}

fn original() -> RecordSettings {
    RecordSettings { format: Format::Original, ..RecordSettings::default() }
}

fn header<'a>(part: &'a Part, name: &str) -> Option<&'a str> {
    part.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

fn number(part: &Part, name: &str) -> usize {
    header(part, name).unwrap().parse().unwrap()
}

/// Bytes of the message as the server counts them, written out line by line.
fn published_bytes(part: &Part) -> usize {
    let mut wire = String::from("NATS/1.0\r\n");
    for (name, value) in &part.headers {
        wire.push_str(&format!("{name}: {value}\r\n"));
    }
    wire.push_str("\r\n");
    wire.len() + part.body.len()
}

/// The original's header block and body, taken out of parts of the original format.
fn recovered(parts: &[Part]) -> (Vec<u8>, Vec<u8>) {
    if let [part] = parts {
        let block = header(part, "Jetsink-Original-Headers").map(|text| STANDARD.decode(text).unwrap());
        return (block.unwrap_or_default(), part.body.to_vec());
    }
    let joined: Vec<u8> = parts.iter().flat_map(|part| part.body.to_vec()).collect();
    let (first, second) = (&parts[0], &parts[1]);
    assert_eq!(header(first, "Jetsink-Part"), Some("1/2"));
    assert_eq!(header(second, "Jetsink-Part"), Some("2/2"));
    assert_eq!(number(second, "Jetsink-Part-Offset"), first.body.len());
    assert_eq!(number(second, "Jetsink-Data-Bytes"), joined.len());
    let (block, body) = joined.split_at(number(first, "Jetsink-Original-Headers-Bytes"));
    (block.to_vec(), body.to_vec())
}

fn wire_lines(block: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut rest = block.strip_prefix(b"NATS/1.0\r\n").unwrap_or_default();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n").filter(|end| *end > 0) {
        let line = &rest[..end];
        let colon = line.windows(2).position(|pair| pair == b": ").unwrap();
        lines.push((String::from_utf8(line[..colon].to_vec()).unwrap(), line[colon + 2..].to_vec()));
        rest = &rest[end + 2..];
    }
    lines
}

#[test]
fn a_json_letter_has_every_field_and_its_keys_are_sorted() {
    let lines: &[(&str, &[u8])] =
        &[("Nats-Msg-Id", b"id-1"), ("X", b"1"), ("X", b"2"), ("Raw", b"\xff"), ("Nats-Rollup", b"all")];
    let envelope = envelope("hello", lines);
    let parts =
        rendered(&envelope, &rejection("5 bytes, limit 4"), &RecordSettings::default(), KEEPS).unwrap();
    assert_eq!(parts.len(), 1);
    let text = std::str::from_utf8(&parts[0].body).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"classification":null,"consumer":"sink","consumer_sequence":50,"delivery_count":2,"#,
            r#""error":"5 bytes, limit 4","error_type":"SizePolicyViolationError","#,
            r#""failed_at":"2026-11-30T22:36:30.000000000Z","#,
            r#""headers":{"Nats-Msg-Id":"id-1","Nats-Rollup":"all","Raw":{"base64":"/w=="},"X":["1","2"]},"#,
            r#""idempotency_key":"stream-sequence:ORDERS:42","idempotency_key_unavailable_reason":null,"#,
            r#""labels":["a","b"],"message_id":"id-1","#,
            r#""payload":{"delivered_size_bytes":5,"nats_msg_size_header":null,"#,
            r#""nats_msg_size_header_malformed":false,"omitted":false,"omitted_reason":null,"#,
            r#""original_size_bytes":5,"present":true,"#,
            r#""sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"},"#,
            r#""payload_base64":"aGVsbG8=","pending":3,"priority":"high","reason":"payload_too_large","#,
            r#""redelivered":true,"schema":"jetsink.dead_letter.v1","sink":null,"stage":"size","#,
            r#""stream":"ORDERS","stream_sequence":42,"subject":"orders.new","#,
            r#""timestamp":"2026-11-30T22:36:27.322511484Z"}"#,
        )
    );
    // serde_json sorts the keys of a parsed object, so equal text means that they were sorted.
    assert_eq!(serde_json::from_str::<Value>(text).unwrap().to_string(), text);
    let names: Vec<_> = parts[0].headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        names,
        [
            "Nats-Msg-Id=jetsink.dlq.ORDERS.sink.42.1796078187322511484",
            "Nats-Sinks-Error-Type=SizePolicyViolationError",
            "Nats-Sinks-Original-Subject=orders.new",
            "Jetsink-Reason=payload_too_large",
            "Jetsink-Stage=size",
            "Jetsink-Stream=ORDERS",
            "Jetsink-Stream-Sequence=42",
            "Jetsink-Consumer=sink",
            "Jetsink-Delivery-Count=2",
        ]
    );
}

#[test]
fn what_is_not_asked_for_is_not_there() {
    let envelope = envelope("hello", &[("X", b"1")]);
    let settings = RecordSettings {
        include_error: false,
        include_headers: false,
        include_payload: false,
        ..RecordSettings::default()
    };
    let parts = rendered(&envelope, &rejection("because"), &settings, KEEPS).unwrap();
    let record: Value = serde_json::from_slice(&parts[0].body).unwrap();
    for absent in ["error", "error_type", "headers", "payload_base64", "payload_unavailable_reason"] {
        assert!(record.get(absent).is_none(), "{absent}");
    }
    let settings = RecordSettings { format: Format::Original, ..settings };
    let parts = rendered(&envelope, &rejection("because"), &settings, KEEPS).unwrap();
    assert!(parts[0].body.is_empty());
    assert_eq!(header(&parts[0], "Jetsink-Error"), None);
    assert_eq!(header(&parts[0], "Jetsink-Original-Headers"), None);
}

#[test]
fn a_body_that_the_server_left_out_is_said_to_be_missing() {
    let mut envelope = envelope("", &[("Nats-Msg-Size", b"12x")]);
    envelope.body = Body::Omitted { original_size: None, malformed: true };
    let parts = rendered(&envelope, &rejection("x"), &RecordSettings::default(), WORK_QUEUE).unwrap();
    let record: Value = serde_json::from_slice(&parts[0].body).unwrap();
    assert_eq!(record["payload_unavailable_reason"], "headers_only");
    assert!(record.get("payload_base64").is_none());
    let expected = serde_json::json!({
        "present": false, "omitted": true, "omitted_reason": "headers_only", "original_size_bytes": null,
        "delivered_size_bytes": 0, "nats_msg_size_header": "12x", "nats_msg_size_header_malformed": true,
        "sha256": null,
    });
    assert_eq!(record["payload"], expected);
    let parts = rendered(&envelope, &rejection("x"), &original(), WORK_QUEUE).unwrap();
    assert_eq!(header(&parts[0], "Jetsink-Payload-Unavailable-Reason"), Some("headers_only"));
    assert_eq!(header(&parts[0], "Jetsink-Payload-Size-Header-Malformed"), Some("true"));
}

#[test]
fn a_loss_is_recorded_without_a_body_a_time_or_anything_that_nobody_knows() {
    let mut envelope = envelope("", &[]);
    (envelope.body, envelope.subject) = (Body::Lost, String::new());
    let unwanted = RecordSettings { include_payload: false, ..RecordSettings::default() };
    for settings in [RecordSettings::default(), unwanted] {
        let parts = rendered(&envelope, &rejection("x"), &settings, WORK_QUEUE).unwrap();
        let record: Value = serde_json::from_slice(&parts[0].body).unwrap();
        assert_eq!(record["payload_unavailable_reason"], "message_lost");
        assert_eq!(record["headers_unavailable_reason"], "message_lost");
        for absent in ["timestamp", "payload_base64", "headers"] {
            assert!(record.get(absent).is_none(), "{absent}");
        }
        let payload = &record["payload"];
        assert_eq!((&payload["present"], &payload["omitted"]), (&Value::Bool(false), &Value::Bool(false)));
        assert_eq!((&payload["sha256"], &payload["original_size_bytes"]), (&Value::Null, &Value::Null));
        let recovered = parse(&parts).unwrap();
        assert_eq!((recovered.body, recovered.headers, recovered.stored_at), (None, None, None));
    }
    let parts = rendered(&envelope, &rejection("x"), &original(), WORK_QUEUE).unwrap();
    assert_eq!(header(&parts[0], "Jetsink-Payload-Unavailable-Reason"), Some("message_lost"));
    assert_eq!(header(&parts[0], "Jetsink-Timestamp"), None);
    let recovered = parse(&parts).unwrap();
    assert_eq!((recovered.body, recovered.headers, recovered.stored_at), (None, None, None));
}

#[test]
fn the_form_follows_the_size() {
    // Field case 27: max_payload 65536, a reason of 8 KB with line breaks and non-ASCII in it.
    let detail = "größer\r\n".repeat(1024);
    for (size, expected) in [(40_000, "json"), (50_000, "original"), (65_400, "parts"), (65_536, "parts")] {
        let payload = vec![7_u8; size];
        let envelope = envelope(payload.clone(), &[("A", b"b")]);
        let parts = rendered(&envelope, &rejection(&detail), &RecordSettings::default(), WORK_QUEUE).unwrap();
        let form = match parts.as_slice() {
            [part] if header(part, "Jetsink-Schema").is_none() => "json",
            [_] => "original",
            _ => "parts",
        };
        assert_eq!(form, expected, "{size}");
        assert!(parts.iter().all(|part| published_bytes(part) <= 65_536));
        if form == "json" {
            let record: Value = serde_json::from_slice(&parts[0].body).unwrap();
            assert_eq!(STANDARD.decode(record["payload_base64"].as_str().unwrap()).unwrap(), payload);
            assert!(record["error"].as_str().unwrap().len() <= 512);
        } else {
            let (block, body) = recovered(&parts);
            assert_eq!(body, payload);
            assert_eq!(wire_lines(&block), [("A".to_owned(), b"b".to_vec())]);
        }
    }
}

#[test]
fn a_body_is_left_out_only_where_that_loses_nothing_or_is_allowed() {
    let envelope = envelope(vec![1; 200_000], &[]);
    let settings = RecordSettings::default();
    let error = rendered(&envelope, &rejection("x"), &settings, WORK_QUEUE).unwrap_err();
    assert_eq!(error, TooLarge { needed: 200_000, max_payload: 65_536 });
    let kept = SizeBudget { source_keeps_body: true, ..WORK_QUEUE };
    let allowed = RecordSettings { allow_body_loss: true, ..settings.clone() };
    for (settings, budget) in [(&settings, kept), (&allowed, WORK_QUEUE)] {
        let parts = rendered(&envelope, &rejection("x"), settings, budget).unwrap();
        assert_eq!(parts.len(), 1);
        let record: Value = serde_json::from_slice(&parts[0].body).unwrap();
        assert_eq!(record["payload_unavailable_reason"], "exceeds_max_payload");
        assert_eq!(record["payload"]["present"], true);
        assert_eq!(record["payload"]["original_size_bytes"], 200_000);
    }
}

#[test]
fn parts_are_cut_at_the_same_place_at_every_repeat() {
    let mut envelope = envelope(vec![1; 65_500], &[("A", b"b")]);
    let first = rendered(&envelope, &rejection("x"), &original(), WORK_QUEUE).unwrap();
    envelope.delivery_count = 1_000_000;
    let budget = SizeBudget { max_payload: 60_000, ..WORK_QUEUE };
    let second = rendered(&envelope, &rejection("a longer reason"), &original(), budget).unwrap();
    assert_eq!(first.len(), 2);
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first.body, second.body);
        assert_eq!(header(first, "Nats-Msg-Id"), header(second, "Nats-Msg-Id"));
    }
    assert_ne!(header(&first[0], "Nats-Msg-Id"), header(&first[1], "Nats-Msg-Id"));
}

#[test]
fn a_subject_that_no_header_can_hold_is_there_exactly() {
    let mut envelope = envelope("x", &[]);
    envelope.subject = "orders.\u{1}new".into();
    let parts = rendered(&envelope, &rejection("x"), &original(), KEEPS).unwrap();
    assert_eq!(header(&parts[0], "Nats-Sinks-Original-Subject"), Some("orders. new"));
    let exact = STANDARD.decode(header(&parts[0], "Jetsink-Subject-Base64").unwrap()).unwrap();
    assert_eq!(exact, envelope.subject.as_bytes());
}

#[test]
fn nothing_of_the_message_is_shown() {
    let envelope = envelope("CANARY", &[("X", b"CANARY")]);
    let parts = rendered(&envelope, &rejection("x"), &original(), KEEPS).unwrap();
    assert!(!format!("{parts:?}").contains("CANARY"));
}

#[test]
fn a_letter_is_read_back() {
    let envelope = envelope(vec![1; 65_500], &[("A", b"b"), ("A", b"\xff")]);
    let parts = rendered(&envelope, &rejection("x"), &original(), WORK_QUEUE).unwrap();
    let [first, second] = parts.clone().try_into().unwrap();
    for order in [parts, vec![second.clone(), first.clone()]] {
        let letter = parse(&order).unwrap();
        assert_eq!(letter.body.as_ref(), Some(&envelope.payload));
        assert_eq!(letter.headers.as_ref(), Some(&envelope.headers));
    }
    assert_eq!(parse(std::slice::from_ref(&first)), Err(ParseError::NotOneLetter));
    assert_eq!(parse(&[first.clone(), first.clone()]), Err(ParseError::NotOneLetter));
    assert_eq!(parse(&[]), Err(ParseError::NotOneLetter));
    let foreign = Part { headers: Vec::new(), body: "{}".into() };
    assert_eq!(parse(&[foreign]), Err(ParseError::Malformed("schema")));
    let unwanted = RecordSettings { include_payload: false, include_headers: false, ..original() };
    for settings in [unwanted.clone(), RecordSettings { format: Format::Json, ..unwanted }] {
        let parts = rendered(&envelope, &rejection("x"), &settings, WORK_QUEUE).unwrap();
        assert_eq!(parse(&parts).unwrap().body, None);
    }
}

/// A topic may have 65,535 bytes, and the gateway publishes it; a header block may not.
#[test]
fn a_redacted_header_has_a_mark_and_is_named_in_every_form() {
    let lines: &[(&str, &[u8])] =
        &[("cookie", b"s3cret"), ("A", b"1"), ("Cookie", b"s3cret"), ("X-API-KEY", b"s3cret")];
    let message = envelope(vec![7; 60_000], lines);
    let small = envelope("hello", lines);
    let mark = |value: &[u8]| value == REDACTED.as_bytes();
    for (envelope, settings, count) in [
        (&small, RecordSettings::default(), 1),
        (&small, original(), 1),
        (&message, RecordSettings::default(), 2),
    ] {
        let budget = SizeBudget { max_payload: 35_000, ..WORK_QUEUE };
        let parts = rendered(envelope, &rejection("x"), &settings, budget).unwrap();
        assert_eq!(parts.len(), count);
        let carried: Vec<_> = parts.iter().flat_map(|part| part.body.to_vec()).collect();
        assert!(!String::from_utf8_lossy(&carried).contains("s3cret"));
        let read = parse(&parts).unwrap();
        assert_eq!(read.redacted, ["Cookie", "X-Api-Key"]);
        let headers = read.headers.unwrap();
        for name in ["cookie", "Cookie", "X-API-KEY"] {
            assert!(headers.iter().any(|(own, value)| own == name && mark(value)), "{name}: {headers:?}");
        }
        assert_eq!(headers.get("A").map(|value| value.to_vec()), Some(b"1".to_vec()));
        assert_eq!(read.body.as_ref(), Some(&envelope.payload));
    }
    let plain = RecordSettings { redact_headers: Redaction::new([""; 0]), ..original() };
    let read = parse(&rendered(&small, &rejection("x"), &plain, WORK_QUEUE).unwrap()).unwrap();
    assert_eq!(read.redacted, [""; 0]);
    assert_eq!(read.headers.unwrap(), small.headers);
    let without = RecordSettings { include_headers: false, ..RecordSettings::default() };
    let parts = rendered(&small, &rejection("x"), &without, WORK_QUEUE).unwrap();
    assert_eq!(parse(&parts).unwrap().redacted, [""; 0]);
}

#[test]
fn a_letter_of_a_letter_says_how_deep_it_is() {
    let own: &[(&str, &[u8])] = &[("Jetsink-Stream", b"ORDERS"), ("Jetsink-Consumer", b"sink")];
    let with = |lines: &[(&str, &[u8])]| {
        let parts =
            rendered(&envelope("x", lines), &rejection("x"), &RecordSettings::default(), WORK_QUEUE).unwrap();
        let own = parts.first().and_then(|part| header(part, "Jetsink-Letter-Depth"));
        (depth(&envelope("x", lines)), own.map(str::to_owned))
    };
    assert_eq!(with(&[]), (0, None));
    assert_eq!(with(&[("Jetsink-Stream", b"ORDERS"), ("Jetsink-Consumer", b"another")]), (0, None));
    assert_eq!(with(own), (1, Some("2".into())));
    assert_eq!(with(&[own, &[("Jetsink-Letter-Depth", b"2")]].concat()), (2, Some("3".into())));
    assert_eq!(with(&[own, &[("Jetsink-Letter-Depth", b"0")]].concat()), (1, Some("2".into())));
    assert_eq!(with(&[own, &[("Jetsink-Letter-Depth", b"x")]].concat()), (1, Some("2".into())));
}

#[test]
fn a_letter_about_a_very_long_subject_is_json() {
    let mut envelope = envelope("{}", &[("Nmqtt-Pub", b"1")]);
    envelope.subject = "x".repeat(65_535);
    for settings in [RecordSettings::default(), original()] {
        let budget = SizeBudget { max_payload: 1 << 20, source_keeps_body: false };
        let parts = rendered(&envelope, &rejection("x"), &settings, budget).unwrap();
        assert!(published_bytes(&parts[0]) - parts[0].body.len() <= 65_535);
        let letter = parse(&parts).unwrap();
        assert_eq!(letter.subject, envelope.subject);
        assert_eq!(letter.body, Some(envelope.payload.clone()));
    }
}

#[test]
fn mqtt_facts_travel_when_the_message_came_through_the_gateway() {
    let rejection = rejection("x");
    let facts = |subject: &str, lines: &[(&str, &[u8])]| {
        let mut envelope = envelope("{}", lines);
        envelope.subject = subject.into();
        let json = rendered(&envelope, &rejection, &RecordSettings::default(), KEEPS).unwrap();
        let record: Value = serde_json::from_slice(&json[0].body).unwrap();
        assert_eq!(record.to_string().as_bytes(), json[0].body, "sorted keys");
        let original = rendered(&envelope, &rejection, &original(), KEEPS).unwrap();
        assert_eq!(parse(&original).unwrap().subject, subject);
        let own = |name| header(&original[0], name).map(str::to_owned);
        (record.get("mqtt").cloned(), own("Jetsink-Mqtt-Qos"), own("Jetsink-Mqtt-Topic"))
    };
    let gateway: &[(&str, &[u8])] = &[("Nmqtt-Pub", b"2")];
    let json = |topic: Option<&str>| Some(serde_json::json!({ "qos": 2, "topic": topic }));
    let two = Some("2".to_owned());
    assert_eq!(
        facts("sens./.a//b", gateway),
        (json(Some("sens//a.b")), two.clone(), Some("sens//a.b".to_owned()))
    );
    assert_eq!(facts("nats.a/b", gateway), (json(None), two.clone(), None));
    // A topic with a control character, which the gateway lets pass: JSON holds it, a header would not. A long one is not
    // repeated.
    assert_eq!(facts("a.\u{1}b", gateway), (json(Some("a/\u{1}b")), two.clone(), None));
    let long = "x".repeat(4097);
    assert_eq!(facts(&long, gateway), (json(None), two, None));
    assert_eq!(facts("sens.a", &[]), (None, None, None));
    assert_eq!(facts("sens.a", &[("Nmqtt-Pub", b"three")]), (None, None, None));
}

fn with_objects(mission_metadata: String, payload: Vec<u8>) -> Envelope {
    let mut envelope = envelope(payload, &[]);
    envelope.metadata = SharedMetadata::new(Metadata {
        mission_metadata: Some(mission_metadata),
        security_labels: Some("{\"owner\":\"\u{e9}\"}".into()),
        ..Metadata::default()
    });
    envelope
}

#[test]
fn objects_of_the_metadata_travel_in_their_spelling_where_there_is_room() {
    let mission = "{\"a\":1e+16,\"b\":[1.0]}";
    let small = with_objects(mission.into(), b"{}".to_vec());
    for settings in [RecordSettings::default(), original()] {
        let parts = rendered(&small, &rejection("x"), &settings, KEEPS).unwrap();
        let found = objects(&parts[0]).unwrap();
        assert_eq!(found.mission_metadata.as_deref(), Some(mission));
        assert_eq!(found.security_labels, small.metadata.security_labels);
        assert!(!format!("{found:?}").contains("1e"));
        assert_eq!(parse(&parts).unwrap().body.unwrap(), "{}");
        let none = rendered(&envelope("{}", &[]), &rejection("x"), &settings, KEEPS).unwrap();
        assert_eq!(objects(&none[0]), Ok(Objects::default()));
    }
    let foreign = Part { headers: Vec::new(), body: "{\"schema\":\"other\"}".into() };
    assert_eq!(objects(&foreign), Err(ParseError::Malformed("schema")));
    // In JSON keys stay sorted.
    let parts = rendered(&small, &rejection("x"), &RecordSettings::default(), KEEPS).unwrap();
    let text = std::str::from_utf8(&parts[0].body).unwrap();
    let place = |key: &str| text.find(&format!("\"{key}\":")).unwrap();
    assert!(place("message_id") < place("mission_metadata") && place("mission_metadata") < place("payload"));
    assert!(place("schema") < place("security_labels") && place("security_labels") < place("sink"));
}

#[test]
fn an_object_that_a_header_does_not_hold_exactly_is_left_out() {
    for mission in ["{\"a\":\"\u{85}\"}".to_owned(), format!("{{\"a\":\"{}\"}}", "x".repeat(8192))] {
        let envelope = with_objects(mission, b"{}".to_vec());
        let parts = rendered(&envelope, &rejection("x"), &original(), KEEPS).unwrap();
        let found = objects(&parts[0]).unwrap();
        assert_eq!(found.mission_metadata, None);
        assert_eq!(found.security_labels, envelope.metadata.security_labels);
    }
}

#[test]
fn objects_never_stand_in_the_way_of_the_message() {
    let envelope = with_objects(format!("{{\"a\":\"{}\"}}", "x".repeat(8000)), vec![7; 5000]);
    let budget = SizeBudget { max_payload: 7000, source_keeps_body: false };
    for settings in [RecordSettings::default(), original()] {
        let parts = rendered(&envelope, &rejection("x"), &settings, budget).unwrap();
        assert_eq!(parse(&parts).unwrap().body.as_ref(), Some(&envelope.payload));
        assert_eq!(objects(&parts[0]), Ok(Objects::default()));
    }
}

#[test]
fn an_unread_header_block_comes_back_byte_by_byte_in_every_form() {
    let block = Bytes::from_static(b"NATS/1.0\r\nX: \xff\xfe\rb\r\nno colon\r\n\r\n");
    for (payload_bytes, format, count) in [
        (100, Format::Json, 1),
        (100, Format::Original, 1),
        (60_000, Format::Json, 1),
        (65_500, Format::Json, 2),
    ] {
        let mut envelope = envelope(vec![0xA5; payload_bytes], &[]);
        envelope.headers = Headers::unread(block.clone());
        envelope.consumer_sequence = 0;
        let settings = RecordSettings { format, ..RecordSettings::default() };
        let parts = rendered(&envelope, &rejection("x"), &settings, WORK_QUEUE).unwrap();
        assert_eq!(parts.len(), count, "{payload_bytes} {format:?}");
        let letter = parse(&parts).unwrap();
        assert_eq!(letter.headers.as_ref().and_then(Headers::raw_block), Some(&block));
        assert_eq!(letter.body.as_ref(), Some(&envelope.payload));
        for (name, value) in parts.iter().flat_map(|part| &part.headers) {
            assert!(name.is_ascii() && value.is_ascii() && !value.contains(char::is_control), "{name}");
        }
    }
    let mut envelope = envelope("body", &[]);
    envelope.headers = Headers::unread(block);
    let unwanted = RecordSettings { include_headers: false, ..RecordSettings::default() };
    for settings in [unwanted.clone(), RecordSettings { format: Format::Original, ..unwanted }] {
        let parts = rendered(&envelope, &rejection("x"), &settings, WORK_QUEUE).unwrap();
        let letter = parse(&parts).unwrap();
        assert_eq!(letter.headers.and_then(|headers| headers.raw_block().cloned()), None);
    }
}

#[test]
fn the_page_shows_what_the_program_writes() {
    let page = include_str!("../../docs/dlq-record.md");
    let lines: &[(&str, &[u8])] =
        &[("Nats-Msg-Id", b"order-17"), ("Nats-Sinks-Priority", b"high"), ("Nats-Sinks-Labels", b"a;b")];
    let envelope = envelope(r#"{"order":17}"#, lines);
    let rejection = rejection("the payload has 12 bytes, the limit is 8");
    let lines = |part: &Part| {
        let lines: Vec<_> = part
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}").trim_end().to_owned())
            .collect();
        lines.join("\n")
    };
    let json = rendered(&envelope, &rejection, &RecordSettings::default(), KEEPS).unwrap();
    let original = rendered(&envelope, &rejection, &original(), KEEPS).unwrap();
    let record: Value = serde_json::from_slice(&json[0].body).unwrap();
    let pretty = serde_json::to_string_pretty(&record).unwrap();
    for (language, block) in [("json", pretty), ("text", lines(&json[0])), ("text", lines(&original[0]))] {
        let block = format!("```{language}\n{block}\n```");
        assert!(page.contains(&block), "docs/dlq-record.md should show\n{block}");
    }
}

#[test]
fn the_page_explains_every_reason_code_in_its_order() {
    let page = include_str!("../../docs/reason-codes.md");
    let sections: Vec<_> = page.split("\n## `").skip(1).collect();
    let headings: Vec<_> = sections.iter().filter_map(|section| section.split('`').next()).collect();
    let codes: Vec<_> = ReasonCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(headings, codes, "docs/reason-codes.md and ReasonCode::ALL differ");
    for section in sections {
        for part in ["**Stage**: ", "**Cause**: ", "**Example**: ", "**What to do**: "] {
            assert!(section.contains(part), "{part} is missing in\n{section}");
        }
    }
}

fn any_lines() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let names = prop::sample::select(vec![
        "Nats-Expected-Stream",
        "nats-rollup",
        "Nats-TTL",
        "Nats-Msg-Id",
        "Nmqtt-Pub",
        "Jetsink-Reason",
        "X",
        "Ü",
    ]);
    let name = proptest::prop_oneof![names.prop_map(str::to_owned), "[!-9;-~]{1,40}"];
    let value = any::<Vec<u8>>()
        .prop_map(|value| value.into_iter().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect());
    let value = proptest::prop_oneof![8 => value, 1 => Just(b"1".to_vec())];
    let large = (1_usize..60_000).prop_map(|size| vec![b'"'; size]);
    prop::collection::vec((name, proptest::prop_oneof![9 => value, 1 => large]), 0..12)
}

proptest! {
    #[test]
    fn every_letter_fits_and_keeps_the_message(
        lines in any_lines(),
        subject in "\\PC{1,60}",
        detail in any::<String>(),
        payload_bytes in 0_usize..150_000,
        max_payload in 1_024_usize..100_000,
        source_keeps_body in any::<bool>(),
        json in any::<bool>(),
    ) {
        let payload: Vec<u8> = (0..payload_bytes).map(|index| (index % 251).to_le_bytes()[0]).collect();
        let mut envelope = envelope(payload.clone(), &[]);
        for (name, value) in &lines {
            envelope.headers.append(name.clone(), value.clone());
        }
        envelope.subject = subject;
        let settings = RecordSettings {
            format: if json { Format::Json } else { Format::Original }, ..RecordSettings::default()
        };
        let budget = SizeBudget { max_payload, source_keeps_body };
        let parts = match rendered(&envelope, &rejection(&detail), &settings, budget) {
            Ok(parts) => parts,
            Err(_) => {
                let hopeless = max_payload < 8_192 || payload_bytes + envelope.headers.total_bytes() > max_payload;
                prop_assert!(hopeless, "{payload_bytes} {max_payload}");
                return Ok(());
            }
        };
        for part in &parts {
            prop_assert!(published_bytes(part) + "Nats-Expected-Stream: \r\n".len() + 255 <= max_payload);
            prop_assert!(published_bytes(part) - part.body.len() <= 65_535);
            for (name, value) in &part.headers {
                let ours = ["Jetsink-", "Nats-Sinks-"].iter().any(|own| name.starts_with(own));
                prop_assert!(ours || name == "Nats-Msg-Id", "{name}");
                prop_assert!(!value.chars().any(char::is_control) && value.trim() == value);
            }
            let mut names: Vec<_> = part.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), part.headers.len());
        }
        let letter = parse(&parts).unwrap();
        prop_assert_eq!(&letter.subject, &envelope.subject);
        prop_assert_eq!((letter.stream.as_str(), letter.stream_sequence), ("ORDERS", 42));
        prop_assert_eq!(letter.reason.as_str(), "payload_too_large");
        if let Some(body) = &letter.body {
            prop_assert_eq!(body, &envelope.payload);
        }
        if let Some(headers) = &letter.headers {
            let sorted = |headers: &Headers| {
                let mut lines: Vec<_> =
                    headers.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
                lines.sort_by(|one, other| one.0.cmp(&other.0));
                lines
            };
            prop_assert_eq!(sorted(headers), sorted(&envelope.headers));
        }
        let is_json = header(&parts[0], "Jetsink-Schema").is_none();
        if is_json {
            let record: Value = serde_json::from_slice(&parts[0].body).unwrap();
            prop_assert_eq!(record.to_string(), String::from_utf8(parts[0].body.to_vec()).unwrap());
            prop_assert_eq!(record["subject"].as_str(), Some(envelope.subject.as_str()));
            match record.get("payload_base64").and_then(Value::as_str) {
                Some(text) => prop_assert_eq!(STANDARD.decode(text).unwrap(), payload),
                None => prop_assert!(source_keeps_body),
            }
        } else {
            let (block, body) = recovered(&parts);
            if header(&parts[0], "Jetsink-Payload-Unavailable-Reason").is_none() {
                prop_assert_eq!(body, payload);
            } else {
                prop_assert!(source_keeps_body);
            }
            if header(&parts[0], "Jetsink-Headers-Unavailable-Reason").is_none() {
                prop_assert_eq!(wire_lines(&block), lines);
            } else {
                prop_assert!(source_keeps_body);
            }
        }
    }
}
