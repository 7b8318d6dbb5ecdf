//! `[delivery]` → [`DeliverySettings`], with the checks against `[consumer]` and `[size_policy]`.

use std::time::Duration;

use super::Validator;
use crate::config::raw::{self, Delivery, Raw};
use crate::disposition::Backoff;
use crate::runner::{BreakerSettings, DeliverySettings, Order, TemporaryFailureAction};

/// Batches in hand at once, at the most: each holds a lease and its memory.
const MOST_BATCHES: u64 = 256;

/// The ack wait that a server gives a durable that asks for none.
const SERVERS_ACK_WAIT: Duration = Duration::from_secs(30);

pub(super) fn validate(root: &Raw, validator: &mut Validator<'_>) -> DeliverySettings {
    let raw = &root.delivery;
    check_batches(root, validator);
    check_order(root, validator);
    check_deadlines(root, validator);
    check_crash_limit(root, validator);
    let max_attempts = validator.count("delivery.max_attempts", raw.max_attempts, 1, u64::from(u32::MAX));
    let size = |validator: &mut Validator<'_>, key, bytes| validator.count(key, bytes, 1, u64::MAX);
    DeliverySettings {
        batch_size: size(validator, "delivery.batch_size", raw.batch_size),
        batch_bytes: size(validator, "delivery.batch_bytes", raw.batch_bytes.0),
        linger: raw.linger.0,
        max_in_flight_batches: validator.count(
            "delivery.max_in_flight_batches",
            raw.max_in_flight_batches,
            1,
            MOST_BATCHES,
        ),
        max_attempts: u32::try_from(max_attempts).unwrap_or(u32::MAX),
        crash_limit: raw.crash_limit,
        retry: retry(&raw.retry, validator),
        temporary_failure_action: match raw.temporary_failure_action {
            raw::TemporaryFailureAction::HoldBatch => TemporaryFailureAction::HoldBatch,
            raw::TemporaryFailureAction::Nak => TemporaryFailureAction::Nak,
            raw::TemporaryFailureAction::LeaveUnacked => TemporaryFailureAction::LeaveUnacked,
        },
        order: match raw.order {
            raw::Order::Stream => Order::Stream,
            raw::Order::Subject => Order::Subject,
            raw::Order::Any => Order::Any,
        },
        strict: raw.strict,
        in_progress: raw.in_progress,
        in_progress_cap: raw.in_progress_cap.0,
        confirm_every: raw.ack_confirmation.enabled,
        write_timeout: raw.write_timeout.0,
        shutdown_timeout: raw.shutdown_timeout.0,
        watch_interval: raw.watch_interval.0,
        max_parked: raw.max_parked.map(|count| size(validator, "delivery.max_parked", count)),
        parked_bytes: size(validator, "delivery.parked_bytes", raw.parked_bytes.0),
        ack_term_after_publish: root.dead_letter.ack_term_after_publish,
        breaker: breaker(&root.dead_letter.breaker, validator),
    }
}

/// The longest window of the breaker: one byte of memory for each message of it.
const LONGEST_WINDOW: u64 = 100_000;

fn breaker(raw: &raw::Breaker, validator: &mut Validator<'_>) -> Option<BreakerSettings> {
    let (rejected, of) = match (raw.rejected, raw.of) {
        (Some(rejected), Some(of)) => (rejected, of),
        (None, None) => return None,
        (Some(_), None) => {
            validator.missing("dead_letter.breaker.of", "write of how many messages so many are too many");
            return None;
        }
        (None, Some(_)) => {
            validator.missing("dead_letter.breaker.rejected", "write how many rejections are too many");
            return None;
        }
    };
    validator.require(
        rejected <= of,
        &["dead_letter.breaker.rejected", "dead_letter.breaker.of"],
        "more rejections than messages",
        "write a number that is not above dead_letter.breaker.of",
    );
    Some(BreakerSettings {
        rejected: validator.count("dead_letter.breaker.rejected", rejected, 1, LONGEST_WINDOW),
        of: validator.count("dead_letter.breaker.of", of, 1, LONGEST_WINDOW),
    })
}

fn check_batches(root: &Raw, validator: &mut Validator<'_>) {
    let Delivery { batch_size, linger, .. } = &root.delivery;
    let most = root.size_policy.max_batch_messages;
    if *batch_size > most {
        validator.refuse(
            &["delivery.batch_size", "size_policy.max_batch_messages"],
            format!("a batch of {batch_size} is above size_policy.max_batch_messages = {most}"),
            format!("lower delivery.batch_size to {most}, or raise the limit"),
        );
    }
    let pending = root.consumer.max_ack_pending.and_then(|limit| u64::try_from(limit).ok());
    if let Some(pending) = pending
        && !linger.0.is_zero()
        && *batch_size > pending
    {
        validator.refuse(
            &["delivery.linger", "delivery.batch_size", "consumer.max_ack_pending"],
            format!("a batch of {batch_size} can never fill while the server hands out {pending} at once"),
            format!("lower delivery.batch_size to {pending} or less, raise consumer.max_ack_pending, or remove the linger"),
        );
    }
}

