//! What the configuration means for `preflight`, and the look at the start of the daemon.

use std::time::Duration;

use tracing::{error, info, warn};

use crate::config::Settings;
use crate::nats::{BindMode, BoundConsumer, Connection, FactsReader, NatsError, advisory_durable};
use crate::preflight::{Code, Finding, LetterPlan, Level, Plan, inspect};

/// Deadline of one request of the look at the start: a denied permission looks like silence.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the configuration means to do.
pub(crate) fn plan(settings: &Settings) -> Plan {
    let Settings { consumer, delivery, connection, .. } = settings;
    let in_hand = delivery.batch_size.saturating_mul(delivery.max_in_flight_batches);
    let letters = settings.dead_letter.as_ref().map(|letters| LetterPlan {
        pattern: letters
            .pattern(&consumer.stream, &consumer.durable)
            .map_or_else(|_| letters.subject.clone(), |pattern| pattern.as_str().to_owned()),
        subjects: letters.all(&consumer.stream, &consumer.durable),
        stream: letters.stream.clone(),
        advisories: letters
            .advisories
            .stream
            .clone()
            .map(|stream| (stream, advisory_durable(&consumer.stream, &consumer.durable))),
    });
    Plan {
        stream: consumer.stream.clone(),
        durable: consumer.durable.clone(),
        may_create: consumer.mode == BindMode::CreateIfMissing,
        filters: consumer.filter_subjects.clone(),
        in_hand,
        batch_size: delivery.batch_size,
        batch_bytes: delivery.batch_bytes,
        batches: delivery.max_in_flight_batches,
        pull_messages: (in_hand / 2).max(1),
        expires: consumer.expires,
        in_progress: delivery.in_progress,
        write_timeout: delivery.write_timeout,
        linger: delivery.linger,
        max_attempts: u64::from(delivery.max_attempts),
        crash_limit: delivery.crash_limit,
        dead_letters: letters,
        api: connection
            .domain
            .as_ref()
            .map_or_else(|| "$JS.API".into(), |domain| format!("$JS.{domain}.API")),
        inbox: connection.inbox_prefix.clone().unwrap_or_else(|| "_INBOX".into()),
    }
}

/// Looks, and logs what was found. Facts and warnings are logged once, at the start; what is refused is refused at every bind.
/// The dead-letter stream is the publisher's: it looks by itself, now and later.
///
/// # Errors
/// Something was found on which the daemon must not run.
pub(super) async fn look(
    connection: &Connection,
    settings: &Settings,
    bound: &BoundConsumer,
    is_start: bool,
) -> Result<(), NatsError> {
    let mut plan = plan(settings);
    plan.dead_letters = None;
    let reader = FactsReader::new(connection, PATIENCE);
    // A connection that is built anew shall work again soon: what is refused can be seen by the durable alone.
    let mut facts = if is_start {
        reader.read(&settings.consumer, &plan, Vec::new()).await
    } else {
        reader.read_durable(&settings.consumer, &plan).await
    };
    facts.created_now = bound.created_now;
    let findings = inspect(&plan, &facts);
    for finding in findings.iter().filter(|finding| is_start && finding.code != Code::DeadLetterNotConfigured)
    {
        log(finding);
    }
    match findings.iter().find(|finding| finding.level == Level::Refusal) {
        Some(refusal) => Err(NatsError::Settings(refusal.text())),
        None => Ok(()),
    }
}

fn log(finding: &Finding) {
    let (code, text) = (finding.code.as_str(), finding.text());
    match finding.level {
        Level::Info => info!(code, "{text}"),
        Level::Warning => warn!(code, "{text}"),
        Level::Refusal => error!(code, "{text}"),
    }
}
