//! The letter as one JSON object: compact, keys sorted, the body in base64.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Carried, Facts, Letter, Part, PartNumber, Plan, RecordSettings, Redaction, SCHEMA, SizeBudget};
use super::{common_headers, fitting, text};
use crate::envelope::{Body, Envelope};

/// The letter in one message, if it fits.
pub(super) fn whole(
    letter: &Letter<'_>,
    facts: &Facts,
    settings: &RecordSettings,
    plan: Plan,
    budget: SizeBudget,
) -> Option<Part> {
    let payload = &letter.envelope.payload;
    let encoded = if plan.body == Carried::Whole { base64::encoded_len(payload.len(), true)? } else { 0 };
    if encoded > budget.max_payload {
        return None;
    }
    let around = letter.envelope.headers.total_bytes().saturating_add(2048);
    let mut body = Vec::with_capacity(encoded.saturating_add(around));
    serde_json::to_writer(&mut body, &Head::of(letter, facts, settings, plan)).ok()?;
    // The body is spliced between the two halves of the record: 1 MiB through a serializer is slow.
    body.pop();
    if plan.body == Carried::Whole {
        body.extend_from_slice(b",\"payload_base64\":\"");
        let start = body.len();
        body.resize(start.saturating_add(encoded), 0);
        STANDARD.encode_slice(payload, body.get_mut(start..)?).ok()?;
        body.push(b'"');
    }
    let seam = body.len();
    serde_json::to_writer(&mut body, &Tail::of(letter, facts, plan)).ok()?;
    *body.get_mut(seam)? = b',';
    fitting(common_headers(letter, PartNumber::Whole), Bytes::from(body), budget)
}

/// The fields before `payload_base64`, in their order.
#[derive(Serialize)]
struct Head<'a> {
    classification: Option<&'a str>,
    consumer: &'a str,
    consumer_sequence: Option<u64>,
    delivery_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'static str>,
    failed_at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<BTreeMap<&'a str, Values<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers_base64: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers_redacted: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers_unavailable_reason: Option<&'static str>,
    idempotency_key: String,
    idempotency_key_unavailable_reason: Option<&'static str>,
    labels: &'a [String],
    message_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mission_metadata: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mqtt: Option<MqttFacts>,
    payload: Payload<'a>,
}

/// The fields after `payload_base64`, in their order.
#[derive(Serialize)]
struct Tail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_unavailable_reason: Option<&'static str>,
    pending: u64,
    priority: Option<&'a str>,
    reason: &'static str,
    redelivered: bool,
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    security_labels: Option<&'a RawValue>,
    sink: Option<&'a str>,
    stage: &'static str,
    stream: &'a str,
    stream_sequence: u64,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<&'a str>,
}

/// What the server's MQTT gateway says.
#[derive(Serialize)]
struct MqttFacts {
    qos: u8,
    /// Null when the subject is not the subject of any topic, and when it is so long that a letter has no room for both.
    topic: Option<String>,
}

#[derive(Serialize)]
struct Payload<'a> {
    delivered_size_bytes: usize,
    nats_msg_size_header: Option<&'a str>,
    nats_msg_size_header_malformed: bool,
    omitted: bool,
    omitted_reason: Option<&'static str>,
    original_size_bytes: Option<u64>,
    present: bool,
    sha256: Option<&'a str>,
}

/// The values of one header name.
#[derive(Serialize)]
#[serde(untagged)]
enum Values<'a> {
    One(Value<'a>),
    Many(Vec<Value<'a>>),
}

/// A header value; one that is no UTF-8 text stands as `{"base64": …}`, so that nothing is lost.
struct Value<'a>(Cow<'a, Bytes>);

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => BTreeMap::from([("base64", STANDARD.encode(&*self.0))]).serialize(serializer),
        }
    }
}

