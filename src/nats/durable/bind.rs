//! Binding the durable: found or created, verified field by field, never rewritten.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::envelope::{Incarnation, SourceNames};
use crate::nats::advisories::claims::Claims;
use crate::nats::client::api::{ConsumerInfo, StreamInfo, in_memory, standpoint};
use crate::nats::client::connect::Connection;
use crate::nats::durable::drift::differences;
use crate::nats::durable::guard::Guard;
use crate::nats::durable::namesake::refuse_namesake;
use crate::nats::error::{ApiError, NatsError};
use crate::nats::isolation::quarantine::Quarantine;
use crate::nats::settings::{BindMode, ConsumerSettings, DeliverPolicy};
use crate::preflight::{self, nanoseconds};

/// A durable that was verified on this connection: explicit ack, pull, and what the configuration says.
#[derive(Clone, Debug)]
pub struct BoundConsumer {
    pub(in crate::nats) connection: Connection,
    pub(in crate::nats) guard: Arc<Guard>,
    pub(in crate::nats) names: Arc<SourceNames>,
    pub(in crate::nats) backoff: Vec<Duration>,
    pub(in crate::nats) headers_only: bool,
    pub(in crate::nats) max_batch: Option<usize>,
    pub(in crate::nats) max_bytes: Option<usize>,
    pub(in crate::nats) max_expires: Option<Duration>,
    pub(in crate::nats) max_waiting: Option<usize>,
    pub(in crate::nats) quarantine: Arc<Quarantine>,
    pub(in crate::nats) claims: Arc<Claims>,
    /// Its life.
    pub incarnation: Incarnation,
    /// The shortest ack wait a delivery may get: with a back-off list its shortest step replaces the ack wait.
    pub ack_wait: Duration,
    /// The longest one.
    pub longest_ack_wait: Duration,
    /// Deliveries that were not settled when it was bound.
    pub unsettled: usize,
    /// Of messages that were delivered more than once, as far as the server counts them.
    pub redelivered: usize,
    /// The highest stream sequence delivered when it was bound.
    pub delivered: u64,
    /// Deliveries that may be unsettled; `None` = unlimited.
    pub max_ack_pending: Option<usize>,
    /// Deliveries of one message; `None` = unlimited.
    pub max_deliver: Option<u64>,
    /// Subjects it filters; empty = all.
    pub filter_subjects: Vec<String>,
    /// What is known of the stream; `None` when STREAM.INFO is not permitted.
    pub stream: Option<StreamFacts>,
    /// It did not exist and was created now.
    pub created_now: bool,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

impl BoundConsumer {
    /// The same, with what earlier clients have learnt about messages that kill them.
    #[must_use]
    pub fn with_quarantine(mut self, quarantine: Arc<Quarantine>) -> Self {
        self.quarantine = quarantine;
        self
    }

    /// The same, where messages that the server gives up on are learnt from advisories.
    #[must_use]
    pub fn with_advisories(mut self) -> Self {
        self.claims = Arc::new(Claims::open());
        self
    }
}

/// What matters of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// When it was created, in nanoseconds since 1970.
    pub created: i64,
    /// Its subjects.
    pub subjects: Vec<String>,
    /// It keeps messages whatever consumers do (limits retention), so a dead letter may leave the body out.
    pub keeps_settled_messages: bool,
    /// It deletes what was settled.
    pub is_work_queue: bool,
    /// It deletes what no consumer wants.
    pub is_interest: bool,
    /// It puts deletion markers among its messages.
    pub makes_markers: bool,
    /// Streams of the same account that it takes messages from, with the subjects it takes of them (empty = all).
    pub fed_by: Vec<(String, String)>,
}

/// What one bind needs beside the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct BindPlan {
    /// The `created` of the stream that was bound before. On that very stream a durable that vanished is never created
    /// again: its position is lost with it, and starting over must be a person's decision.
    pub bound_before: Option<i64>,
    /// `max_ack_pending` of a durable that is created now, where the file does not set one: what the batches need.
    pub wanted_ack_pending: usize,
}

