//! The second check: the size policy (formats §3). A value above its limit is a violation; the first one in the order of
//! the table wins.
//!
//! What the two limits on the record count, without writing the record:
//! - *standard metadata*: 512 bytes for names, numbers and times; the subject, the stream three times and the consumer; the
//!   headers as a JSON object with six bytes more for each line; the message id a second time; the metadata, whose values
//!   are fields as well, with 24 bytes more for each text of it; of a message that came through the MQTT gateway 32 bytes
//!   and the subject again, which its topic is never longer than;
//! - *normalized record*: standard metadata plus the payload as `payload_mode = "json_or_envelope"` writes it.
//!
//! Both are counted exactly only when six bytes for every byte, the worst that JSON can do, would break the limit.

use super::authenticity::Authentic;
use super::json_size::{
    PAYLOAD_ENVELOPE, WORST_CASE, compact_bytes, object_bytes, payload_bytes, string_bytes,
};
use super::metadata::MetadataHeaders;
use super::settings::SizeLimits;
use crate::delivery::Rejection;
use crate::envelope::{Body, Envelope, Headers, Metadata};
use crate::reason::{ErrorType, ReasonCode, Stage};

/// Names of fields, numbers, times and punctuation of a record.
const FIXED: usize = 512;
/// Name and punctuation around one field of metadata, and more than that around a label.
const AROUND_FIELD: usize = 24;
/// Quotes, colon, comma and brackets around one header line.
const AROUND_HEADER: usize = 6;
/// Names, punctuation and quality of service of `"mqtt":{"qos":1,"topic":…}`.
const AROUND_TOPIC: usize = 32;

/// An envelope that passed the second check. Only [`check`] makes one.
#[derive(Debug)]
pub(super) struct Bounded<'a> {
    authentic: Authentic<'a>,
}

impl<'a> Bounded<'a> {
    pub(super) const fn authentic(&self) -> &Authentic<'a> {
        &self.authentic
    }
}

pub(super) fn check<'a>(
    authentic: Authentic<'a>,
    limits: &SizeLimits,
    names: &MetadataHeaders,
) -> Result<Bounded<'a>, Box<Rejection>> {
    let envelope = authentic.envelope();
    within(
        envelope.payload.len(),
        limits.max_payload_bytes,
        "the payload has {} bytes",
        ReasonCode::PayloadTooLarge,
    )?;
    if !envelope.headers.is_empty() {
        check_headers(&envelope.headers, limits)?;
    }
    let reading = authentic.reading();
    if reading.own_labels {
        check_labels(&reading.metadata.labels, limits)?;
    }
    check_mission_metadata(&envelope.headers, limits, names)?;
    if let Some(rejection) = &reading.malformed {
        return Err(rejection.clone());
    }
    check_record(envelope, &reading.metadata, limits)?;
    Ok(Bounded { authentic })
}

fn check_headers(headers: &Headers, limits: &SizeLimits) -> Result<(), Box<Rejection>> {
    let (mut name_bytes, mut value_bytes, mut total) = (0, 0, 0_usize);
    for (name, value) in headers.iter() {
        name_bytes = name.len().max(name_bytes);
        value_bytes = value.len().max(value_bytes);
        total = total.saturating_add(name.len()).saturating_add(value.len());
    }
    within(
        headers.len(),
        limits.max_header_count,
        "there are {} header lines",
        ReasonCode::HeaderCountTooLarge,
    )?;
    within(
        name_bytes,
        limits.max_header_name_bytes,
        "a header name has {} bytes",
        ReasonCode::HeaderNameTooLarge,
    )?;
    within(
        value_bytes,
        limits.max_header_value_bytes,
        "a header value has {} bytes",
        ReasonCode::HeaderValueTooLarge,
    )?;
    within(total, limits.max_headers_bytes, "the headers have {} bytes", ReasonCode::HeadersTooLarge)
}

/// Labels of a header; those of rules and defaults were looked at by whoever set them.
fn check_labels(labels: &[String], limits: &SizeLimits) -> Result<(), Box<Rejection>> {
    let longest = labels.iter().map(String::len).max().unwrap_or(0);
    let total = labels.iter().map(String::len).sum();
    within(labels.len(), limits.max_label_count, "there are {} labels", ReasonCode::LabelCountTooLarge)?;
    within(longest, limits.max_label_bytes, "a label has {} bytes", ReasonCode::LabelTooLarge)?;
    within(total, limits.max_labels_bytes, "the labels have {} bytes", ReasonCode::LabelsTooLarge)
}