fn check_order(root: &Raw, validator: &mut Validator<'_>) {
    let Delivery { temporary_failure_action: action, order, strict, .. } = &root.delivery;
    let holds = *action == raw::TemporaryFailureAction::HoldBatch;
    validator.require(
        holds || *order == raw::Order::Any,
        &["delivery.temporary_failure_action", "delivery.order"],
        "a record that is given back comes later, which breaks the order",
        "set delivery.order = \"any\", or temporary_failure_action = \"hold_batch\"",
    );
    if !strict {
        return;
    }
    validator.require(
        *order != raw::Order::Any,
        &["delivery.strict", "delivery.order"],
        "strict keeps an order, and order = \"any\" has none",
        "set delivery.order to \"stream\" or \"subject\"",
    );
    validator.require(
        holds,
        &["delivery.strict", "delivery.temporary_failure_action"],
        "strict retries in place only",
        "set delivery.temporary_failure_action = \"hold_batch\"",
    );
    if root.consumer.max_ack_pending != Some(1) {
        validator.warn(
            "delivery.strict: run one jetsink on this durable (or a pinned one), or set consumer.max_ack_pending = 1",
        );
    }
}

fn check_deadlines(root: &Raw, validator: &mut Validator<'_>) {
    let raw = &root.delivery;
    let second = Duration::from_secs(1);
    validator.at_least("delivery.write_timeout", raw.write_timeout.0, second);
    validator.at_least("delivery.watch_interval", raw.watch_interval.0, second);
    validator.at_least("delivery.shutdown_timeout", raw.shutdown_timeout.0, second);
    validator.require(
        raw.shutdown_timeout.0 > root.consumer.expires.0,
        &["delivery.shutdown_timeout", "consumer.expires"],
        "an orderly stop waits until every open pull has ended, and that takes up to consumer.expires",
        "make delivery.shutdown_timeout longer than consumer.expires",
    );
    if raw.in_progress {
        validator.require(
            raw.in_progress_cap.0 >= raw.write_timeout.0,
            &["delivery.in_progress_cap", "delivery.write_timeout"],
            "a delivery would be given up while its write is still allowed to run",
            "make delivery.in_progress_cap as long as delivery.write_timeout, or longer",
        );
    } else {
        let backoff = root.consumer.backoff.iter().map(|wait| wait.0).min();
        let ack_wait = root.consumer.ack_wait.map(|wait| wait.0).or(backoff);
        validator.require(
            raw.write_timeout.0 < ack_wait.unwrap_or(SERVERS_ACK_WAIT),
            &["delivery.write_timeout", "delivery.in_progress", "consumer.ack_wait", "consumer.backoff"],
            "without in_progress a write may outlast the ack wait (30s when consumer.ack_wait is not set), and its messages \
             would be delivered again",
            "make delivery.write_timeout shorter than the ack wait, set consumer.ack_wait to a longer one, or set \
             delivery.in_progress = true",
        );
    }
}

fn check_crash_limit(root: &Raw, validator: &mut Validator<'_>) {
    let limit = root.delivery.crash_limit;
    validator.require(
        limit >= 2,
        &["delivery.crash_limit"],
        "a message would be called a crash before it had a second chance",
        "write 2 or more",
    );
    let max_deliver = root.consumer.max_deliver.and_then(|deliveries| u64::try_from(deliveries).ok());
    if let Some(deliveries) = max_deliver.filter(|deliveries| *deliveries <= limit) {
        validator.warn(format!(
            "consumer.max_deliver = {deliveries} is not above delivery.crash_limit = {limit}: the server may give up on a \
             message first; the crash limit will be one below it. Better: max_deliver = -1"
        ));
    }
}

fn retry(raw: &raw::Retry, validator: &mut Validator<'_>) -> Backoff {
    validator.at_least("delivery.retry.initial", raw.initial.0, Duration::from_millis(1));
    validator.require(
        raw.initial.0 <= raw.max.0,
        &["delivery.retry.initial", "delivery.retry.max"],
        "the first delay is longer than the longest",
        "lower delivery.retry.initial, or raise delivery.retry.max",
    );
    validator.require(
        (1.0..=100.0).contains(&raw.multiplier),
        &["delivery.retry.multiplier"],
        "is out of range",
        "write a number from 1 to 100; 2 doubles the delay each time",
    );
    validator.require(
        (0.0..=0.5).contains(&raw.jitter),
        &["delivery.retry.jitter"],
        "is out of range",
        "write a number from 0 to 0.5: the share of a delay that is random",
    );
    Backoff { initial: raw.initial.0, max: raw.max.0, multiplier: raw.multiplier, jitter: raw.jitter }
}
