//! One message as one line of JSON.
//!
//! Names and forms follow the dead-letter record (formats §6), so that a reader of one reads the other. The encoder is
//! written by hand: it appends to a buffer of the whole batch, allocates nothing per record and copies a payload once.

use std::collections::HashMap;

use bytes::Bytes;

use super::payload::{PayloadMode, PayloadWriter, Record, write_base64};
use super::time_text::TimeText;
use crate::disposition::Refusal;
use crate::envelope::{Body, Envelope, Headers, Metadata};
use crate::json;

/// With more header lines than this, lines of one name are gathered by a map instead of by looking again and again.
const FEW_HEADERS: usize = 32;

/// Encodes records, one line each.
#[derive(Debug)]
pub(crate) struct RecordEncoder {
    record: Record,
    payload: PayloadWriter,
    time: TimeText,
    text: String,
}

impl RecordEncoder {
    pub(crate) fn new(record: Record, mode: PayloadMode) -> Self {
        Self { record, payload: PayloadWriter::new(mode), time: TimeText::default(), text: String::new() }
    }

    /// Appends one line, its newline included.
    ///
    /// # Errors
    /// A refusal if the payload may not stand in a record; the buffer is as before.
    pub(crate) fn write_line(&mut self, envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let start = out.len();
        let written = match self.record {
            Record::Full => self.write_full(envelope, out),
            Record::Payload => self.write_payload(envelope, out),
        };
        if written.is_err() {
            out.truncate(start);
        }
        written?;
        out.push(b'\n');
        Ok(())
    }

    /// Appends what a file of its own holds: a full record as a line, a payload as it came.
    ///
    /// # Errors
    /// As [`RecordEncoder::write_line`].
    pub(crate) fn write_alone(&mut self, envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), Refusal> {
        match self.record {
            Record::Full => self.write_line(envelope, out),
            Record::Payload => self.payload.write_alone(envelope, out),
        }
    }

    fn write_payload(&mut self, envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if envelope.body == Body::Present {
            return self.payload.write(envelope, out);
        }
        out.extend_from_slice(b"{\"_nats_sinks\":");
        write_omitted(envelope, out);
        out.extend_from_slice(b",\"payload\":null}");
        Ok(())
    }

    fn write_full(&mut self, envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), Refusal> {
        out.extend_from_slice(b"{\"subject\":");
        json::write_string(&envelope.subject, out);
        out.extend_from_slice(b",\"stream\":");
        json::write_string(&envelope.source.stream, out);
        out.extend_from_slice(b",\"stream_sequence\":");
        json::write_number(envelope.stream_sequence, out);
        out.extend_from_slice(b",\"timestamp\":\"");
        self.time.write_rfc3339(envelope.stored_at, out);
        out.extend_from_slice(b"\",\"message_id\":");
        match envelope.message_id() {
            Some(id) => json::write_string(id, out),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"idempotency_key\":");
        self.write_idempotency_key(envelope, out);
        out.extend_from_slice(b",\"headers\":");
        self.write_headers(&envelope.headers, out);
        write_metadata(&envelope.metadata, out);
        self.write_mqtt(envelope, out);
        if envelope.body != Body::Present {
            out.extend_from_slice(b",\"payload_omitted\":");
            write_omitted(envelope, out);
        }
        out.extend_from_slice(b",\"payload\":");
        self.payload.write(envelope, out)?;
        out.push(b'}');
        Ok(())
    }

    /// The first form of formats §5, which always applies to a delivery.
    fn write_idempotency_key(&mut self, envelope: &Envelope, out: &mut Vec<u8>) {
        self.text.clear();
        self.text.push_str("stream-sequence:");
        self.text.push_str(&envelope.source.stream);
        json::write_string(&self.text, out);
        // The closing quote moves behind the sequence.
        out.pop();
        out.push(b':');
        json::write_number(envelope.stream_sequence, out);
        out.push(b'"');
    }

    /// Only for what came through the server's MQTT gateway.
    fn write_mqtt(&mut self, envelope: &Envelope, out: &mut Vec<u8>) {
        let Some(mqtt) = envelope.mqtt() else { return };
        out.extend_from_slice(b",\"mqtt\":{\"qos\":");
        json::write_number(mqtt.qos.number().into(), out);
        out.extend_from_slice(b",\"topic\":");
        if mqtt.topic_into(&mut self.text) {
            json::write_string(&self.text, out);
        } else {
            out.extend_from_slice(b"null");
        }
        out.push(b'}');
    }

