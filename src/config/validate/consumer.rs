//! `[consumer]` → [`ConsumerSettings`].

use std::time::Duration;

use super::{Validator, names};
use crate::config::raw::{self, Consumer};
use crate::nats::{BindMode, ConsumerSettings, DeliverPolicy, OnGone};
use crate::subject::SubjectPattern;

pub(super) fn validate(raw: &Consumer, validator: &mut Validator<'_>) -> ConsumerSettings {
    check_filters(&raw.filter_subjects, validator);
    check_waits(raw, validator);
    check_limits(raw, validator);
    check_stream(raw.stream.as_deref().unwrap_or_default(), validator);
    ConsumerSettings {
        stream: name("consumer.stream", raw.stream.as_deref(), validator),
        durable: name("consumer.durable", raw.durable.as_deref(), validator),
        mode: match raw.mode {
            raw::Mode::Bind => BindMode::Bind,
            raw::Mode::CreateIfMissing => BindMode::CreateIfMissing,
        },
        on_gone: match raw.on_gone {
            raw::OnGone::Wait => OnGone::Wait,
            raw::OnGone::Exit => OnGone::Exit,
        },
        filter_subjects: raw.filter_subjects.clone(),
        deliver_policy: deliver_policy(raw, validator),
        ack_wait: raw.ack_wait.map(|span| span.0),
        max_deliver: raw.max_deliver,
        max_ack_pending: raw.max_ack_pending,
        backoff: raw.backoff.iter().map(|span| span.0).collect(),
        replicas: raw.replicas.map(|replicas| validator.count("consumer.replicas", replicas, 1, 5)),
        headers_only_expected: raw.headers_only == raw::HeadersOnly::Expected,
        expires: raw.expires.0,
    }
}

fn name(key: &str, name: Option<&str>, validator: &mut Validator<'_>) -> String {
    match name {
        None => validator.missing(key, "write the name as `nats stream ls` or `nats consumer ls` shows it"),
        Some(name) => {
            if let Some(fault) = names::fault_of(name) {
                validator.refuse(&[key], fault, "write a name of letters, digits, - and _");
            }
        }
    }
    name.unwrap_or_default().to_owned()
}

/// A durable on `$MQTT_msgs` makes the gateway keep every message of QoS 1 and 2 for it, and one on the others takes state
/// of the gateway away.
fn check_stream(stream: &str, validator: &mut Validator<'_>) {
    validator.require(
        !names::is_of_the_mqtt_gateway(stream),
        &["consumer.stream"],
        "belongs to the server's MQTT gateway: MQTT clients depend on what it holds, and messages of QoS 0 are never in it",
        "make a stream of your own on the subjects of the topics (sens.> for sens/#) and write its name",
    );
}

/// The server refuses filters that overlap (10138).
fn check_filters(filters: &[String], validator: &mut Validator<'_>) {
    let mut before: Vec<SubjectPattern> = Vec::new();
    for (index, text) in filters.iter().enumerate() {
        let key = format!("consumer.filter_subjects[{index}]");
        match SubjectPattern::parse(text) {
            Err(error) => validator.refuse(
                &[&key],
                format!("is not a subject: {error}"),
                "write tokens separated by dots; * is one whole token, > stands last",
            ),
            Ok(pattern) => {
                if before.iter().any(|other| other.overlaps(&pattern)) {
                    validator.refuse(
                        &[&key],
                        "overlaps a filter before it, which the server refuses",
                        "keep the wider of the two",
                    );
                }
                before.push(pattern);
            }
        }
    }
}

fn check_waits(raw: &Consumer, validator: &mut Validator<'_>) {
    validator.at_least("consumer.expires", raw.expires.0, Duration::from_secs(1));
    if let Some(ack_wait) = raw.ack_wait {
        validator.at_least("consumer.ack_wait", ack_wait.0, Duration::from_secs(1));
        validator.require(
            raw.backoff.is_empty(),
            &["consumer.backoff", "consumer.ack_wait"],
            "the first backoff quietly replaces ack_wait on the server",
            "remove consumer.ack_wait and make the first backoff as long as a slow write may take, or remove the backoff",
        );
    }
    for (index, wait) in raw.backoff.iter().enumerate() {
        validator.at_least(&format!("consumer.backoff[{index}]"), wait.0, Duration::from_secs(1));
    }
    let steps = i64::try_from(raw.backoff.len()).unwrap_or(i64::MAX);
    if let Some(max_deliver) = raw.max_deliver.filter(|limit| *limit > 0 && steps > *limit) {
        validator.refuse(
            &["consumer.backoff", "consumer.max_deliver"],
            format!("has {steps} steps for {max_deliver} deliveries, which the server refuses"),
            "shorten the list, or raise consumer.max_deliver",
        );
    }
}

fn check_limits(raw: &Consumer, validator: &mut Validator<'_>) {
    let unlimited_or_positive = |limit: Option<i64>| limit.is_none_or(|limit| limit == -1 || limit > 0);
    validator.require(
        unlimited_or_positive(raw.max_deliver),
        &["consumer.max_deliver"],
        "is neither -1 nor at least 1",
        "write -1 for no limit",
    );
    validator.require(
        unlimited_or_positive(raw.max_ack_pending),
        &["consumer.max_ack_pending"],
        "is neither -1 nor at least 1",
        "write 1000, the server's default, or -1 for no limit",
    );
}

fn deliver_policy(raw: &Consumer, validator: &mut Validator<'_>) -> Option<DeliverPolicy> {
    let keys = ["consumer.start_sequence", "consumer.deliver_policy"];
    match (raw.deliver_policy, raw.start_sequence) {
        (None, None) => None,
        (Some(raw::DeliverPolicy::All), None) => Some(DeliverPolicy::All),
        (Some(raw::DeliverPolicy::New), None) => Some(DeliverPolicy::New),
        (Some(raw::DeliverPolicy::StartSequence), Some(sequence)) => {
            validator.require(
                sequence > 0,
                &["consumer.start_sequence"],
                "0 is not a sequence",
                "stream sequences begin at 1",
            );
            Some(DeliverPolicy::StartSequence(sequence))
        }
        (Some(raw::DeliverPolicy::StartSequence), None) => {
            validator.refuse(
                &keys,
                "deliver_policy = \"start_sequence\" without a sequence",
                "add consumer.start_sequence",
            );
            None
        }
        (None | Some(raw::DeliverPolicy::All | raw::DeliverPolicy::New), Some(_)) => {
            validator.refuse(
                &keys,
                "start_sequence without deliver_policy = \"start_sequence\"",
                "set consumer.deliver_policy = \"start_sequence\", or remove the sequence",
            );
            None
        }
    }
}
