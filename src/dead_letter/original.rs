//! The letter with the original bytes as its body and the facts as headers: a replay is a copy, and nothing grows by a
//! third. The original's own headers travel as data, never as headers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};

use super::json::stated_size;
use super::{Carried, Facts, Letter, Part, PartNumber, Plan, RecordSettings, Redaction, SCHEMA, SizeBudget};
use super::{common_headers, fitting, text};
use crate::envelope::{Body, Headers};

/// The letter in one message, if it fits: `Jetsink-Original-Headers` holds the original's header block in base64.
pub(super) fn whole(
    letter: &Letter<'_>,
    facts: &Facts,
    settings: &RecordSettings,
    plan: Plan,
    budget: SizeBudget,
) -> Option<Part> {
    let body = carried_body(letter, plan);
    if body.len() > budget.max_payload {
        return None;
    }
    let mut headers = common_headers(letter, PartNumber::Whole);
    headers.extend(fact_headers(letter, facts, settings, plan));
    let block = carried_block(letter, settings, plan);
    if !block.is_empty() {
        headers.push(("Jetsink-Original-Headers".to_owned(), STANDARD.encode(&block)));
    }
    fitting(headers, body, budget)
}

/// The letter in two messages, if they fit. Their bodies, joined, are the original's header block (as many bytes as
/// `Jetsink-Original-Headers-Bytes` says) and then the original's body.
///
/// The split is at half of the data and depends on nothing else: a repeat after a crash between the two must cut at the
/// same place, or the stream would keep two halves that do not belong together.
pub(super) fn halves(
    letter: &Letter<'_>,
    facts: &Facts,
    settings: &RecordSettings,
    plan: Plan,
    budget: SizeBudget,
) -> Option<[Part; 2]> {
    let block = carried_block(letter, settings, plan);
    let body = carried_body(letter, plan);
    let size = block.len().saturating_add(body.len());
    if size < 2 || size.div_ceil(2) > budget.max_payload {
        return None;
    }
    let data = if block.is_empty() {
        body
    } else {
        let mut joined = BytesMut::with_capacity(size);
        joined.put(block.as_slice());
        joined.put(body);
        joined.freeze()
    };
    let split = size.div_ceil(2);
    let part = |number, ordinal: &str, offset: usize| {
        let mut headers = common_headers(letter, number);
        headers.extend(
            [
                ("Jetsink-Part", ordinal.to_owned()),
                ("Jetsink-Part-Offset", offset.to_string()),
                ("Jetsink-Data-Bytes", size.to_string()),
                ("Jetsink-Original-Headers-Bytes", block.len().to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        headers
    };
    let mut first = part(PartNumber::First(size), "1/2", 0);
    first.extend(fact_headers(letter, facts, settings, plan));
    let second = part(PartNumber::Second(size), "2/2", split);
    Some([fitting(first, data.slice(..split), budget)?, fitting(second, data.slice(split..), budget)?])
}

fn carried_body(letter: &Letter<'_>, plan: Plan) -> Bytes {
    match plan.body {
        Carried::Whole => letter.envelope.payload.clone(),
        Carried::Unwanted | Carried::Omitted | Carried::LeftOut | Carried::Lost => Bytes::new(),
    }
}

fn carried_block(letter: &Letter<'_>, settings: &RecordSettings, plan: Plan) -> Vec<u8> {
    let headers = &letter.envelope.headers;
    let redaction = &settings.redact_headers;
    match (plan.headers, headers.raw_block()) {
        (Carried::Whole, Some(block)) => redaction.of_block(block).0,
        (Carried::Whole, None) if !headers.is_empty() => wire_block(headers, redaction),
        (Carried::Whole | Carried::Unwanted | Carried::Omitted | Carried::LeftOut | Carried::Lost, _) => {
            Vec::new()
        }
    }
}

/// The headers as a server sends them: `NATS/1.0\r\n`, each `Name: value\r\n`, `\r\n`.
fn wire_block(headers: &Headers, redaction: &Redaction) -> Vec<u8> {
    let mut block = Vec::with_capacity(headers.total_bytes() + headers.len() * 4 + 12);
    block.extend_from_slice(b"NATS/1.0\r\n");
    for (name, value) in headers.iter() {
        push_without_line_breaks(&mut block, name.as_bytes());
        block.extend_from_slice(b": ");
        push_without_line_breaks(&mut block, &redaction.value(name, value));
        block.extend_from_slice(b"\r\n");
    }
    block.extend_from_slice(b"\r\n");
    block
}

/// A block that came over the wire has no line break within a line; one from elsewhere must not forge lines.
fn push_without_line_breaks(block: &mut Vec<u8>, bytes: &[u8]) {
    block.extend(bytes.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
}

/// The facts of formats §6 beyond the common headers; a fact that is null has no header.
fn fact_headers(
    letter: &Letter<'_>,
    facts: &Facts,
    settings: &RecordSettings,
    plan: Plan,
) -> impl Iterator<Item = (String, String)> {
    let envelope = letter.envelope;
    let metadata = &letter.envelope.metadata;
    let object = |text: Option<&str>| {
        text.filter(|text| plan.objects && is_header_value(text, text::MAX_OBJECT)).map(str::to_owned)
    };
    let name = |value: Option<&str>| value.map(|value| text::header_value(value, text::MAX_NAME));
    let (original_size, malformed) = match envelope.body {
        Body::Present => (u64::try_from(envelope.payload.len()).ok(), false),
        Body::Omitted { original_size, malformed } => (original_size, malformed),
        Body::Lost => (None, false),
    };
    let omitted = matches!(envelope.body, Body::Omitted { .. });
    let redacted = plan.redacted(letter, settings);
    let is_unread = plan.headers == Carried::Whole && envelope.headers.raw_block().is_some();
    let mqtt = envelope.mqtt();
    let subject_changed = text::header_value(&envelope.subject, text::MAX_SUBJECT) != envelope.subject;
    [
        ("Jetsink-Schema", Some(SCHEMA.to_owned())),
        ("Jetsink-Subject-Base64", subject_changed.then(|| STANDARD.encode(&envelope.subject))),
        (
            "Jetsink-Consumer-Sequence",
            (envelope.consumer_sequence > 0).then(|| envelope.consumer_sequence.to_string()),
        ),
        ("Jetsink-Pending", Some(envelope.pending.to_string())),
        ("Jetsink-Redelivered", Some((envelope.delivery_count > 1).to_string())),
        ("Jetsink-Timestamp", facts.stored_at.clone()),
        ("Jetsink-Failed-At", Some(facts.failed_at.clone())),
        ("Jetsink-Error", settings.include_error.then(|| facts.error.trim().to_owned())),
        ("Jetsink-Sink", name(letter.sink)),
        ("Jetsink-Message-Id", name(envelope.message_id())),
        ("Jetsink-Idempotency-Key", name(Some(&envelope.idempotency_key()))),
        ("Jetsink-Mqtt-Qos", mqtt.map(|mqtt| mqtt.qos.number().to_string())),
        (
            "Jetsink-Mqtt-Topic",
            mqtt.and_then(|mqtt| mqtt.topic()).filter(|topic| is_header_value(topic, text::MAX_SUBJECT)),
        ),
        ("Jetsink-Priority", name(metadata.priority.as_deref())),
        ("Jetsink-Classification", name(metadata.classification.as_deref())),
        (
            "Jetsink-Labels",
            (!metadata.labels.is_empty())
                .then(|| text::header_value(&metadata.labels.join(";"), text::MAX_LABELS)),
        ),
        ("Jetsink-Mission-Metadata", object(metadata.mission_metadata.as_deref())),
        ("Jetsink-Security-Labels", object(metadata.security_labels.as_deref())),
        ("Jetsink-Payload-Sha256", facts.sha256.clone()),
        ("Jetsink-Payload-Original-Bytes", original_size.map(|size| size.to_string())),
        ("Jetsink-Payload-Delivered-Bytes", Some(envelope.payload.len().to_string())),
        ("Jetsink-Payload-Omitted-Reason", omitted.then(|| "headers_only".to_owned())),
        ("Jetsink-Payload-Size-Header", omitted.then(|| name(stated_size(envelope))).flatten()),
        ("Jetsink-Payload-Size-Header-Malformed", malformed.then(|| "true".to_owned())),
        ("Jetsink-Payload-Unavailable-Reason", plan.body.unavailable().map(str::to_owned)),
        (
            "Jetsink-Headers-Redacted",
            (!redacted.is_empty()).then(|| text::header_value(&redacted.join(", "), text::MAX_REDACTED)),
        ),
        ("Jetsink-Headers-Unread", is_unread.then(|| "true".to_owned())),
        ("Jetsink-Headers-Unavailable-Reason", plan.headers.unavailable().map(str::to_owned)),
    ]
    .into_iter()
    .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)))
}

/// Whether a header holds the text exactly. A topic or an object that it does not hold is left out: cut it would mislead.
fn is_header_value(text: &str, limit: usize) -> bool {
    text::header_value(text, limit) == text
}
