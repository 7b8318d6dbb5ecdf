//! What a stored dead letter tells at a glance, in any of its forms, without decoding the body it carries.
//!
//! Letters of the ancestor are read as well: the same JSON object without `schema`, `reason` and `stage`.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::parse::json_headers;
use super::{ParseError, Part, SCHEMA, parse};
use crate::clock::Timestamp;
use crate::envelope::Headers;

/// The form of a stored dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON object.
    Json,
    /// The original's body with the facts as headers.
    Original,
    /// The first of two parts; all facts are on it.
    FirstPart,
    /// The second of two parts; it has the common headers only.
    SecondPart,
    /// A letter of the ancestor.
    Ancestor,
}

/// What a dead letter tells. What it does not tell is `None`.
#[derive(Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its form.
    pub form: Form,
    /// The subject of the original.
    pub subject: String,
    /// The stream that stored the original.
    pub stream: Option<String>,
    /// Its sequence there.
    pub stream_sequence: Option<u64>,
    /// The durable that delivered it.
    pub consumer: Option<String>,
    /// The reason code.
    pub reason: Option<String>,
    /// Where it was rejected.
    pub stage: Option<String>,
    /// The class of the failure.
    pub error_type: Option<String>,
    /// What was wrong, in words.
    pub error: Option<String>,
    /// When it was rejected.
    pub failed_at: Option<Timestamp>,
    /// When the source stream stored the original.
    pub stored_at: Option<Timestamp>,
    /// The id that the original's publisher gave it.
    pub message_id: Option<String>,
    /// The idempotency key.
    pub idempotency_key: Option<String>,
    /// The sink that refused it.
    pub sink: Option<String>,
    /// How often the server had delivered it.
    pub delivery_count: Option<u64>,
    /// Bytes of the original's body.
    pub body_bytes: Option<u64>,
    /// Why the body does not travel along.
    pub body_unavailable: Option<String>,
    /// What joins two parts: both have the same.
    pub data_bytes: Option<u64>,
    /// The original's headers travel as bytes that no client reads; none can be said again.
    pub headers_unread: bool,
}

/// Reads the summary of a stored message; `None` when it is no dead letter.
#[must_use]
pub fn summarise(headers: &Headers, body: &[u8]) -> Option<Summary> {
    match text(headers, "Jetsink-Part").as_deref() {
        Some("1/2") => Some(Summary { form: Form::FirstPart, ..of_headers(headers)? }),
        Some("2/2") => Some(Summary { form: Form::SecondPart, ..of_headers(headers)? }),
        Some(_) => None,
        None if headers.get("Jetsink-Schema").is_some() => of_headers(headers),
        None => of_json(headers, body),
    }
}

/// The original's headers, as far as they travel along with this one message.
///
/// # Errors
/// It is no letter, or its headers are malformed.
pub fn original_headers(headers: &Headers, body: &[u8]) -> Result<Option<Headers>, ParseError> {
    let malformed = ParseError::Malformed("headers");
    match summarise(headers, body).map(|summary| summary.form) {
        Some(Form::Json | Form::Ancestor) => {
            let record: Record<'_> = serde_json::from_slice(body).map_err(|_| malformed)?;
            let value = record.headers.map(|raw| serde_json::from_str(raw.get())).transpose();
            value.map_err(|_| malformed)?.as_ref().map(json_headers).transpose()
        }
        Some(Form::Original) => Ok(parse(&[part(headers, body)])?.headers),
        // The block of the first part may run into the second one.
        Some(Form::FirstPart | Form::SecondPart) => Ok(None),
        None => Err(ParseError::Malformed("the record")),
    }
}

/// A stored message as a part of a letter, for [`parse`].
#[must_use]
pub fn part(headers: &Headers, body: &[u8]) -> Part {
    let lines =
        headers.iter().map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()));
    Part { headers: lines.collect(), body: bytes::Bytes::copy_from_slice(body) }
}

fn text<'a>(headers: &'a Headers, name: &str) -> Option<Cow<'a, str>> {
    headers.get(name).map(|value| String::from_utf8_lossy(value))
}

fn number(headers: &Headers, name: &str) -> Option<u64> {
    text(headers, name).and_then(|text| text.parse().ok())
}

fn time(text: &str) -> Option<Timestamp> {
    let at = text.parse::<jiff::Timestamp>().ok()?;
    i64::try_from(at.as_nanosecond()).ok().map(Timestamp)
}

fn of_headers(headers: &Headers) -> Option<Summary> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let own = |name: &str| text(headers, name).map(Cow::into_owned);
    let exact = text(headers, "Jetsink-Subject-Base64")
        .and_then(|text| STANDARD.decode(&*text).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok());
    Some(Summary {
        form: Form::Original,
        subject: exact.or_else(|| own("Nats-Sinks-Original-Subject"))?,
        stream: own("Jetsink-Stream"),
        stream_sequence: number(headers, "Jetsink-Stream-Sequence"),
        consumer: own("Jetsink-Consumer"),
        reason: own("Jetsink-Reason"),
        stage: own("Jetsink-Stage"),
        error_type: own("Nats-Sinks-Error-Type"),
        error: own("Jetsink-Error"),
        failed_at: text(headers, "Jetsink-Failed-At").and_then(|text| time(&text)),
        stored_at: text(headers, "Jetsink-Timestamp").and_then(|text| time(&text)),
        message_id: own("Jetsink-Message-Id"),
        idempotency_key: own("Jetsink-Idempotency-Key"),
        sink: own("Jetsink-Sink"),
        delivery_count: number(headers, "Jetsink-Delivery-Count"),
        body_bytes: number(headers, "Jetsink-Payload-Original-Bytes"),
        body_unavailable: own("Jetsink-Payload-Unavailable-Reason"),
        data_bytes: number(headers, "Jetsink-Data-Bytes"),
        headers_unread: headers.get("Jetsink-Headers-Unread").is_some(),
    })
}