fn check_mission_metadata(
    headers: &Headers,
    limits: &SizeLimits,
    names: &MetadataHeaders,
) -> Result<(), Box<Rejection>> {
    let Some(value) = headers.all_ignoring_case(&names.mission_metadata).next() else { return Ok(()) };
    within(
        compact_bytes(value),
        limits.max_mission_metadata_bytes,
        "mission metadata has {} bytes as compact JSON",
        ReasonCode::MissionMetadataTooLarge,
    )
}

fn check_record(envelope: &Envelope, fields: &Metadata, limits: &SizeLimits) -> Result<(), Box<Rejection>> {
    let metadata_at_most = metadata_bound(envelope, fields);
    let payload_at_most = envelope.payload.len().saturating_mul(WORST_CASE).saturating_add(PAYLOAD_ENVELOPE);
    let record_at_most = metadata_at_most.saturating_add(payload_at_most);
    if metadata_at_most <= limits.max_standard_metadata_bytes
        && record_at_most <= limits.max_normalized_record_bytes
    {
        return Ok(());
    }
    let metadata = metadata_bytes(envelope, fields);
    within(
        metadata,
        limits.max_standard_metadata_bytes,
        "the record without its payload has {} bytes",
        ReasonCode::StandardMetadataTooLarge,
    )?;
    let payload = match envelope.body {
        Body::Present => payload_bytes(&envelope.payload),
        Body::Omitted { .. } | Body::Lost => "null".len(),
    };
    within(
        metadata.saturating_add(payload),
        limits.max_normalized_record_bytes,
        "the record has {} bytes",
        ReasonCode::NormalizedRecordTooLarge,
    )
}

/// What [`metadata_bytes`] can be at the most.
fn metadata_bound(envelope: &Envelope, fields: &Metadata) -> usize {
    let source = &envelope.source;
    // The subject twice: once as the topic. What stands around that one needs less than the gateway's header may take.
    let texts = envelope.subject.len() * 2 + source.stream.len() * 3 + source.consumer.len() + 12;
    let headers = if envelope.headers.is_empty() {
        0
    } else {
        // Each line takes two strings (or base64, which needs less than the worst case and 13 bytes) and, as a message id,
        // counts twice.
        let lines = envelope.headers.len().saturating_mul(2 * (AROUND_HEADER + 32));
        envelope.headers.total_bytes().saturating_mul(2 * WORST_CASE).saturating_add(lines)
    };
    let own = fields_total(fields, str::len, str::len).saturating_mul(WORST_CASE);
    texts.saturating_mul(WORST_CASE).saturating_add(headers).saturating_add(own).saturating_add(FIXED)
}

fn metadata_bytes(envelope: &Envelope, fields: &Metadata) -> usize {
    let source = &envelope.source;
    let mut total = FIXED
        .saturating_add(string_bytes(envelope.subject.as_bytes()))
        .saturating_add(string_bytes(source.stream.as_bytes()).saturating_mul(3))
        .saturating_add(string_bytes(source.consumer.as_bytes()));
    if envelope.mqtt().is_some() {
        // A topic has no more characters than its subject, and none that JSON writes longer.
        total = total.saturating_add(string_bytes(envelope.subject.as_bytes())).saturating_add(AROUND_TOPIC);
    }
    for (name, value) in envelope.headers.iter() {
        let line = string_bytes(name.as_bytes()) + string_bytes(value) + AROUND_HEADER;
        let again = if is_message_id(name) { string_bytes(value) } else { 0 };
        total = total.saturating_add(line).saturating_add(again);
    }
    total.saturating_add(fields_total(fields, |text| string_bytes(text.as_bytes()), object_bytes))
}

/// The fields of the record that hold metadata: texts counted by `text`, JSON objects by `object`.
fn fields_total(fields: &Metadata, text: impl Fn(&str) -> usize, object: impl Fn(&str) -> usize) -> usize {
    let texts = [&fields.priority, &fields.classification].into_iter().flatten().chain(&fields.labels);
    let objects = [&fields.mission_metadata, &fields.security_labels].into_iter().flatten();
    let sizes = texts.map(|own| text(own)).chain(objects.map(|own| object(own)));
    sizes.fold(0, |total, size| total.saturating_add(size).saturating_add(AROUND_FIELD))
}