    fn write_headers(&mut self, headers: &Headers, out: &mut Vec<u8>) {
        out.push(b'{');
        if headers.len() <= FEW_HEADERS {
            let mut first = true;
            for (index, (name, value)) in headers.iter().enumerate() {
                if headers.iter().take(index).any(|(earlier, _)| earlier == name) {
                    continue;
                }
                let more =
                    headers.iter().skip(index + 1).filter(|(own, _)| *own == name).map(|(_, value)| value);
                self.write_header(&mut first, name, value, more, out);
            }
        } else {
            let mut by_name: HashMap<&str, Vec<&Bytes>> = HashMap::new();
            let mut order = Vec::new();
            for (name, value) in headers.iter() {
                let values = by_name.entry(name).or_default();
                if values.is_empty() {
                    order.push(name);
                }
                values.push(value);
            }
            let mut first = true;
            for name in order {
                if let Some((value, more)) = by_name.get(name).and_then(|values| values.split_first()) {
                    self.write_header(&mut first, name, value, more.iter().copied(), out);
                }
            }
        }
        out.push(b'}');
    }

    fn write_header<'a>(
        &mut self,
        first: &mut bool,
        name: &str,
        value: &Bytes,
        more: impl Iterator<Item = &'a Bytes>,
        out: &mut Vec<u8>,
    ) {
        if !std::mem::take(first) {
            out.push(b',');
        }
        json::write_string(name, out);
        out.push(b':');
        let mut more = more.peekable();
        let several = more.peek().is_some();
        if several {
            out.push(b'[');
        }
        self.write_value(value, out);
        for value in more {
            out.push(b',');
            self.write_value(value, out);
        }
        if several {
            out.push(b']');
        }
    }

    /// A header value is text; bytes that are no UTF-8 are marked as what they are.
    fn write_value(&mut self, value: &[u8], out: &mut Vec<u8>) {
        if let Ok(text) = std::str::from_utf8(value) {
            json::write_string(text, out);
        } else {
            out.extend_from_slice(b"{\"base64\":\"");
            write_base64(value, &mut self.text, out);
            out.extend_from_slice(b"\"}");
        }
    }
}

/// What there is of metadata; most messages have none, and lines stay short.
fn write_metadata(metadata: &Metadata, out: &mut Vec<u8>) {
    if let Some(priority) = &metadata.priority {
        out.extend_from_slice(b",\"priority\":");
        json::write_string(priority, out);
    }
    if let Some(classification) = &metadata.classification {
        out.extend_from_slice(b",\"classification\":");
        json::write_string(classification, out);
    }
    if let Some((first, more)) = metadata.labels.split_first() {
        out.extend_from_slice(b",\"labels\":[");
        json::write_string(first, out);
        for label in more {
            out.push(b',');
            json::write_string(label, out);
        }
        out.push(b']');
    }
    if let Some(object) = &metadata.mission_metadata {
        out.extend_from_slice(b",\"mission_metadata\":");
        json::write_on_one_line(object, out);
    }
    if let Some(object) = &metadata.security_labels {
        out.extend_from_slice(b",\"security_labels\":");
        json::write_on_one_line(object, out);
    }
}

