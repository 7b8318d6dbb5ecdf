//! What has changed, and what has reached a limit.

use std::time::Duration;

use super::{Look, Notice, Told};
use crate::preflight::{StreamFacts, percent};

/// Hundredths of a limit at which something is said, once each.
const STEPS: [u64; 3] = [80, 90, 100];
/// Hundredths below which a limit is forgotten again.
const EASED: u64 = 70;
/// The first message may stand for so long while later ones are settled.
const CLOGGED: Duration = Duration::from_secs(60);

/// Hundredths of each limit that are used: messages, bytes.
pub(super) fn fill(stream: &StreamFacts) -> [u64; 2] {
    stream.fills().map(|(_, limit, used)| percent(used, limit.unwrap_or(0)))
}

pub(super) fn limits(look: &Look, said: &mut [u64; 2], told: &mut Told) {
    let config = &look.stream.config;
    for ((name, limit, used), (fill, said)) in
        look.stream.fills().into_iter().zip(told.fill.into_iter().zip(said))
    {
        let step = STEPS.into_iter().rev().find(|step| fill >= *step).unwrap_or(0);
        let limit = limit.unwrap_or(0);
        // A stream that discards its oldest messages is full as a rule; preflight says where that is a risk.
        if step > *said && config.discard == "new" {
            *said = step;
            let text = format!(
                "stream {} is {fill} % full: {used} of {name} {limit}; when it is full publishes are refused",
                config.name
            );
            told.notices.push(Notice::warning("limit_fill", text));
        } else if fill < EASED && *said > 0 {
            *said = 0;
            let text = format!("stream {} is {fill} % full again: {used} of {name} {limit}", config.name);
            told.notices.push(Notice::fact("limit_fill", text));
        }
    }
}

pub(super) fn ack_pending(look: &Look, said: &mut bool, told: &mut Told) {
    let (pending, limit) = (look.durable.num_ack_pending, look.durable.config.max_ack_pending);
    let is_at_limit = u64::try_from(limit).is_ok_and(|limit| limit > 0 && pending >= limit);
    if is_at_limit && !*said {
        let text = format!(
            "{pending} deliveries are not settled, max_ack_pending is {limit}: nothing new is delivered"
        );
        told.notices.push(Notice::warning("ack_pending_at_limit", text));
    } else if !is_at_limit && *said {
        let text = format!("{pending} deliveries are not settled, below max_ack_pending {limit} again");
        told.notices.push(Notice::fact("ack_pending_at_limit", text));
    }
    *said = is_at_limit;
}

/// A work queue or interest stream whose first message nobody settles, while the durable is beyond it.
pub(super) fn clogged(look: &Look, stands: Duration, said: &mut bool, told: &mut Told) {
    let (config, state) = (&look.stream.config, &look.stream.state);
    let floor = look.durable.ack_floor.stream_seq;
    let is_clogged =
        config.retention != "limits" && state.messages > 0 && state.first_seq <= floor && stands >= CLOGGED;
    if is_clogged && !*said {
        let text = format!(
            "first sequence {} of stream {} has not advanced for {stands:?}, although the durable is done up to {floor}: {} \
             stored, {} pending, {} not settled; another consumer holds it, or the server delivers it no more",
            state.first_seq,
            config.name,
            state.messages,
            look.durable.num_pending,
            look.durable.num_ack_pending
        );
        told.notices.push(Notice::warning("first_sequence_stands", text));
    }
    *said = is_clogged;
}

pub(super) fn compare(before: &Look, look: &Look, told: &mut Told) {
    let (old, new) = (before.stream.state.consumer_count, look.stream.state.consumer_count);
    if old != new {
        let text = format!("stream {} has {new} consumers, before {old}", look.stream.config.name);
        told.notices.push(Notice::fact("consumer_count", text));
    }
    let pairs = [
        ("stream", &before.stream.cluster, &look.stream.cluster),
        ("durable", &before.durable.cluster, &look.durable.cluster),
    ];
    for (what, old, new) in pairs {
        if let (Some(old), Some(new)) = (old, new)
            && old.leader != new.leader
        {
            told.leader_changes += 1;
            let text = format!("the {what} is led by {:?}, before by {:?}", new.leader, old.leader);
            told.notices.push(Notice::fact("leader_change", text));
        }
    }
    if before.durable.config != look.durable.config {
        let text = format!("the configuration of durable {} was changed", look.durable.name);
        told.notices.push(Notice::warning("durable_changed", text));
    }
    if before.durable.paused != look.durable.paused {
        let text = format!(
            "durable {} is {}",
            look.durable.name,
            if look.durable.paused { "paused" } else { "resumed" }
        );
        told.notices.push(Notice { code: "durable_paused", warns: look.durable.paused, text });
    }
}