fn is_message_id(name: &str) -> bool {
    ["Nats-Msg-Id", "Nats-Message-Id", "message-id"].iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// A limit holds, or the rejection that names size and limit; `{}` in the text stands for the size.
fn within(size: usize, limit: usize, text: &str, reason: ReasonCode) -> Result<(), Box<Rejection>> {
    if size <= limit {
        return Ok(());
    }
    Err(Box::new(Rejection {
        stage: Stage::Size,
        reason,
        error_type: ErrorType::SizePolicyViolation,
        detail: format!("{}, the limit is {limit}", text.replace("{}", &size.to_string())),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, proptest};

    use super::super::authenticity::AuthenticityCheck;
    use super::super::metadata::{MetadataReader, MetadataSettings};
    use super::*;
    use crate::clock::Timestamp;
    use crate::envelope::{SharedMetadata, SourceNames};

    fn envelope(payload: &[u8], lines: &[(&str, &str)]) -> Envelope {
        let mut headers = Headers::new();
        for (name, value) in lines {
            headers.append(*name, value.as_bytes().to_vec());
        }
        Envelope {
            subject: "a".into(),
            headers,
            payload: payload.to_vec().into(),
            body: Body::Present,
            source: SourceNames::shared("S", "c"),
            stream_sequence: 1,
            consumer_sequence: 1,
            delivery_count: 1,
            stored_at: Timestamp(0),
            pending: 0,
            metadata: SharedMetadata::NONE,
        }
    }

    fn judged(envelope: &Envelope, limits: &SizeLimits) -> Option<Rejection> {
        let reader = MetadataReader::new(MetadataSettings::default());
        let reading = reader.read(envelope);
        let authentic = AuthenticityCheck::NotRequired.check(envelope, &reading).unwrap();
        check(authentic, limits, reader.headers()).err().map(|rejection| *rejection)
    }

    /// With `limit` as the limit the envelope passes, with one less it does not.
    fn assert_boundary(
        envelope: &Envelope,
        reason: ReasonCode,
        limit: usize,
        set: fn(&mut SizeLimits, usize),
    ) {
        let mut limits = SizeLimits::default();
        set(&mut limits, limit);
        assert_eq!(judged(envelope, &limits), None, "{reason}");
        set(&mut limits, limit - 1);
        let rejection = judged(envelope, &limits).unwrap();
        assert_eq!(rejection.reason, reason);
        assert_eq!(rejection.stage, Stage::Size);
        assert_eq!(rejection.error_type, ErrorType::SizePolicyViolation);
        assert!(rejection.detail.contains(&format!(" {limit} ")), "{}", rejection.detail);
        assert!(rejection.detail.ends_with(&format!(" {}", limit - 1)), "{}", rejection.detail);
    }

    #[test]
    fn every_limit_is_a_boundary() {
        use ReasonCode as Code;
        let labels = ("nats-sinks-labels", " four ; a ;;four");
        let mission = ("Nats-Sinks-Mission-Metadata", "{ \"a\" : 1 }");
        let of = |lines: &[(&str, &str)]| envelope(b"12345", lines);
        assert_boundary(&of(&[]), Code::PayloadTooLarge, 5, |own, to| own.max_payload_bytes = to);
        let two = of(&[("Name", "value1"), ("N", "v")]);
        assert_boundary(&two, Code::HeaderCountTooLarge, 2, |own, to| own.max_header_count = to);
        assert_boundary(&two, Code::HeaderNameTooLarge, 4, |own, to| own.max_header_name_bytes = to);
        assert_boundary(&two, Code::HeaderValueTooLarge, 6, |own, to| own.max_header_value_bytes = to);
        assert_boundary(&two, Code::HeadersTooLarge, 12, |own, to| own.max_headers_bytes = to);
        assert_boundary(&of(&[labels]), Code::LabelCountTooLarge, 2, |own, to| own.max_label_count = to);
        assert_boundary(&of(&[labels]), Code::LabelTooLarge, 4, |own, to| own.max_label_bytes = to);
        assert_boundary(&of(&[labels]), Code::LabelsTooLarge, 5, |own, to| own.max_labels_bytes = to);
        assert_boundary(&of(&[mission]), Code::MissionMetadataTooLarge, 7, |own, to| {
            own.max_mission_metadata_bytes = to;
        });
        // "a", three times "S", "c" as strings: 15 bytes; `"Name"`, `"value1"`, `"N"`, `"v"`: 20 bytes; two lines.
        let metadata = FIXED + 15 + 20 + 12;
        assert_boundary(&two, Code::StandardMetadataTooLarge, metadata, |own, to| {
            own.max_standard_metadata_bytes = to;
        });
        assert_boundary(&two, Code::NormalizedRecordTooLarge, metadata + 5, |own, to| {
            own.max_normalized_record_bytes = to;
        });
    }

    #[test]
    fn the_first_violation_in_the_order_of_the_table_wins() {
        let none = SizeLimits {
            max_payload_bytes: 0,
            max_header_count: 0,
            max_header_name_bytes: 0,
            max_header_value_bytes: 0,
            max_headers_bytes: 0,
            max_label_count: 0,
            max_label_bytes: 0,
            max_labels_bytes: 0,
            max_mission_metadata_bytes: 0,
            max_standard_metadata_bytes: 0,
            max_normalized_record_bytes: 0,
            max_batch_messages: 0,
        };
        let lifts: [fn(&mut SizeLimits); 11] = [
            |own| own.max_payload_bytes = 99,
            |own| own.max_header_count = 99,
            |own| own.max_header_name_bytes = 99,
            |own| own.max_header_value_bytes = 99,
            |own| own.max_headers_bytes = 99,
            |own| own.max_label_count = 99,
            |own| own.max_label_bytes = 99,
            |own| own.max_labels_bytes = 99,
            |own| own.max_mission_metadata_bytes = 99,
            |own| own.max_standard_metadata_bytes = 999,
            |own| own.max_normalized_record_bytes = 999,
        ];
        let order = ReasonCode::ALL.iter().filter(|reason| reason.as_str().ends_with("_too_large"));
        let lines = [("Nats-Sinks-Labels", "a"), ("Nats-Sinks-Mission-Metadata", "{}")];
        let envelope = envelope(b"12345", &lines);
        let mut limits = none;
        for (lift, reason) in lifts.into_iter().zip(order) {
            assert_eq!(judged(&envelope, &limits).map(|rejection| rejection.reason), Some(*reason));
            lift(&mut limits);
        }
        assert_eq!(judged(&envelope, &limits), None);
    }

    #[test]
    fn a_malformed_header_has_its_place_among_the_limits() {
        let lines = [("Nats-Sinks-Labels", "a;b"), ("Nats-Sinks-Mission-Metadata", "not json")];
        let envelope = envelope(b"", &lines);
        let mut limits = SizeLimits {
            max_labels_bytes: 1,
            max_mission_metadata_bytes: 1,
            max_standard_metadata_bytes: 1,
            ..SizeLimits::default()
        };
        let reason = |limits: &SizeLimits| judged(&envelope, limits).map(|rejection| rejection.reason);
        assert_eq!(reason(&limits), Some(ReasonCode::LabelsTooLarge));
        limits.max_labels_bytes = 99;
        assert_eq!(reason(&limits), Some(ReasonCode::MissionMetadataTooLarge));
        limits.max_mission_metadata_bytes = 99;
        let rejection = judged(&envelope, &limits).unwrap();
        assert_eq!(rejection.reason, ReasonCode::MissionMetadataInvalid);
        assert_eq!((rejection.stage, rejection.error_type), (Stage::Size, ErrorType::Validation));
    }

    #[test]
    fn a_large_json_payload_is_not_counted_as_if_it_grew() {
        let mut payload = vec![b' '; 16 << 20];
        payload[0] = b'1';
        assert_eq!(judged(&envelope(&payload, &[]), &SizeLimits::default()), None);
        let binary = vec![0xff_u8; 16 << 20];
        let rejection = judged(&envelope(&binary, &[]), &SizeLimits::default()).unwrap();
        assert_eq!(rejection.reason, ReasonCode::NormalizedRecordTooLarge);
    }

    #[test]
    fn no_value_is_told() {
        let limits = SizeLimits { max_header_value_bytes: 3, ..SizeLimits::default() };
        let rejection = judged(&envelope(b"", &[("X-Token", "CANARY")]), &limits).unwrap();
        assert!(!rejection.detail.contains("CANARY") && !rejection.detail.contains("X-Token"));
    }

    proptest! {
        /// What the quick look lets pass, the exact count lets pass too.
        #[test]
        fn the_quick_bound_is_never_below_the_exact_count(
            subject in ".{0,40}",
            gateway in any::<bool>(),
            lines in prop::collection::vec((0_usize..5, ".{0,20}", any::<Vec<u8>>()), 0..8),
            payload in any::<Vec<u8>>(),
            document in prop::option::of(".{0,20}"),
        ) {
            let names = MetadataHeaders::default();
            let known = [&names.priority, &names.labels, &names.mission_metadata].map(String::as_str);
            let mut envelope = envelope(&payload, &[]);
            envelope.subject = subject;
            if gateway {
                envelope.headers.append("Nmqtt-Pub", "2");
            }
            for (choice, name, value) in lines {
                let name = known.get(choice).map_or(name, |known| (*known).to_owned());
                envelope.headers.append(name, value);
            }
            let reading = MetadataReader::new(MetadataSettings::default()).read(&envelope);
            let fields = Metadata { security_labels: document, ..Metadata::clone(&reading.metadata) };
            prop_assert!(metadata_bytes(&envelope, &fields) <= metadata_bound(&envelope, &fields));
            prop_assert!(payload_bytes(&payload) <= payload.len() * WORST_CASE + PAYLOAD_ENVELOPE);
        }
    }
}
