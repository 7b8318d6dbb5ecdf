//! The stream that keeps dead letters: it must confirm, keep, and never hand them back to us (field cases 15, 23, 24).

use std::time::Duration;

use super::facts::{Facts, Seen, StreamConfig, percent};
use super::finding::{Code, Finding};
use super::plan::{LetterPlan, Plan, limit, overlaps, time};
use crate::subject::SubjectPattern;

/// A restart may take so long.
const RESTART: Duration = Duration::from_secs(30);
/// Hundredths of a limit from which on it is nearly full.
const NEARLY_FULL: u64 = 80;

/// What the dead-letter stream must fit: the letters of one durable.
#[derive(Clone, Copy, Debug)]
pub struct LettersStream<'a> {
    /// What matches every subject of the letters.
    pub pattern: &'a str,
    /// Every subject they may go to.
    pub subjects: &'a [String],
    /// The stream that the originals come from.
    pub source: &'a str,
    /// Streams that it takes messages from, with the subjects it takes of them (empty = all).
    pub fed_by: &'a [(String, String)],
    /// What the durable filters; empty = everything.
    pub filters: &'a [String],
    /// The durable's shortest ack wait.
    pub ack_wait: Duration,
    /// The largest message that the server takes.
    pub max_payload: usize,
}

/// What is wrong with a dead-letter stream of this configuration.
#[must_use]
pub fn judge(letters: &LettersStream<'_>, config: &StreamConfig) -> Vec<Finding> {
    let refused = loses(letters, config)
        .or_else(|| is_not_captured(letters, config))
        .or_else(|| comes_back(letters, config));
    if let Some((seen, remedy)) = refused {
        return vec![Finding::refusal(Code::DeadLetterStreamRefused, seen, remedy)];
    }
    let mut findings = Vec::new();
    discards(config, &mut findings);
    sizes_and_times(letters, config, &mut findings);
    findings
}

fn loses(_letters: &LettersStream<'_>, config: &StreamConfig) -> Option<(String, String)> {
    let fault = if config.no_ack {
        "has no_ack: it never confirms a publish"
    } else if config.sealed {
        "is sealed: it takes no message"
    } else if config.retention == "interest" {
        "has interest retention: it confirms dead letters and keeps none without a consumer"
    } else if config.mirror.is_some() {
        "is a mirror: nothing can be published to it"
    } else {
        return None;
    };
    Some((
        format!("stream {} {fault}", config.name),
        "use a stream with limits retention that confirms".into(),
    ))
}

fn is_not_captured(letters: &LettersStream<'_>, config: &StreamConfig) -> Option<(String, String)> {
    let own: Vec<_> = config.subjects.iter().filter_map(|own| SubjectPattern::parse(own).ok()).collect();
    let lost = letters.subjects.iter().find(|subject| !own.iter().any(|own| own.matches(subject)))?;
    Some((
        format!("stream {} does not capture {lost}, to which dead letters may go", config.name),
        format!("let it capture {}", letters.pattern),
    ))
}

fn comes_back(letters: &LettersStream<'_>, config: &StreamConfig) -> Option<(String, String)> {
    let pattern = letters.pattern;
    let meets = |filter: &String| overlaps(filter, pattern);
    if !letters.filters.is_empty() && !letters.filters.iter().any(meets) {
        return None;
    }
    let remedy = "use a subject and a stream that the durable does not read".to_owned();
    if config.name == letters.source {
        let seen = format!(
            "subject {pattern} is delivered by the durable itself: dead letters would come back for ever"
        );
        return Some((seen, remedy));
    }
    let is_fed = letters
        .fed_by
        .iter()
        .any(|(stream, subjects)| *stream == config.name && (subjects.is_empty() || meets(subjects)));
    is_fed.then(|| {
        let seen = format!(
            "stream {} takes messages from {}, and the durable delivers them: dead letters would come back for ever",
            letters.source, config.name
        );
        (seen, remedy)
    })
}

fn discards(config: &StreamConfig, findings: &mut Vec<Finding>) {
    let name = &config.name;
    let is_limited = config.max_msgs > 0 || config.max_bytes > 0;
    if config.discard != "new" && is_limited {
        findings.push(Finding::warning(
            Code::DeadLetterDiscarded,
            format!(
                "dead-letter stream {name} discards its oldest messages when it is full ({})",
                limits(config)
            ),
            "set its discard policy to new",
        ));
    }
    if config.max_msgs_per_subject > 0 && !config.discard_new_per_subject {
        findings.push(Finding::warning(
            Code::DeadLetterDiscarded,
            format!(
                "dead-letter stream {name} keeps {} messages of a subject and discards older ones",
                config.max_msgs_per_subject
            ),
            "take its max_msgs_per_subject away",
        ));
    }
    if config.retention == "workqueue" {
        findings.push(Finding::warning(
            Code::DeadLetterWorkQueue,
            format!("dead-letter stream {name} is a work queue: reading a dead letter with acks removes it"),
            "use limits retention",
        ));
    }
}

