//! Interest retention (field case 15, nats facts §3) and what the stream holds.

use super::dead_letters::limits;
use super::facts::{ConsumerFacts, Facts, Seen, StreamFacts, nanoseconds, percent};
use super::finding::{Code, Finding};
use super::plan::{Plan, covered, limit};

/// A durable that is younger than this has not seen what was published before.
const A_DAY: i64 = 24 * 3600 * 1_000_000_000;

pub(super) fn look(plan: &Plan, facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(stream) = facts.stream.found() else { return };
    findings.push(state(stream));
    if stream.config.retention != "interest" {
        return;
    }
    let name = &plan.stream;
    let StreamFacts { state, .. } = stream;
    match (state.consumer_count, &facts.durable) {
        (0, _) => findings.push(Finding::warning(
            Code::InterestWithoutConsumer,
            format!(
                "stream {name} has interest retention and no consumer: publishes succeed and vanish (last sequence {}, {} stored)",
                state.last_seq, state.messages
            ),
            "create the durable before anything is published",
        )),
        (1, Seen::Found(_)) => findings.push(Finding::info(
            Code::InterestSoleConsumer,
            format!(
                "stream {name} has interest retention and no other consumer: without this durable publishes succeed and vanish"
            ),
        )),
        _ => {}
    }
    if let Seen::Found(durable) = &facts.durable {
        new_durable(name, stream, durable, facts, findings);
        stalled(durable, stream, facts, findings);
    }
    unwanted(Code::InterestSubjectUnwanted, "publishes to it succeed and vanish", plan, facts, findings);
}

fn state(stream: &StreamFacts) -> Finding {
    let (config, state) = (&stream.config, &stream.state);
    let span = if state.last_seq < state.first_seq { 0 } else { state.last_seq - state.first_seq + 1 };
    let mut fills = Vec::new();
    for (what, limit, stored) in stream.fills() {
        fills.extend(limit.map(|limit| format!("{} % of {what}", percent(stored, limit))));
    }
    let full = if fills.is_empty() { String::new() } else { format!(", full to {}", fills.join(" and ")) };
    Finding::info(
        Code::StreamState,
        format!(
            "stream {}: {} retention, {}, replicas {}{full}; {} messages ({} bytes) stored of {span} from sequence {} to {}, \
             {} deleted between them; {} consumers",
            config.name,
            config.retention,
            limits(config),
            config.num_replicas,
            state.messages,
            state.bytes,
            state.first_seq,
            state.last_seq,
            span.saturating_sub(state.messages),
            state.consumer_count
        ),
    )
}

fn new_durable(
    name: &str,
    stream: &StreamFacts,
    durable: &ConsumerFacts,
    facts: &Facts,
    findings: &mut Vec<Finding>,
) {
    let age = facts.now.saturating_sub(nanoseconds(&durable.created));
    if !facts.created_now && age > A_DAY {
        return;
    }
    let what = if facts.created_now {
        "interest retention, new durable: earlier data is gone"
    } else {
        "interest retention, young durable: what was published before it is gone"
    };
    findings.push(Finding::warning(
        Code::InterestNewDurable,
        format!(
            "{what} (stream {name} stands at sequence {}, durable {} exists since {})",
            stream.state.last_seq, durable.name, durable.created
        ),
        "what was published before cannot be had from this stream; say so to whoever expects it",
    ));
}

/// Another consumer that holds what everybody else is done with.
fn stalled(durable: &ConsumerFacts, stream: &StreamFacts, facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(consumers) = facts.consumers.found() else { return };
    let others = consumers.iter().filter(|other| other.name != durable.name && other.open() > 0);
    let lowest = others.min_by_key(|other| other.ack_floor.stream_seq);
    let Some(other) = lowest.filter(|other| other.ack_floor.stream_seq < durable.ack_floor.stream_seq) else {
        return;
    };
    let is_push = other.config.deliver_subject.as_deref().is_some_and(|subject| !subject.is_empty());
    let why = if other.paused {
        "it is paused"
    } else if limit(other.config.max_ack_pending).is_some_and(|limit| other.num_ack_pending >= limit) {
        "its acks pending are at their limit"
    } else if is_push && !other.push_bound {
        "nobody is subscribed to it"
    } else if !is_push && other.num_waiting == 0 {
        "nobody pulls from it"
    } else {
        return;
    };
    findings.push(Finding::warning(
        Code::StalledConsumer,
        format!(
            "consumer {} keeps stream {} from freeing anything, and {why}: its ack floor is {}, {} pending, {} not settled; \
             this durable's ack floor is {}, first sequence {}, {} stored",
            other.name,
            stream.config.name,
            other.ack_floor.stream_seq,
            other.num_pending,
            other.num_ack_pending,
            durable.ack_floor.stream_seq,
            stream.state.first_seq,
            stream.state.messages
        ),
        format!("start whoever reads {}, or delete that consumer", other.name),
    ));
}

/// Subjects of the stream that no consumer filters.
pub(super) fn unwanted(code: Code, what: &str, plan: &Plan, facts: &Facts, findings: &mut Vec<Finding>) {
    let (Some(stream), Some(consumers)) = (facts.stream.found(), facts.consumers.found()) else { return };
    if consumers.is_empty() || consumers.iter().any(|consumer| consumer.config.filters().is_empty()) {
        return;
    }
    let filters: Vec<_> = consumers.iter().flat_map(|consumer| consumer.config.filters()).collect();
    for subject in stream.config.subjects.iter().filter(|subject| !covered(subject, &filters)) {
        findings.push(Finding::warning(
            code,
            format!(
                "no consumer of stream {} filters all of {subject} (filters: {}): {what}",
                plan.stream,
                filters.join(", ")
            ),
            "add a consumer or a filter for it, or take the subject from the stream",
        ));
    }
}