impl<'a> Head<'a> {
    fn of(letter: &'a Letter<'_>, facts: &'a Facts, settings: &'a RecordSettings, plan: Plan) -> Self {
        let envelope = letter.envelope;
        let (carried, raw_block) = (plan.headers == Carried::Whole, envelope.headers.raw_block());
        Self {
            classification: letter.envelope.metadata.classification.as_deref(),
            consumer: &envelope.source.consumer,
            // A message that was read from the stream itself was not delivered, and deliveries count from 1.
            consumer_sequence: (envelope.consumer_sequence > 0).then_some(envelope.consumer_sequence),
            delivery_count: envelope.delivery_count,
            error: settings.include_error.then_some(facts.error.as_str()),
            error_type: settings.include_error.then_some(letter.rejection.error_type.as_str()),
            failed_at: &facts.failed_at,
            headers: (carried && raw_block.is_none()).then(|| headers(envelope, &settings.redact_headers)),
            headers_base64: raw_block
                .filter(|_| carried)
                .map(|block| STANDARD.encode(settings.redact_headers.of_block(block).0)),
            headers_redacted: plan.redacted(letter, settings),
            headers_unavailable_reason: plan.headers.unavailable(),
            idempotency_key: envelope.idempotency_key(),
            idempotency_key_unavailable_reason: None,
            labels: &letter.envelope.metadata.labels,
            message_id: envelope.message_id(),
            mission_metadata: object(envelope.metadata.mission_metadata.as_deref(), plan),
            mqtt: envelope.mqtt().map(|mqtt| MqttFacts {
                qos: mqtt.qos.number(),
                topic: mqtt.topic().filter(|topic| topic.len() <= text::MAX_SUBJECT),
            }),
            payload: Payload::of(envelope, facts),
        }
    }
}

impl<'a> Tail<'a> {
    fn of(letter: &'a Letter<'_>, facts: &'a Facts, plan: Plan) -> Self {
        let envelope = letter.envelope;
        Self {
            payload_unavailable_reason: plan.body.unavailable(),
            pending: envelope.pending,
            priority: letter.envelope.metadata.priority.as_deref(),
            reason: letter.rejection.reason.as_str(),
            redelivered: envelope.delivery_count > 1,
            schema: SCHEMA,
            security_labels: object(envelope.metadata.security_labels.as_deref(), plan),
            sink: letter.sink,
            stage: letter.rejection.stage.as_str(),
            stream: &envelope.source.stream,
            stream_sequence: envelope.stream_sequence,
            subject: &envelope.subject,
            timestamp: facts.stored_at.as_deref(),
        }
    }
}

impl<'a> Payload<'a> {
    fn of(envelope: &'a Envelope, facts: &'a Facts) -> Self {
        let delivered = envelope.payload.len();
        let (omitted, original_size_bytes, malformed) = match envelope.body {
            Body::Present => (false, u64::try_from(delivered).ok(), false),
            Body::Omitted { original_size, malformed } => (true, original_size, malformed),
            Body::Lost => (false, None, false),
        };
        Self {
            delivered_size_bytes: delivered,
            nats_msg_size_header: omitted.then(|| stated_size(envelope)).flatten(),
            nats_msg_size_header_malformed: malformed,
            omitted,
            omitted_reason: omitted.then_some("headers_only"),
            original_size_bytes,
            present: envelope.body == Body::Present,
            sha256: facts.sha256.as_deref(),
        }
    }
}

/// An object of the metadata, spelled as it is there: the canonical spelling is what signatures cover.
fn object(text: Option<&str>, plan: Plan) -> Option<&RawValue> {
    text.filter(|_| plan.objects).and_then(|text| serde_json::from_str(text).ok())
}

/// What the server said about the size of a body that it left out.
pub(super) fn stated_size(envelope: &Envelope) -> Option<&str> {
    envelope.headers.get("Nats-Msg-Size").and_then(|value| std::str::from_utf8(value).ok())
}

fn headers<'a>(envelope: &'a Envelope, redaction: &Redaction) -> BTreeMap<&'a str, Values<'a>> {
    let mut lists = BTreeMap::<&str, Vec<Value<'_>>>::new();
    for (name, value) in envelope.headers.iter() {
        lists.entry(name).or_default().push(Value(redaction.value(name, value)));
    }
    lists
        .into_iter()
        .map(|(name, mut values)| match (values.pop(), values.is_empty()) {
            (Some(only), true) => (name, Values::One(only)),
            (last, _) => {
                values.extend(last);
                (name, Values::Many(values))
            }
        })
        .collect()
}