fn write_omitted(envelope: &Envelope, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"omitted_reason\":\"headers_only\",\"original_size_bytes\":");
    match envelope.body {
        Body::Omitted { original_size: Some(size), .. } => json::write_number(size, out),
        Body::Omitted { original_size: None, .. } | Body::Present | Body::Lost => {
            out.extend_from_slice(b"null")
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert, proptest};
    use serde_json::{Value, json};

    use super::*;
    use crate::checks::metadata::{MetadataSettings, SecurityLabelSettings};
    use crate::checks::{Gate, GateSettings, SizeLimits};
    use crate::delivery::{Gate as _, Verdict};
    use crate::reason::ReasonCode;
    use crate::testing::builders::envelope;

    fn line(envelope: &Envelope) -> Vec<u8> {
        let mut out = Vec::new();
        RecordEncoder::new(Record::Full, PayloadMode::JsonOrEnvelope).write_line(envelope, &mut out).unwrap();
        out
    }

    fn record(envelope: &Envelope) -> Value {
        serde_json::from_slice(&line(envelope)).unwrap()
    }

    #[test]
    fn what_came_through_the_mqtt_gateway_says_so() {
        let message = |subject: &str| envelope(7).subject(subject).header("Nmqtt-Pub", "1").build();
        let text = String::from_utf8(line(&message("sens.a.b"))).unwrap();
        assert!(
            text.contains(r#""headers":{"Nmqtt-Pub":"1"},"mqtt":{"qos":1,"topic":"sens/a/b"},"payload":"#),
            "{text}"
        );
        assert_eq!(record(&message("a./.b//c"))["mqtt"], json!({ "qos": 1, "topic": "a//b.c" }));
        assert_eq!(record(&message("nats.a/b"))["mqtt"], json!({ "qos": 1, "topic": null }));
        assert!(record(&envelope(7).build()).get("mqtt").is_none());
        assert!(record(&envelope(7).header("Nmqtt-Pub", "9").build()).get("mqtt").is_none());
    }

    fn metadata_settings() -> MetadataSettings {
        let mut security = SecurityLabelSettings::default();
        security.default = security.profile_of("{\"owner\":\"o\u{2028}p\"}").unwrap();
        MetadataSettings { security_labels: Some(security), ..MetadataSettings::default() }
    }

    /// The message as it leaves the gate.
    fn judged(mut message: Envelope, metadata: MetadataSettings) -> Envelope {
        let gate = Gate::open(GateSettings { metadata, ..GateSettings::default() }).unwrap();
        message.metadata = gate.judge(&message).metadata;
        message
    }

    #[test]
    fn metadata_is_there_when_there_is_some() {
        let plain = record(&judged(envelope(7).build(), MetadataSettings::default()));
        let message = envelope(7)
            .header("Nats-Sinks-Priority", "high")
            .header("Nats-Sinks-Labels", "a;b")
            .header("Nats-Sinks-Mission-Metadata", "{ \"b\": \"\\u2028\", \"a\": 1e7 }");
        let text = line(&judged(message.build(), metadata_settings()));
        let text = std::str::from_utf8(&text).unwrap();
        let fields = concat!(
            r#","priority":"high","labels":["a","b"],"mission_metadata":{"a":10000000.0,"b":"\u2028"},"#,
            r#""security_labels":{"classification":null,"handling_caveats":[],"labels":["a","b"],"#,
            r#""originator":null,"owner":"o\u2028p","policy_id":null,"priority":"high","#,
            r#""profile":"nats-sinks.security-label.v1","releasability":[],"retention_category":null},"payload":"#,
        );
        assert!(text.contains(fields), "{text}");
        for field in ["priority", "classification", "labels", "mission_metadata", "security_labels"] {
            assert!(plain.get(field).is_none(), "{field}");
        }
    }

    /// Metadata headers with what takes more room in a record than in the header.
    fn metadata_headers() -> impl Strategy<Value = Vec<(&'static str, String)>> {
        let text = "[a;\u{1}\u{85}\u{2028}\\\\\"]{0,60}";
        let object = "\\{\"[a\u{85}\u{2028}]{0,60}\":([1-9]e1[0-5]|\"[\u{85}\u{2029}]{0,40}\")\\}";
        let header = proptest::prop_oneof![
            text.prop_map(|value| ("Nats-Sinks-Priority", value)),
            text.prop_map(|value| ("Nats-Sinks-Classification", value)),
            "[a-z;]{0,90}".prop_map(|value| ("Nats-Sinks-Labels", value)),
            object.prop_map(|value| ("Nats-Sinks-Mission-Metadata", value)),
            object.prop_map(|value| ("Nats-Sinks-Security-Labels", format!("{{\"extensions\":{value}}}"))),
        ];
        prop::collection::vec(header, 0..6)
    }

    proptest! {
        /// The size policy counts a record without writing it (formats §3): never less than what is written.
        #[test]
        fn the_size_policy_counts_at_least_what_is_written(
            subject in prop::collection::vec("[a-zé\"\\\\>\u{85}\u{2028}]{1,200}|/|a//b|[\u{1}-\u{1f}]{1,9}", 1..7),
            lines in prop::collection::vec((".{1,12}", any::<Vec<u8>>()), 0..5),
            gateway in proptest::prop_oneof![Just(None), "[0-2]".prop_map(Some)],
            metadata in metadata_headers(),
        ) {
            let mut message = envelope(u64::MAX).subject(subject.join(".")).payload("1");
            for (name, value) in lines {
                message = message.header(name, value);
            }
            if let Some(qos) = gateway {
                message = message.header("Nmqtt-Pub", qos);
            }
            for (name, value) in metadata {
                message = message.header(name, value);
            }
            let message = judged(message.build(), metadata_settings());
            // Without the payload and the line's end.
            let written = line(&message).len() - 2;
            let size = SizeLimits { max_standard_metadata_bytes: written - 1, ..SizeLimits::default() };
            let metadata = metadata_settings();
            let gate = Gate::open(GateSettings { size, metadata, ..GateSettings::default() }).unwrap();
            let Verdict::Rejected(rejection) = gate.judge(&message).verdict else {
                return Err(proptest::test_runner::TestCaseError::fail(format!("{written} bytes pass as fewer")));
            };
            prop_assert!(rejection.reason == ReasonCode::StandardMetadataTooLarge, "{rejection:?}");
        }
    }
}
