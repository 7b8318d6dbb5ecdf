//! Work-queue retention: messages that nobody will ever be handed (field case 7).

use super::facts::{ConsumerFacts, Facts, Seen};
use super::finding::{Code, Finding};
use super::plan::{Plan, overlaps};
use super::retention::unwanted;

pub(super) fn look(plan: &Plan, facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(stream) = facts.stream.found() else { return };
    if stream.config.retention != "workqueue" {
        return;
    }
    overlap(plan, facts, findings);
    unwanted(
        Code::WorkQueueSubjectUnwanted,
        "its messages stay for ever and fill the limits",
        plan,
        facts,
        findings,
    );
    let Some(durable) = facts.durable.found() else { return };
    if durable.config.max_deliver > 0 {
        findings.push(Finding::warning(
            Code::WorkQueueMaxDeliver,
            format!(
                "stream {} is a work queue and durable {} has max_deliver = {}: a message that exhausts it stays for ever, \
                 and nobody can read it",
                plan.stream, durable.name, durable.config.max_deliver
            ),
            "set max_deliver to -1: the daemon has limits of its own and dead-letters",
        ));
    }
    exhausted(durable, facts, findings);
}

/// How many are stored that no consumer will deliver. Whether the others can be counted depends on seeing all consumers.
fn exhausted(durable: &ConsumerFacts, facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(stream) = facts.stream.found() else { return };
    if facts.exhausted.is_empty() {
        return;
    }
    let alone = [durable.clone()];
    let consumers = facts.consumers.found().map_or(&alone[..], Vec::as_slice);
    let open: u64 = consumers.iter().map(ConsumerFacts::open).fold(0, u64::saturating_add);
    let seen = u64::try_from(facts.exhausted.len()).unwrap_or(u64::MAX);
    let count = stream.state.messages.saturating_sub(open).max(seen);
    let sequences: Vec<_> = facts.exhausted.iter().map(u64::to_string).collect();
    findings.push(Finding::warning(
        Code::WorkQueueExhausted,
        format!(
            "{count} messages of stream {} are delivered no more: {} stored, {open} pending or not settled; the first are \
             sequences {}",
            stream.config.name,
            stream.state.messages,
            sequences.join(", ")
        ),
        "read them (nats stream get), then delete them (nats stream rmm) or publish them again",
    ));
}

/// The server refuses consumers whose filters overlap; what exists cannot, what shall be created can.
fn overlap(plan: &Plan, facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(consumers) = facts.consumers.found() else { return };
    let own = match &facts.durable {
        Seen::Found(durable) => durable.config.filters(),
        Seen::Missing | Seen::Unseen(_) | Seen::NotAsked => plan.filters.clone(),
    };
    let own = if own.is_empty() { vec![">".to_owned()] } else { own };
    for other in consumers.iter().filter(|other| other.name != plan.durable) {
        let filters = other.config.filters();
        let filters = if filters.is_empty() { vec![">".to_owned()] } else { filters };
        let meets = own.iter().find(|own| filters.iter().any(|filter| overlaps(own, filter)));
        if let Some(own) = meets {
            findings.push(Finding::refusal(
                Code::WorkQueueOverlap,
                format!(
                    "filter {own} of durable {} overlaps with {} of consumer {} on work-queue stream {}: the server allows one \
                     reader of each subject",
                    plan.durable,
                    filters.join(", "),
                    other.name,
                    plan.stream
                ),
                "give them filters that have no subject in common, or share one durable",
            ));
        }
    }
}
