//! Limits of the stream: refused publishes, and messages that go before they are read.

use super::facts::{Facts, StreamFacts, percent};
use super::finding::{Code, Finding};
use super::plan::{Plan, limit};

/// Hundredths of a limit from which on it is nearly full.
const NEARLY_FULL: u64 = 80;
/// Unread messages that fill so many hundredths of a limit with discard old are at risk.
const UNREAD_SHARE: u64 = 50;

pub(super) fn look(plan: &Plan, facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(stream) = facts.stream.found() else { return };
    if stream.config.sealed {
        findings.push(Finding::warning(
            Code::StreamSealed,
            format!("stream {} is sealed: nothing new comes, and nothing of it can be removed", plan.stream),
            "read it to its end, then point consumer.stream elsewhere",
        ));
    }
    if stream.config.discard == "new" {
        nearly_full(stream, findings);
    } else {
        discards_old(stream, facts, findings);
    }
    per_subject(stream, findings);
    gaps(stream, findings);
}

fn nearly_full(stream: &StreamFacts, findings: &mut Vec<Finding>) {
    for (name, limit, stored) in stream.fills() {
        if let Some(limit) = limit.filter(|limit| percent(stored, *limit) >= NEARLY_FULL) {
            findings.push(Finding::warning(
                Code::LimitNearlyFull,
                format!(
                    "stream {} is {} % full ({stored} of {name} {limit}) and discards new messages: publishes will be refused",
                    stream.config.name,
                    percent(stored, limit)
                ),
                "raise the limit, or let somebody read and remove",
            ));
        }
    }
}

fn discards_old(stream: &StreamFacts, facts: &Facts, findings: &mut Vec<Finding>) {
    let keeps_unread_only = stream.config.retention != "limits";
    let unread = facts.durable.found().map_or(0, |durable| durable.open());
    let share = percent(unread, stream.state.messages.max(1));
    for (name, limit, stored) in stream.fills() {
        let Some(limit) = limit else { continue };
        let filled = percent(stored, limit);
        let at_risk = filled.saturating_mul(share.min(100)) / 100 >= UNREAD_SHARE;
        if keeps_unread_only || at_risk {
            findings.push(Finding::warning(
                Code::UnreadAtRisk,
                format!(
                    "stream {} ({} retention) discards its oldest messages at {name} {limit}, read or not: {stored} are \
                     there, {unread} messages are not read and settled",
                    stream.config.name, stream.config.retention
                ),
                "set its discard policy to new, or raise the limit",
            ));
        }
    }
}

fn per_subject(stream: &StreamFacts, findings: &mut Vec<Finding>) {
    let config = &stream.config;
    let discards = config.discard != "new" || !config.discard_new_per_subject;
    if let Some(limit) = limit(config.max_msgs_per_subject).filter(|_| discards) {
        findings.push(Finding::warning(
            Code::UnreadAtRisk,
            format!(
                "stream {} keeps {limit} messages of a subject (max_msgs_per_subject): a newer one removes an older one, read \
                 or not",
                config.name
            ),
            "take max_msgs_per_subject away if every message counts",
        ));
    }
}

fn gaps(stream: &StreamFacts, findings: &mut Vec<Finding>) {
    let state = &stream.state;
    if stream.config.retention != "limits" || state.last_seq < state.first_seq {
        return;
    }
    let span = state.last_seq - state.first_seq + 1;
    if let Some(gone) = span.checked_sub(state.messages).filter(|gone| *gone > 0) {
        findings.push(Finding::info(
            Code::DeletedGaps,
            format!(
                "stream {} stores {} of the {span} messages from {} to {}: {gone} were deleted one by one (by a person, a \
                 limit per subject, or a message TTL)",
                stream.config.name, state.messages, state.first_seq, state.last_seq
            ),
        ));
    }
}