/// The JSON object, texts borrowed; the ancestor's has fewer fields.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(default, borrow)]
    schema: Option<Cow<'a, str>>,
    #[serde(borrow)]
    subject: Cow<'a, str>,
    #[serde(default, borrow)]
    stream: Option<Cow<'a, str>>,
    #[serde(default)]
    stream_sequence: Option<u64>,
    #[serde(default, borrow)]
    consumer: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    stage: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    error_type: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    error: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    failed_at: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    message_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    idempotency_key: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    sink: Option<Cow<'a, str>>,
    #[serde(default)]
    delivery_count: Option<u64>,
    #[serde(default, borrow)]
    headers: Option<&'a RawValue>,
    #[serde(default)]
    headers_base64: Option<IgnoredAny>,
    payload: Payload,
    #[serde(default)]
    payload_base64: Option<IgnoredAny>,
    #[serde(default, borrow)]
    payload_unavailable_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    original_size_bytes: Option<u64>,
}

fn of_json(headers: &Headers, body: &[u8]) -> Option<Summary> {
    if !body.starts_with(b"{") {
        return None;
    }
    let record: Record<'_> = serde_json::from_slice(body).ok()?;
    let form = match record.schema.as_deref() {
        Some(SCHEMA) => Form::Json,
        Some(_) => return None,
        None => Form::Ancestor,
    };
    let own = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
    let unwanted = record.payload_base64.is_none().then(|| "not_included".to_owned());
    Some(Summary {
        form,
        subject: record.subject.into_owned(),
        stream: own(record.stream),
        stream_sequence: record.stream_sequence,
        consumer: own(record.consumer),
        reason: own(record.reason),
        stage: own(record.stage),
        error_type: own(record.error_type)
            .or_else(|| text(headers, "Nats-Sinks-Error-Type").map(Cow::into_owned)),
        error: own(record.error),
        failed_at: record.failed_at.and_then(|text| time(&text)),
        stored_at: record.timestamp.and_then(|text| time(&text)),
        message_id: own(record.message_id),
        idempotency_key: own(record.idempotency_key),
        sink: own(record.sink),
        delivery_count: record.delivery_count,
        body_bytes: record.payload.original_size_bytes,
        body_unavailable: own(record.payload_unavailable_reason).or(unwanted),
        data_bytes: None,
        headers_unread: record.headers_base64.is_some(),
    })
}

/// Shows where the message was, never what it says.
impl std::fmt::Debug for Summary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Summary")
            .field("form", &self.form)
            .field("stream", &self.stream)
            .field("stream_sequence", &self.stream_sequence)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in lines {
            headers.append(*name, (*value).to_owned());
        }
        headers
    }

    #[test]
    fn a_letter_of_the_ancestor_tells_what_it_has() {
        let body = br#"{"subject":"a\u00fc","stream":"S","stream_sequence":7,"error_type":"X","headers":{"A":"b"},
            "payload":{"original_size_bytes":2},"payload_base64":"aGk=","timestamp":"2026-11-30T22:36:27+00:00"}"#;
        let summary = summarise(&Headers::new(), body).unwrap();
        assert_eq!((summary.form, summary.subject.as_str()), (Form::Ancestor, "aü"));
        assert_eq!((summary.stream_sequence, summary.reason, summary.body_bytes), (Some(7), None, Some(2)));
        assert_eq!(summary.stored_at, Some(Timestamp(1_796_078_187_000_000_000)));
        let own = original_headers(&Headers::new(), body).unwrap().unwrap();
        assert_eq!(own, headers(&[("A", "b")]));
        let original = super::super::recover(&[part(&Headers::new(), body)]).unwrap();
        assert_eq!(original.body.as_deref(), Some(&b"hi"[..]));
    }

    #[test]
    fn what_is_no_letter_is_none() {
        let with_schema = |schema: &str| format!(r#"{{"schema":"{schema}","subject":"a","payload":{{}}}}"#);
        assert!(summarise(&Headers::new(), with_schema(SCHEMA).as_bytes()).is_some());
        let other = with_schema("jetsink.dead_letter.v2");
        for body in
            [&b""[..], b"{}", b"[1]", b"hi", br#"{"subject":"a"}"#, b"{\"subject\":", other.as_bytes()]
        {
            assert!(summarise(&Headers::new(), body).is_none());
        }
        let no_subject = headers(&[("Jetsink-Schema", SCHEMA)]);
        assert!(summarise(&no_subject, b"").is_none());
        let third = headers(&[("Jetsink-Part", "3/2"), ("Nats-Sinks-Original-Subject", "a")]);
        assert!(summarise(&third, b"").is_none());
    }

    #[test]
    fn headers_that_nobody_reads_are_marked() {
        let body =
            br#"{"schema":"jetsink.dead_letter.v1","subject":"a","payload":{},"headers_base64":"/w=="}"#;
        assert!(summarise(&Headers::new(), body).unwrap().headers_unread);
        let marked = [
            ("Jetsink-Schema", SCHEMA),
            ("Nats-Sinks-Original-Subject", "a"),
            ("Jetsink-Headers-Unread", "true"),
        ];
        assert!(summarise(&headers(&marked), b"").unwrap().headers_unread);
    }

    #[test]
    fn nothing_of_the_message_is_shown() {
        let body = br#"{"subject":"CANARY","error":"CANARY","message_id":"CANARY","payload":{}}"#;
        let summary = summarise(&Headers::new(), body).unwrap();
        assert!(!format!("{summary:?}").contains("CANARY"));
    }
}
