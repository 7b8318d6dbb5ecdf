//! The durable: what it limits, and what of it does not fit the configuration.

use std::time::Duration;

use super::facts::{ConsumerConfig, ConsumerFacts, Facts, Outcome, Seen};
use super::finding::{Code, Finding};
use super::plan::{Plan, limit, overlaps, time};

/// A connection that is cut must have a moment to come back before deliveries do.
const SHORT_ACK_WAIT: Duration = Duration::from_secs(1);
/// Subject and reply of a delivery, beside its headers and body.
const ENVELOPE: usize = 1024;
/// Pulls that are open at once, and one to follow.
const OPEN_PULLS: u64 = 4;

pub(super) fn look(plan: &Plan, facts: &Facts, findings: &mut Vec<Finding>) {
    let largest = facts.server.max_payload + ENVELOPE;
    if plan.batch_bytes < largest {
        findings.push(Finding::refusal(
            Code::BatchBytesTooSmall,
            format!(
                "delivery.batch_bytes is {} bytes; the server's max_payload needs at least {largest}, else its largest \
                 messages would never be delivered",
                plan.batch_bytes
            ),
            format!("set delivery.batch_bytes to {largest} or more"),
        ));
    }
    for difference in &facts.differences {
        findings.push(Finding::refusal(
            Code::DurableDiffers,
            format!("durable {} is not what the configuration says: {difference}", plan.durable),
            "change the file or the durable; the daemon rewrites none",
        ));
    }
    match &facts.durable {
        Seen::Found(durable) => {
            findings.push(standpoint(durable));
            waits(plan, &durable.config, findings);
            pending(plan, durable, findings);
            deliveries(plan, &durable.config, facts, findings);
            pulls(plan, &durable.config, largest, findings);
            shape(plan, durable, facts, findings);
        }
        Seen::Missing if plan.may_create => {
            let seen = format!("durable {} does not exist and will be created at start", plan.durable);
            findings.push(Finding::info(Code::DurableToBeCreated, seen));
        }
        Seen::Missing => findings.push(Finding::refusal(
            Code::DurableMissing,
            format!("durable {} of stream {} does not exist", plan.durable, plan.stream),
            "create it, or set consumer.mode = \"create_if_missing\"",
        )),
        Seen::Unseen(why) => {
            let denied = facts.trials.iter().any(|trial| trial.outcome == Outcome::Denied);
            let seen = format!("durable {} cannot be looked at: {why}", plan.durable);
            let remedy = if denied {
                "grant what is denied"
            } else {
                "see whether the server and its JetStream are well"
            };
            findings.push(Finding::warning(Code::NotSeen, seen, remedy));
        }
        Seen::NotAsked => {}
    }
}

fn standpoint(durable: &ConsumerFacts) -> Finding {
    Finding::info(
        Code::DurableState,
        format!(
            "durable {}: ack wait {}, max_deliver {}, max_ack_pending {}; {} pending, {} not settled, {} of them redelivered, \
             ack floor {}, delivered up to {}, {} pulls wait",
            durable.name,
            time(durable.config.shortest_wait()),
            durable.config.max_deliver,
            durable.config.max_ack_pending,
            durable.num_pending,
            durable.num_ack_pending,
            durable.num_redelivered,
            durable.ack_floor.stream_seq,
            durable.delivered.stream_seq,
            durable.num_waiting
        ),
    )
}

fn waits(plan: &Plan, config: &ConsumerConfig, findings: &mut Vec<Finding>) {
    if !config.backoff.is_empty() {
        let steps: Vec<_> = config.backoff.iter().copied().map(Duration::from_nanos).collect();
        findings.push(Finding::warning(
            Code::BackoffReplacesAckWait,
            format!("the durable's back-off list {steps:?} replaces its ack wait"),
            "take the back-off list away: the daemon delays by itself, and leases are paced by the shortest step",
        ));
    }
    let ack_wait = Duration::from_nanos(config.shortest_wait());
    if !plan.in_progress && plan.write_timeout >= ack_wait {
        findings.push(Finding::refusal(
            Code::AckWaitTooShort,
            format!(
                "delivery.write_timeout is {:?} and the durable's ack wait {ack_wait:?}: without delivery.in_progress a write \
                 may outlast it, and its messages would be delivered again",
                plan.write_timeout
            ),
            "switch delivery.in_progress on, or raise the ack wait",
        ));
    } else if !plan.in_progress
        && (plan.write_timeout + plan.linger) * u32::try_from(plan.batches).unwrap_or(u32::MAX) >= ack_wait
    {
        findings.push(Finding::warning(
            Code::AckWaitTooShort,
            format!(
                "{} batches may wait for one another for {:?} each; the durable's ack wait is {ack_wait:?}, and \
                 delivery.in_progress is off",
                plan.batches,
                plan.write_timeout + plan.linger
            ),
            "switch delivery.in_progress on, or raise the ack wait",
        ));
    } else if ack_wait < SHORT_ACK_WAIT {
        findings.push(Finding::warning(
            Code::AckWaitTooShort,
            format!("the durable's ack wait is {ack_wait:?}: any pause of the connection brings everything in hand again"),
            "raise it to some seconds; leases keep slow work",
        ));
    }
}

