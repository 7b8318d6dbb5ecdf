//! Every metric of the daemon, registered once at start (docs/metrics.md).

use prometheus::{IntGauge, Opts, Registry, TextEncoder};

use super::health::{Health, NotReady};
use super::labels::{AdvisoryOutcome, KeyReload, PublishFailure, PullStatus, StreamLimit};
use super::measures::{
    Counter, CounterBy, DurationHistogram, Gauge, GaugeBy, RatioBy, Register, SizeHistogram,
};
use crate::reason::{ReasonCode, Stage};

/// Why the metrics could not be set up or shown.
#[derive(Debug, thiserror::Error)]
#[error("the metrics cannot be set up or shown")]
pub struct MetricsError(#[from] prometheus::Error);

/// Declares the metrics: the documentation of a field is the help text of its metric.
macro_rules! metrics {
    ($(#[doc = $help:literal] $field:ident: $kind:ty = $name:literal,)*) => {
        /// The metrics. Share them in an `Arc`; every field counts by atomics.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            $(#[doc = $help] pub $field: $kind,)*
        }

        impl Metrics {
            fn register(registry: Registry) -> Result<Self, MetricsError> {
                Ok(Self {
                    $($field: <$kind as Register>::register(&registry, $name, $help.trim())?,)*
                    registry,
                })
            }
        }
    };
}

metrics! {
    /// Deliveries that came in.
    messages_received: Counter = "jetsink_messages_received_total",
    /// Deliveries that came in and that the server had tried before.
    redeliveries_received: Counter = "jetsink_redeliveries_received_total",
    /// Messages that are durable in the sink.
    messages_committed: Counter = "jetsink_messages_committed_total",
    /// Bytes of body, headers and subject of the messages that are durable in the sink.
    bytes_committed: Counter = "jetsink_committed_bytes_total",
    /// Messages that were rejected, by stage and reason code.
    messages_rejected: CounterBy<(Stage, ReasonCode)> = "jetsink_messages_rejected_total",
    /// Messages that passed although the policy would reject them (mode warn), by reason code.
    policy_warnings: CounterBy<ReasonCode> = "jetsink_policy_warnings_total",
    /// Times that the keys of authenticity rules were read again, by outcome.
    key_reloads: CounterBy<KeyReload> = "jetsink_key_reloads_total",
    /// Dead letters that their stream has confirmed.
    dead_letters_published: Counter = "jetsink_dead_letters_published_total",
    /// Dead letters that their stream had already.
    dead_letters_duplicate: Counter = "jetsink_dead_letters_duplicate_total",
    /// Attempts to publish a dead letter that were not confirmed.
    dead_letter_publish_failures: CounterBy<PublishFailure> = "jetsink_dead_letter_publish_failures_total",
    /// Messages that are lost: the server delivers them no more and their bodies are gone; each has a dead letter without a body.
    messages_lost: Counter = "jetsink_messages_lost_total",
    /// Advisories about messages that the server delivers no more, by outcome.
    advisories: CounterBy<AdvisoryOutcome> = "jetsink_advisories_total",
    /// 1 while the durable of the advisory stream is bound, else 0.
    advisory_stream_bound: Gauge = "jetsink_advisory_stream_bound",
    /// Messages of a work-queue stream that its durable delivers no more and nobody has removed.
    exhausted_messages: Gauge = "jetsink_exhausted_messages",
    /// Acknowledgements sent.
    acks_sent: Counter = "jetsink_acks_sent_total",
    /// Terminations sent.
    terms_sent: Counter = "jetsink_terms_sent_total",
    /// Negative acknowledgements sent: deliveries given back.
    naks_sent: Counter = "jetsink_naks_sent_total",
    /// Settlements that the server did not confirm in time.
    settlements_unconfirmed: Counter = "jetsink_settlements_unconfirmed_total",
    /// Settlements dropped because the durable they belong to is gone.
    settlements_gone: Counter = "jetsink_settlements_gone_total",
    /// Terminations that the server did not confirm in time.
    terms_unconfirmed: Counter = "jetsink_terms_unconfirmed_total",
    /// Ack waits that were started anew (in progress).
    leases_extended: Counter = "jetsink_leases_extended_total",
    /// Deliveries dropped without a settlement; they come back after the ack wait.
    deliveries_dropped: Counter = "jetsink_deliveries_dropped_total",
    /// Deletion markers of the stream that were acknowledged; they are not data.
    markers_acknowledged: Counter = "jetsink_markers_acknowledged_total",
    /// Deliveries of a message that was in hand already.
    second_deliveries: Counter = "jetsink_second_deliveries_total",
    /// Failed attempts that were counted against a record.
    attempts_counted: Counter = "jetsink_attempts_counted_total",
    /// Records that were given to the sink again.
    retries: Counter = "jetsink_retries_total",
    /// Holds begun: times the sink was found to be down.
    holds: Counter = "jetsink_holds_total",
    /// 1 while the daemon holds because the sink is down, else 0.
    hold_active: Gauge = "jetsink_hold_active",
    /// Deliveries in hand: received and not settled.
    in_hand_messages: Gauge = "jetsink_in_hand_messages",
    /// Bytes of body, headers and subject of the deliveries in hand.
    in_hand_bytes: Gauge = "jetsink_in_hand_bytes",
    /// Rejected deliveries that wait for the dead-letter stream.
    parked_messages: Gauge = "jetsink_parked_messages",
    /// Bytes of body, headers and subject of the rejected deliveries that wait.
    parked_bytes: Gauge = "jetsink_parked_bytes",
    /// Rejected deliveries that the breaker keeps back.
    withheld_messages: Gauge = "jetsink_withheld_messages",
    /// 1 while the daemon holds because too many messages are rejected, else 0.
    breaker_open: Gauge = "jetsink_breaker_open",
    /// Times that too many of the last messages were rejected.
    breaker_trips: Counter = "jetsink_breaker_trips_total",
    /// Messages that one pull may ask for after suspicious redeliveries.
    suspicion_pull_cap: Gauge = "jetsink_suspicion_pull_cap",
    /// Time from the call of the sink to its answer, by batch.
    write_seconds: DurationHistogram = "jetsink_write_seconds",
    /// Records of a batch.
    batch_records: SizeHistogram = "jetsink_batch_records",
    /// Status lines about pulls, by class.
    pull_statuses: CounterBy<PullStatus> = "jetsink_pull_statuses_total",
    /// Pulls given up because the server's idle heartbeat did not come.
    missed_heartbeats: Counter = "jetsink_missed_heartbeats_total",
    /// Permission violations that the server reported.
    permission_violations: Counter = "jetsink_permission_violations_total",
    /// Connections made to a server, the first one included.
    connects: Counter = "jetsink_connects_total",
    /// Connections or clients that ended while deliveries were outstanding.
    client_deaths: Counter = "jetsink_client_deaths_total",
    /// Messages found that no client can be handed; they are dead-lettered.
    undeliverable_found: Counter = "jetsink_undeliverable_messages_total",
    /// Messages that end the connection, cannot be read, and are kept from being delivered.
    undeliverable_held: Gauge = "jetsink_undeliverable_held_messages",
    /// Messages that the durable has not delivered yet.
    consumer_pending: Gauge = "jetsink_consumer_pending_messages",
    /// Deliveries of the durable that are not settled, of all daemons.
    consumer_ack_pending: Gauge = "jetsink_consumer_ack_pending_messages",
    /// Deliveries of the durable that are not settled and were tried before, of all daemons.
    consumer_redelivered: Gauge = "jetsink_consumer_redelivered_messages",
    /// Stream sequence up to which everything is settled.
    consumer_ack_floor: Gauge = "jetsink_consumer_ack_floor_sequence",
    /// Deliveries that may be unsettled (max_ack_pending); 0 = no limit.
    consumer_ack_pending_limit: Gauge = "jetsink_consumer_ack_pending_limit_messages",
    /// How long the ack floor has not moved while something was open.
    consumer_ack_floor_age: Gauge = "jetsink_consumer_ack_floor_age_seconds",
    /// Messages that the stream stores.
    stream_messages: Gauge = "jetsink_stream_messages",
    /// Bytes that the stream stores.
    stream_bytes: Gauge = "jetsink_stream_bytes",
    /// Sequence of the first stored message.
    stream_first_sequence: Gauge = "jetsink_stream_first_sequence",
    /// Sequence of the last published message; its rate is the publish rate.
    stream_last_sequence: Gauge = "jetsink_stream_last_sequence",
    /// Messages gone between the first and the last.
    stream_deleted: Gauge = "jetsink_stream_deleted_messages",
    /// Consumers of the stream.
    stream_consumers: Gauge = "jetsink_stream_consumers",
    /// Part of a limit of the stream that is used; 0 without a limit.
    stream_limit_fill: RatioBy<StreamLimit> = "jetsink_stream_limit_fill_ratio",
    /// Messages seen to be published to an interest stream and stored for nobody.
    stream_vanished: Counter = "jetsink_stream_vanished_messages_total",
    /// Messages seen to be deleted after they were delivered and before the ack floor passed them.
    stream_deleted_in_flight: Counter = "jetsink_stream_deleted_in_flight_messages_total",
    /// Messages seen to be removed before they were delivered.
    stream_removed_unread: Counter = "jetsink_stream_removed_unread_messages_total",
    /// Changes of the leader of stream or durable that were seen.
    leader_changes: Counter = "jetsink_leader_changes_total",
    /// Looks at stream and durable that failed.
    watch_failures: Counter = "jetsink_watch_failures_total",
    /// 1 while the daemon is ready, else 0.
    ready: Gauge = "jetsink_ready",
    /// 1 for each reason why the daemon is not ready, else 0.
    not_ready: GaugeBy<NotReady> = "jetsink_not_ready",
}

impl Metrics {
    /// Registers every metric in a registry of its own.
    ///
    /// # Errors
    /// Two metrics share a name: a mistake in this file.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let options = Opts::new("jetsink_build_info", "Always 1; the label tells the version.")
            .const_label("version", env!("CARGO_PKG_VERSION"));
        let build_info = IntGauge::with_opts(options)?;
        build_info.set(1);
        registry.register(Box::new(build_info))?;
        Self::register(registry)
    }

    /// The metrics in the text format of Prometheus, readiness included.
    ///
    /// # Errors
    /// The encoder refuses the registry: a mistake in this file.
    pub fn encode(&self, health: &Health) -> Result<String, MetricsError> {
        let reasons = health.reasons();
        self.ready.set(i32::from(reasons.is_empty()));
        for reason in NotReady::ALL {
            self.not_ready.set(*reason, i32::from(reasons.iter().any(|(own, _)| own == reason)));
        }
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::measures::Label as _;
    use super::*;

    #[tokio::test]
    async fn everything_is_shown_from_the_start_with_its_labels() {
        let metrics = Metrics::new().unwrap();
        let health = Health::new();
        metrics.messages_received.add(3_usize);
        metrics.messages_rejected.increment((Stage::Size, ReasonCode::PayloadTooLarge));
        metrics.messages_rejected.increment((Stage::Policy, ReasonCode::PayloadTooLarge));
        metrics.consumer_pending.set(2_000_000_u64);
        metrics.batch_records.observe(500);
        metrics.write_seconds.observe(std::time::Duration::from_millis(3));
        let text = metrics.encode(&health).unwrap();
        for line in [
            "jetsink_messages_received_total 3",
            "jetsink_messages_rejected_total{reason=\"payload_too_large\",stage=\"size\"} 1",
            "jetsink_messages_rejected_total{reason=\"payload_too_large\",stage=\"policy\"} 1",
            "jetsink_messages_rejected_total{reason=\"suspected_crash\",stage=\"delivery\"} 0",
            "jetsink_dead_letter_publish_failures_total{kind=\"unconfirmed\"} 0",
            "jetsink_pull_statuses_total{class=\"consumer_deleted\"} 0",
            "jetsink_consumer_pending_messages 2000000",
            "jetsink_batch_records_bucket{le=\"500\"} 1",
            "jetsink_batch_records_bucket{le=\"200\"} 0",
            "jetsink_write_seconds_bucket{le=\"0.005\"} 1",
            "jetsink_ready 0",
            "jetsink_not_ready{reason=\"starting\"} 1",
            "jetsink_not_ready{reason=\"draining\"} 0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is missing in\n{text}");
        }
        assert!(text.contains("jetsink_build_info{version=\""));
        health.clear(NotReady::Starting);
        let text = metrics.encode(&health).unwrap();
        assert!(text.lines().any(|own| own == "jetsink_ready 1"));
        assert!(text.lines().any(|own| own == "jetsink_not_ready{reason=\"starting\"} 0"));
    }

    #[test]
    fn the_page_lists_every_metric_and_no_other() {
        let page = include_str!("../../docs/metrics.md");
        let rows: Vec<_> = Metrics::new()
            .unwrap()
            .registry
            .gather()
            .iter()
            .map(|family| {
                let labels: Vec<_> = family.get_metric()[0]
                    .get_label()
                    .iter()
                    .map(|label| format!("`{}`", label.name()))
                    .collect();
                let kind = format!("{:?}", family.get_field_type()).to_lowercase();
                format!("| `{}` | {kind} | {} | {} |", family.name(), labels.join(", "), family.help())
            })
            .collect();
        let shown: Vec<_> = page.lines().filter(|line| line.starts_with("| `jetsink_")).collect();
        assert_eq!(shown, rows, "docs/metrics.md should hold these rows:\n{}", rows.join("\n"));
        for values in [
            PublishFailure::all().into_iter().flat_map(PublishFailure::values).collect::<Vec<_>>(),
            PullStatus::all().into_iter().flat_map(PullStatus::values).collect(),
            NotReady::ALL.iter().map(|reason| reason.as_str()).collect(),
        ] {
            for value in values {
                assert!(page.contains(&format!("| `{value}` |")), "{value} is missing in docs/metrics.md");
            }
        }
    }
}
