//! `[dead_letter]` → [`PublisherSettings`].

use std::time::Duration;

use super::{Validator, names};
use crate::config::raw::{self, DeadLetter};
use crate::dead_letter::{Format, RecordSettings};
use crate::nats::{ConsumerSettings, PublisherSettings};
use crate::subject::SubjectPattern;

const SUBJECT: &str = "dead_letter.subject";

pub(super) fn validate(
    raw: &DeadLetter,
    consumer: &ConsumerSettings,
    validator: &mut Validator<'_>,
) -> Option<PublisherSettings> {
    let Some(subject) = &raw.subject else {
        if validator.is_written("dead_letter") {
            validator.missing(SUBJECT, "write the subject of the dead letters, or remove the section");
        } else {
            validator.warn(
                "dead_letter: not configured; rejected messages stay on the stream, unacknowledged, and readiness says so",
            );
        }
        return None;
    };
    check_subject(subject, consumer, validator);
    check_stream(raw, consumer, validator);
    validator.at_least("dead_letter.timeout", raw.timeout.0, Duration::from_millis(100));
    Some(PublisherSettings {
        subject: subject.clone(),
        stream: raw.stream.clone(),
        timeout: raw.timeout.0,
        record: RecordSettings {
            format: match raw.format {
                raw::Format::Json => Format::Json,
                raw::Format::Original => Format::Original,
            },
            include_error: raw.include_error,
            include_headers: raw.include_headers,
            include_payload: raw.include_payload,
            allow_body_loss: raw.allow_body_loss,
        },
    })
}

fn check_subject(subject: &str, consumer: &ConsumerSettings, validator: &mut Validator<'_>) {
    match SubjectPattern::parse(subject) {
        Err(error) => validator.refuse(
            &[SUBJECT],
            format!("is not a subject: {error}"),
            "write tokens separated by dots, without white space",
        ),
        Ok(pattern) if !pattern.is_literal() => {
            validator.refuse(
                &[SUBJECT],
                "holds a wildcard",
                "write one subject: dead letters are published to it",
            );
        }
        Ok(_) if subject.starts_with('$') => {
            validator.refuse(
                &[SUBJECT],
                "begins with $, which the server keeps for itself",
                "choose another subject, \"dlq.orders\" for instance",
            );
        }
        Ok(_) => {
            let comes_back = consumer
                .filter_subjects
                .iter()
                .filter_map(|filter| SubjectPattern::parse(filter).ok())
                .any(|filter| filter.matches(subject));
            validator.require(
                !comes_back,
                &[SUBJECT, "consumer.filter_subjects"],
                "matches consumer.filter_subjects: dead letters would come back as messages",
                "choose a subject outside the source stream",
            );
        }
    }
}

fn check_stream(raw: &DeadLetter, consumer: &ConsumerSettings, validator: &mut Validator<'_>) {
    let Some(stream) = &raw.stream else { return };
    if let Some(fault) = names::fault_of(stream) {
        validator.refuse(&["dead_letter.stream"], fault, "write a name of letters, digits, - and _");
    }
    validator.require(
        !names::is_of_the_mqtt_gateway(stream),
        &["dead_letter.stream"],
        "belongs to the server's MQTT gateway, which writes and cleans it itself",
        "use a stream of its own for dead letters",
    );
    validator.require(
        *stream != consumer.stream || !consumer.filter_subjects.is_empty(),
        &["dead_letter.stream", "consumer.stream"],
        "is the source stream, and without filters dead letters would come back as messages",
        "use a stream of its own for dead letters, or set consumer.filter_subjects",
    );
}