/// Binds the durable.
///
/// # Errors
/// It is missing and must not be created; it is a push consumer, or does not acknowledge explicitly; a field that the
/// configuration sets is different (all differences are named); the server cannot be asked.
pub async fn bind(
    connection: &Connection,
    settings: &ConsumerSettings,
    plan: BindPlan,
) -> Result<BoundConsumer, NatsError> {
    let stream = stream_facts(connection, &settings.stream).await;
    let mut warnings = Vec::new();
    let stream = match stream {
        Ok(stream) => Some(stream),
        Err(ApiError::StreamNotFound) => {
            return Err(NatsError::Missing(format!("stream {} does not exist", settings.stream)));
        }
        Err(error @ (ApiError::NoResponders { .. } | ApiError::Dead)) => return Err(error.into()),
        Err(error) => {
            warnings.push(format!("the stream cannot be looked at: {error}"));
            None
        }
    };
    let is_another_stream = match (plan.bound_before, &stream) {
        (None, _) => true,
        (Some(before), Some(stream)) => before != 0 && stream.created != before,
        (Some(_), None) => false,
    };
    let may_create = settings.mode == BindMode::CreateIfMissing && is_another_stream;
    let wanted = may_create.then_some(plan.wanted_ack_pending);
    let connects = connection.connects();
    let (info, created_now) = find_or_create(connection, settings, wanted).await?;
    refuse_namesake(connection, settings, &info.created).await?;
    let differences = differences(settings, &info.config);
    if !differences.is_empty() {
        let (stream, durable) = (settings.stream.clone(), settings.durable.clone());
        return Err(NatsError::Drift { stream, durable, differences });
    }
    connection.remember_durable(&settings.stream, &settings.durable);
    let guard = Guard::new(
        connection.clone(),
        SourceNames::shared(&settings.stream, &settings.durable),
        Incarnation(nanoseconds(&info.created)),
        connects,
        standpoint(&info),
    );
    Ok(bound(connection, guard, &info, stream, created_now, warnings))
}

async fn stream_facts(connection: &Connection, stream: &str) -> Result<StreamFacts, ApiError> {
    let info: StreamInfo = connection.api.call(&format!("STREAM.INFO.{stream}"), &Value::Null).await?;
    let fed_by = info.config.fed_by();
    Ok(StreamFacts {
        created: nanoseconds(&info.created),
        subjects: info.config.subjects,
        keeps_settled_messages: info.config.retention == "limits",
        is_work_queue: info.config.retention == "workqueue",
        is_interest: info.config.retention == "interest",
        makes_markers: info.config.allow_msg_ttl || info.config.subject_delete_marker_ttl > 0,
        fed_by,
    })
}