fn sizes_and_times(letters: &LettersStream<'_>, config: &StreamConfig, findings: &mut Vec<Finding>) {
    let name = &config.name;
    if usize::try_from(config.max_msg_size).is_ok_and(|limit| limit > 0 && limit < letters.max_payload) {
        findings.push(Finding::warning(
            Code::DeadLetterTooLarge,
            format!(
                "max_msg_size of dead-letter stream {name} is {} bytes, the server's max_payload {}: what does not fit into \
                 two messages stays on its stream",
                config.max_msg_size, letters.max_payload
            ),
            "raise its max_msg_size to max_payload",
        ));
    }
    let window = Duration::from_nanos(config.duplicate_window);
    let wanted = 2 * letters.ack_wait + RESTART;
    if window < wanted {
        findings.push(Finding::warning(
            Code::DeadLetterDuplicateWindow,
            format!(
                "the duplicate window of dead-letter stream {name} is {window:?}; below {wanted:?} (twice the ack wait and \
                 a restart) a crash can store a dead letter twice"
            ),
            format!("raise its duplicate window to {wanted:?} or more"),
        ));
    }
}

/// The limits of a stream, in words.
pub(super) fn limits(config: &StreamConfig) -> String {
    let mut limits = vec![format!("discard {}", if config.discard == "new" { "new" } else { "old" })];
    let mut add = |name: &str, value: i64| limits.extend(limit(value).map(|value| format!("{name} {value}")));
    add("max_msgs", config.max_msgs);
    add("max_bytes", config.max_bytes);
    add("max_msgs_per_subject", config.max_msgs_per_subject);
    add("max_msg_size", config.max_msg_size);
    limits.extend((config.max_age > 0).then(|| format!("max_age {}", time(config.max_age))));
    limits.push(format!("duplicate window {}", time(config.duplicate_window)));
    limits.join(", ")
}

impl StreamConfig {
    /// Its limits, in words.
    #[must_use]
    pub fn limits_in_words(&self) -> String {
        limits(self)
    }

    /// Streams of the same account that it takes messages from, with the subjects it takes of them (empty = all).
    #[must_use]
    pub fn fed_by(&self) -> Vec<(String, String)> {
        let feeds = self.mirror.iter().chain(&self.sources).filter(|feed| feed.external.is_none());
        feeds.map(|feed| (feed.name.clone(), feed.filter_subject.clone())).collect()
    }
}

/// Everything about dead letters.
pub(super) fn look(plan: &Plan, facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(letters) = &plan.dead_letters else {
        findings.push(Finding::info(
            Code::DeadLetterNotConfigured,
            "dead_letter.subject is not set: a rejected message stays on the stream and stops the daemon's readiness",
        ));
        return;
    };
    match &facts.dead_letters.capturing {
        Seen::Found(streams) if streams.is_empty() => {
            findings.push(missing(letters));
            return;
        }
        Seen::Found(streams) => {
            if let Some(expected) = letters.stream.as_ref().filter(|expected| !streams.contains(expected)) {
                let seen = format!(
                    "dead_letter.stream is {expected}, yet subject {} is captured by {}",
                    letters.pattern,
                    streams.join(", ")
                );
                let remedy = "name the stream that captures it";
                findings.push(Finding::refusal(Code::DeadLetterStreamRefused, seen, remedy));
                return;
            }
        }
        Seen::Missing | Seen::Unseen(_) | Seen::NotAsked => {}
    }
    match &facts.dead_letters.stream {
        Seen::Found(stream) => {
            let source = facts.stream.found().map(|stream| stream.config.fed_by()).unwrap_or_default();
            let durable = facts.durable.found().map(|durable| &durable.config);
            let filters = durable.map_or_else(|| plan.filters.clone(), super::facts::ConsumerConfig::filters);
            let view = LettersStream {
                pattern: &letters.pattern,
                subjects: &letters.subjects,
                source: &plan.stream,
                fed_by: &source,
                filters: &filters,
                ack_wait: Duration::from_nanos(
                    durable.map_or(0, super::facts::ConsumerConfig::shortest_wait),
                ),
                max_payload: facts.server.max_payload,
            };
            findings.extend(judge(&view, &stream.config));
            fill(stream, findings);
            let seen = format!(
                "dead letters go to {} in stream {}: {}, {} stored",
                letters.pattern,
                stream.config.name,
                limits(&stream.config),
                stream.state.messages
            );
            findings.push(Finding::info(Code::DeadLetterStream, seen));
        }
        Seen::Missing => findings.push(missing(letters)),
        Seen::Unseen(why) => findings.push(Finding::warning(
            Code::NotSeen,
            format!("the dead-letter stream cannot be looked at: {why}"),
            "grant what jetsink permissions prints, and name it in dead_letter.stream",
        )),
        Seen::NotAsked => {}
    }
}

fn fill(stream: &super::facts::StreamFacts, findings: &mut Vec<Finding>) {
    let config = &stream.config;
    for (name, limit, stored) in stream.fills() {
        if let Some(limit) = limit.filter(|limit| percent(stored, *limit) >= NEARLY_FULL) {
            findings.push(Finding::warning(
                Code::DeadLetterNearlyFull,
                format!(
                    "dead-letter stream {} is {} % full: {stored} of {name} {limit}, discard {}",
                    config.name,
                    percent(stored, limit),
                    config.discard
                ),
                "redrive or discard dead letters (jetsink dlq), or raise the limit",
            ));
        }
    }
}

fn missing(letters: &LetterPlan) -> Finding {
    let seen = match &letters.stream {
        Some(stream) => format!("stream {stream}, which dead_letter.stream names, does not exist"),
        None => format!("no stream captures dead_letter.subject {}", letters.pattern),
    };
    let remedy =
        format!("create one: jetsink dlq init, or nats stream add DLQ --subjects '{}'", letters.pattern);
    Finding::refusal(Code::DeadLetterStreamMissing, seen, remedy)
}
