//! `[dead_letter]` → [`PublisherSettings`].

use std::time::Duration;

use super::{Validator, names};
use crate::config::raw::{self, DeadLetter, Raw, usual_redactions};
use crate::dead_letter::{Format, RecordSettings, Redaction, SubjectToken};
use crate::nats::{AdvisorySettings, ConsumerSettings, PublisherSettings};
use crate::subject::SubjectPattern;

const SUBJECT: &str = "dead_letter.subject";

pub(super) fn validate(
    root: &Raw,
    consumer: &ConsumerSettings,
    validator: &mut Validator<'_>,
) -> Option<PublisherSettings> {
    let raw = &root.dead_letter;
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
    let subject_tokens = subject_tokens(raw, validator);
    check_stream(raw, consumer, validator);
    check_advisory_stream(raw, consumer, validator);
    validator.at_least("dead_letter.timeout", raw.timeout.0, Duration::from_millis(100));
    let settings = PublisherSettings {
        subject: subject.clone(),
        subject_tokens,
        stream: raw.stream.clone(),
        timeout: raw.timeout.0,
        advisories: AdvisorySettings {
            stream: raw.advisory_stream.clone(),
            remove_exhausted: raw.remove_exhausted,
        },
        record: RecordSettings {
            format: match raw.format {
                raw::Format::Json => Format::Json,
                raw::Format::Original => Format::Original,
            },
            include_error: raw.include_error,
            include_headers: raw.include_headers,
            redact_headers: redactions(root, validator),
            include_payload: raw.include_payload,
            allow_body_loss: raw.allow_body_loss,
        },
    };
    check_subject(&settings, consumer, validator);
    Some(settings)
}

fn subject_tokens(raw: &DeadLetter, validator: &mut Validator<'_>) -> Vec<SubjectToken> {
    let tokens = raw.subject_tokens.iter().map(|token| match token {
        raw::SubjectToken::Stage => SubjectToken::Stage,
        raw::SubjectToken::Reason => SubjectToken::Reason,
        raw::SubjectToken::Stream => SubjectToken::Stream,
        raw::SubjectToken::Consumer => SubjectToken::Consumer,
    });
    let tokens: Vec<_> = tokens.collect();
    for (index, token) in tokens.iter().enumerate() {
        let key = format!("dead_letter.subject_tokens[{index}]");
        let is_new = tokens.iter().position(|own| own == token) == Some(index);
        validator.require(is_new, &[&key], "stands there twice", "write each token once");
    }
    tokens
}

/// Bytes of all names together, as a letter lists them.
const MOST_REDACTED_BYTES: usize = 4096;

fn redactions(root: &Raw, validator: &mut Validator<'_>) -> Redaction {
    const KEY: &str = "dead_letter.redact_headers";
    if !validator.is_written(KEY) {
        return Redaction::new(usual_redactions(root.message_authenticity.signature_header.clone()));
    }
    let names = &root.dead_letter.redact_headers;
    for (index, name) in names.iter().enumerate() {
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b':' | b','));
        validator.require(
            is_name,
            &[&format!("{KEY}[{index}]")],
            "is no name of a header",
            "write visible ASCII characters without a colon, a comma or a space",
        );
    }
    let bytes: usize = names.iter().map(|name| name.len() + 2).sum();
    validator.require(
        bytes <= MOST_REDACTED_BYTES,
        &[KEY],
        "is too long: a letter has to name what was redacted",
        "write names of 4096 bytes together at the most",
    );
    Redaction::new(names.iter().cloned())
}

fn check_subject(settings: &PublisherSettings, consumer: &ConsumerSettings, validator: &mut Validator<'_>) {
    let subject = &settings.subject;
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
            let used = settings.pattern(&consumer.stream, &consumer.durable);
            let comes_back = consumer
                .filter_subjects
                .iter()
                .filter_map(|filter| SubjectPattern::parse(filter).ok())
                .any(|filter| used.as_ref().is_ok_and(|used| filter.overlaps(used)));
            validator.require(
                !comes_back,
                &[SUBJECT, "consumer.filter_subjects"],
                "matches consumer.filter_subjects: dead letters would come back as messages",
                "choose a subject outside the source stream",
            );
        }
    }
}

fn check_advisory_stream(raw: &DeadLetter, consumer: &ConsumerSettings, validator: &mut Validator<'_>) {
    const KEY: &str = "dead_letter.advisory_stream";
    let Some(stream) = &raw.advisory_stream else { return };
    if let Some(fault) = names::fault_of(stream) {
        validator.refuse(&[KEY], fault, "write a name of letters, digits, - and _");
    }
    validator.require(
        *stream != consumer.stream && raw.stream.as_ref() != Some(stream),
        &[KEY],
        "is the source stream or the dead-letter stream",
        "use a stream of its own: jetsink dlq init makes one",
    );
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
