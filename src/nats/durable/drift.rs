//! What an existing durable must be, and where it differs from the configuration (field case 11).

use std::time::Duration;

use crate::nats::durable::bind::to_nanoseconds;
use crate::nats::settings::{ConsumerSettings, DeliverPolicy};
use crate::preflight::ConsumerConfig;

/// Every difference between the durable and the fields that the file sets, as `field: the server has …, the file says …`.
pub(in crate::nats) fn differences(settings: &ConsumerSettings, config: &ConsumerConfig) -> Vec<String> {
    let mut found = unusable(settings, config);
    let mut compare = |field: &str, server: String, file: Option<String>| {
        if let Some(file) = file.filter(|file| *file != server) {
            found.push(format!("{field}: the server has {server}, the file says {file}"));
        }
    };
    let nanoseconds = |duration: Duration| format!("{:?}", Duration::from_nanos(to_nanoseconds(duration)));
    if config.backoff.is_empty() || settings.backoff.is_empty() {
        let server = format!("{:?}", Duration::from_nanos(config.ack_wait));
        compare("ack_wait", server, settings.ack_wait.map(nanoseconds));
    }
    compare(
        "max_deliver",
        config.max_deliver.to_string(),
        settings.max_deliver.map(|value| value.to_string()),
    );
    let limit = settings.max_ack_pending.map(|value| value.to_string());
    compare("max_ack_pending", config.max_ack_pending.to_string(), limit);
    let steps = |steps: Vec<Duration>| format!("{steps:?}");
    let server = steps(config.backoff.iter().copied().map(Duration::from_nanos).collect());
    compare("backoff", server, Some(settings.backoff.clone()).filter(|list| !list.is_empty()).map(steps));
    let sorted = |mut subjects: Vec<String>| {
        subjects.sort();
        format!("{subjects:?}")
    };
    let file = Some(settings.filter_subjects.clone()).filter(|subjects| !subjects.is_empty()).map(sorted);
    compare("filter_subjects", sorted(config.filters()), file);
    compare("deliver_policy", server_policy(config), settings.deliver_policy.map(file_policy));
    if config.num_replicas > 0 {
        let file = settings.replicas.map(|replicas| replicas.to_string());
        compare("replicas", config.num_replicas.to_string(), file);
    }
    found
}

/// What no configuration can make usable.
fn unusable(settings: &ConsumerSettings, config: &ConsumerConfig) -> Vec<String> {
    let mut found = Vec::new();
    if config.deliver_subject.as_deref().is_some_and(|subject| !subject.is_empty()) {
        found.push("deliver_subject: it is a push consumer; only pull consumers are used".into());
    }
    if config.ack_policy != "explicit" {
        found.push(format!("ack_policy: the server has {}, only explicit is safe", config.ack_policy));
    }
    if config.headers_only && !settings.headers_only_expected {
        found.push(
            "headers_only: the server leaves bodies out; set consumer.headers_only = \"expected\" to record that".into(),
        );
    }
    if !config.headers_only && settings.headers_only_expected {
        found.push("headers_only: the server delivers bodies, the file expects none".into());
    }
    if !config.priority_groups.is_empty() {
        found.push("priority_groups: pulls of a priority group are not supported".into());
    }
    found
}

fn server_policy(config: &ConsumerConfig) -> String {
    match config.opt_start_seq {
        Some(sequence) if config.deliver_policy == "by_start_sequence" => {
            format!("start at sequence {sequence}")
        }
        Some(_) | None => config.deliver_policy.clone(),
    }
}

fn file_policy(policy: DeliverPolicy) -> String {
    match policy {
        DeliverPolicy::All => "all".into(),
        DeliverPolicy::New => "new".into(),
        DeliverPolicy::StartSequence(sequence) => format!("start at sequence {sequence}"),
    }
}