fn pending(plan: &Plan, durable: &ConsumerFacts, findings: &mut Vec<Finding>) {
    let Some(limit) = limit(durable.config.max_ack_pending) else { return };
    let needed = u64::try_from(plan.in_hand).unwrap_or(u64::MAX);
    if limit < needed {
        findings.push(Finding::warning(
            Code::MaxAckPendingTooSmall,
            format!(
                "max_ack_pending is {limit}, and {} batches of {} need {needed}: batches are shrunk, and limit ÷ hold time \
                 bounds the throughput",
                plan.batches, plan.batch_size
            ),
            format!("raise max_ack_pending to {} or lower delivery.batch_size", needed.saturating_mul(4).div_ceil(3)),
        ));
    }
    if durable.num_ack_pending >= limit {
        findings.push(Finding::warning(
            Code::AckPendingAtLimit,
            format!(
                "{} deliveries are not settled, and max_ack_pending is {limit}: nothing new is delivered",
                durable.num_ack_pending
            ),
            "see who holds them; what nobody settles comes back after the ack wait",
        ));
    }
}

fn deliveries(plan: &Plan, config: &ConsumerConfig, facts: &Facts, findings: &mut Vec<Finding>) {
    let Ok(max_deliver) = u64::try_from(config.max_deliver) else { return };
    if max_deliver == 0 {
        return;
    }
    let ours = plan.max_attempts.max(plan.crash_limit);
    if max_deliver <= ours {
        findings.push(Finding::warning(
            Code::MaxDeliverTooSmall,
            format!(
                "max_deliver is {max_deliver}, not above delivery.crash_limit {} and delivery.max_attempts {}: the server may \
                 give up on a message before the daemon dead-letters it",
                plan.crash_limit, plan.max_attempts
            ),
            format!("set max_deliver to -1, or above {ours}"),
        ));
    }
    let unwatched = match &facts.advisory_streams {
        Seen::Found(streams) => streams.is_empty(),
        Seen::Missing => true,
        Seen::Unseen(_) | Seen::NotAsked => false,
    };
    if unwatched {
        findings.push(Finding::warning(
            Code::MaxDeliverUnwatched,
            format!(
                "the durable has max_deliver = {max_deliver}: the server gives up on a message after that, and no stream captures \
                 $JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{}.{}, so nobody learns of it",
                plan.stream, plan.durable
            ),
            "set max_deliver to -1, or let a stream capture that subject",
        ));
    }
}

fn pulls(plan: &Plan, config: &ConsumerConfig, largest: usize, findings: &mut Vec<Finding>) {
    let mut warn =
        |seen: String, remedy: &str| findings.push(Finding::warning(Code::PullLimit, seen, remedy));
    if config.max_bytes > 0 && usize::try_from(config.max_bytes).is_ok_and(|limit| limit < largest) {
        warn(
            format!(
                "the durable lets a pull ask for {} bytes only: a message of more is never delivered, and nothing behind it",
                config.max_bytes
            ),
            &format!("raise its max_bytes to {largest} or take it away"),
        );
    }
    if config.max_batch > 0 && usize::try_from(config.max_batch).is_ok_and(|limit| limit < plan.pull_messages)
    {
        warn(
            format!(
                "the durable lets a pull ask for {} messages only, and pulls of {} are wanted: pulls are shrunk",
                config.max_batch, plan.pull_messages
            ),
            "raise its max_batch or lower delivery.batch_size",
        );
    }
    if config.max_waiting > 0 && config.max_waiting < OPEN_PULLS {
        warn(
            format!(
                "max_waiting of the durable is {}: other daemons on it, or a second open pull, are turned away",
                config.max_waiting
            ),
            "raise max_waiting",
        );
    }
    if config.max_expires > 0 && Duration::from_nanos(config.max_expires) < plan.expires {
        warn(
            format!(
                "the durable lets a pull stay open for {}, consumer.expires is {:?}: pulls are shortened",
                time(config.max_expires),
                plan.expires
            ),
            "raise its max_expires or lower consumer.expires",
        );
    }
}

fn shape(plan: &Plan, durable: &ConsumerFacts, facts: &Facts, findings: &mut Vec<Finding>) {
    let config = &durable.config;
    if config.headers_only && facts.differences.is_empty() {
        let seen = "the durable leaves bodies out (headers_only), as the file expects: records have no body";
        findings.push(Finding::info(Code::HeadersOnly, seen));
    }
    if config.inactive_threshold > 0 {
        findings.push(Finding::warning(
            Code::InactiveThreshold,
            format!(
                "the durable has an inactive threshold of {}: the server deletes it when nobody pulls for that long",
                time(config.inactive_threshold)
            ),
            "take the inactive threshold away",
        ));
    }
    if durable.paused {
        findings.push(Finding::warning(
            Code::DurablePaused,
            format!(
                "durable {} is paused: nothing is delivered, {} pending",
                durable.name, durable.num_pending
            ),
            "resume it (nats consumer resume)",
        ));
    }
    let Some(stream) = facts.stream.found() else { return };
    let subjects = &stream.config.subjects;
    for filter in config.filters() {
        if !subjects.is_empty() && !subjects.iter().any(|subject| overlaps(subject, &filter)) {
            findings.push(Finding::warning(
                Code::FilterOutsideStream,
                format!(
                    "filter {filter} is outside the subjects of stream {} ({})",
                    plan.stream,
                    subjects.join(", ")
                ),
                "correct the filter or the stream's subjects",
            ));
        }
    }
}