async fn find_or_create(
    connection: &Connection,
    settings: &ConsumerSettings,
    wanted_ack_pending: Option<usize>,
) -> Result<(ConsumerInfo, bool), NatsError> {
    let operation = format!("CONSUMER.INFO.{}.{}", settings.stream, settings.durable);
    match (connection.api.call(&operation, &Value::Null).await, wanted_ack_pending) {
        (Ok(info), _) => Ok((info, false)),
        (Err(ApiError::ConsumerNotFound), Some(wanted)) => {
            refuse_filters_of_old_server(connection, settings)?;
            match create(connection, settings, wanted).await {
                Ok(info) => Ok((info, true)),
                Err(ApiError::ConsumerExists) => {
                    Ok((connection.api.call(&operation, &Value::Null).await?, false))
                }
                Err(error) => Err(error.into()),
            }
        }
        (Err(ApiError::ConsumerNotFound), None) if settings.mode == BindMode::CreateIfMissing => {
            Err(NatsError::Missing(format!(
                "durable {} of stream {} has vanished and its position with it; create it by hand where it shall go on, \
                 or start jetsink again to begin as the configuration says",
                settings.durable, settings.stream
            )))
        }
        (Err(ApiError::ConsumerNotFound), None) => Err(NatsError::Missing(format!(
            "durable {} of stream {} does not exist; create it, or set consumer.mode = \"create_if_missing\"",
            settings.durable, settings.stream
        ))),
        (Err(ApiError::StreamNotFound), _) => {
            Err(NatsError::Missing(format!("stream {} does not exist", settings.stream)))
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Creates the durable with exactly what the file says, explicit acks and no delivery limit of its own.
async fn create(
    connection: &Connection,
    settings: &ConsumerSettings,
    wanted_ack_pending: usize,
) -> Result<ConsumerInfo, ApiError> {
    let mut config = json!({
        "durable_name": settings.durable,
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "deliver_policy": "all",
        "max_deliver": settings.max_deliver.unwrap_or(-1),
    });
    let mut set = |key: &str, value: Value| {
        if let Some(fields) = config.as_object_mut() {
            fields.insert(key.into(), value);
        }
    };
    match settings.deliver_policy {
        None | Some(DeliverPolicy::All) => {}
        Some(DeliverPolicy::New) => set("deliver_policy", json!("new")),
        Some(DeliverPolicy::StartSequence(sequence)) => {
            set("deliver_policy", json!("by_start_sequence"));
            set("opt_start_seq", json!(sequence));
        }
    }
    match settings.filter_subjects.as_slice() {
        [] => {}
        [one] => set("filter_subject", json!(one)),
        several => set("filter_subjects", json!(several)),
    }
    if let Some(ack_wait) = settings.ack_wait {
        set("ack_wait", json!(to_nanoseconds(ack_wait)));
    }
    if !settings.backoff.is_empty() {
        let steps: Vec<u64> = settings.backoff.iter().copied().map(to_nanoseconds).collect();
        set("backoff", json!(steps));
    }
    let limit = settings.max_ack_pending.or_else(|| i64::try_from(wanted_ack_pending).ok());
    set("max_ack_pending", json!(limit.unwrap_or(1000)));
    if let Some(replicas) = settings.replicas {
        set("num_replicas", json!(replicas));
    }
    if settings.headers_only_expected {
        set("headers_only", json!(true));
    }
    // The older form of the request, which every server knows. Without the action it would rewrite a durable that somebody
    // else made meanwhile (measured on 2.15; 2.9 knows no action, and the moment between the question and this stays).
    let body = json!({ "stream_name": settings.stream, "config": config, "action": "create" });
    let operation = format!("CONSUMER.DURABLE.CREATE.{}.{}", settings.stream, settings.durable);
    connection.api.call(&operation, &body).await
}

/// A server below 2.10 takes a list of filters for nothing, and would make a durable that delivers everything.
fn refuse_filters_of_old_server(
    connection: &Connection,
    settings: &ConsumerSettings,
) -> Result<(), NatsError> {
    let version = connection.server_version();
    if settings.filter_subjects.len() > 1
        && preflight::version(&version).is_some_and(|version| version < (2, 10, 0))
    {
        return Err(NatsError::Settings(format!(
            "consumer.filter_subjects: nats-server {version} knows one filter subject only, several need 2.10"
        )));
    }
    Ok(())
}

/// The largest message that may come, with its subject and reply.
pub(in crate::nats) fn largest_message(connection: &Connection) -> usize {
    connection.max_payload() + 1024
}

pub(in crate::nats) fn to_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn bound(
    connection: &Connection,
    guard: Guard,
    info: &ConsumerInfo,
    stream: Option<StreamFacts>,
    created_now: bool,
    warnings: Vec<String>,
) -> BoundConsumer {
    let config = &info.config;
    let standpoint = standpoint(info);
    let limit = |limit: u64| usize::try_from(limit).ok().filter(|limit| *limit > 0);
    BoundConsumer {
        connection: connection.clone(),
        names: Arc::clone(guard.names()),
        incarnation: guard.incarnation(),
        guard: Arc::new(guard),
        backoff: config.backoff.iter().copied().map(Duration::from_nanos).collect(),
        headers_only: config.headers_only,
        max_batch: limit(config.max_batch),
        max_bytes: limit(config.max_bytes),
        max_expires: Some(config.max_expires).filter(|limit| *limit > 0).map(Duration::from_nanos),
        max_waiting: limit(config.max_waiting),
        quarantine: Arc::default(),
        claims: Arc::new(Claims::none()),
        ack_wait: Duration::from_nanos(config.shortest_wait()),
        longest_ack_wait: Duration::from_nanos(config.longest_wait()),
        unsettled: standpoint.ack_pending,
        redelivered: in_memory(info.num_redelivered),
        delivered: standpoint.delivered,
        max_ack_pending: usize::try_from(config.max_ack_pending).ok().filter(|limit| *limit > 0),
        max_deliver: u64::try_from(config.max_deliver).ok().filter(|limit| *limit > 0),
        filter_subjects: config.filters(),
        stream,
        created_now,
        warnings,
    }
}
