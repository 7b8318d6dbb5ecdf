//! Where the messages of the stream come from: the MQTT gateway, mirrors, sources, rewritten subjects.

use super::facts::{Facts, Seen, StreamFacts};
use super::finding::{Code, Finding};
use super::plan::Plan;

/// Streams that the MQTT gateway makes for itself (nats facts §5).
const MQTT_STREAMS: &str = "$MQTT_";

pub(super) fn look(plan: &Plan, facts: &Facts, findings: &mut Vec<Finding>) {
    let stream = match &facts.stream {
        Seen::Found(stream) => stream,
        Seen::Missing => {
            findings.push(Finding::refusal(
                Code::StreamMissing,
                format!("stream {} does not exist", plan.stream),
                "create it, or correct consumer.stream",
            ));
            return;
        }
        Seen::Unseen(why) => {
            findings.push(Finding::warning(
                Code::NotSeen,
                format!("stream {} cannot be looked at: {why}", plan.stream),
                format!("grant publishing to {}.STREAM.INFO.{}", plan.api, plan.stream),
            ));
            return;
        }
        Seen::NotAsked => return,
    };
    mqtt(plan, stream, findings);
    if let Some(mirror) = &stream.config.mirror {
        let seen = format!(
            "stream {} is a mirror of {}: sequences and times are those of the origin, the idempotency key names the mirror, \
             so a pipeline on the origin makes other keys for the same messages",
            plan.stream, mirror.name
        );
        findings.push(Finding::info(Code::StreamIsMirror, seen));
    }
    if !stream.config.sources.is_empty() {
        let names: Vec<_> = stream.config.sources.iter().map(|source| source.name.as_str()).collect();
        let seen = format!(
            "stream {} takes messages from {}: sequences are its own, so a message that is taken twice (a source that was \
             recreated) has two idempotency keys, and the original's sequence stands in Nats-Stream-Source only",
            plan.stream,
            names.join(", ")
        );
        findings.push(Finding::info(Code::StreamHasSources, seen));
    }
    let feeds = stream.config.mirror.iter().chain(&stream.config.sources);
    if stream.config.subject_transform.is_some()
        || feeds.into_iter().any(|feed| !feed.subject_transforms.is_empty())
    {
        let seen = format!(
            "stream {} rewrites subjects: checks, filters and the sink see the rewritten subject; the idempotency key does \
             not depend on it",
            plan.stream
        );
        findings.push(Finding::info(Code::SubjectTransform, seen));
    }
}

/// The gateway's own streams are refused when the file is read; what is fed by one is seen here.
fn mqtt(plan: &Plan, stream: &StreamFacts, findings: &mut Vec<Finding>) {
    let mut feeds = stream.config.mirror.iter().chain(&stream.config.sources);
    if let Some(feed) = feeds.find(|feed| feed.name.starts_with(MQTT_STREAMS)) {
        findings.push(Finding::refusal(
            Code::MqttStream,
            format!(
                "stream {} takes its messages from {}, which belongs to the MQTT gateway: QoS 0 never appears there, and \
                 the gateway keeps or drops messages for its own subscribers",
                plan.stream, feed.name
            ),
            "capture the same subjects in a stream of your own",
        ));
    }
}
