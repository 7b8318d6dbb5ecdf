//! Finding the stream that captures the advisories, and binding its durable.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::envelope::SourceNames;
use crate::nats::advisories::names::{advisory_durable, advisory_filter, advisory_subjects};
use crate::nats::client::connect::{Connection, Observer};
use crate::nats::dead_letters::stream::find_capturing_stream;
use crate::nats::durable::bind::{BindPlan, BoundConsumer, bind, to_nanoseconds};
use crate::nats::error::{ApiError, NatsError};
use crate::nats::settings::{AdvisorySettings, BindMode, ConsumerSettings, OnGone};
use crate::subject::SubjectPattern;

/// The ack wait of the advisory durable: what is in hand is kept by in-progress at a third of it.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// How long one pull stays open.
pub(in crate::nats) const EXPIRES: Duration = Duration::from_secs(5);

/// Where advisories are looked for.
#[derive(Clone, Debug)]
pub(in crate::nats) struct Place {
    pub(in crate::nats) settings: AdvisorySettings,
    pub(in crate::nats) mode: BindMode,
    pub(in crate::nats) names: Arc<SourceNames>,
}

/// The configuration of the durable that `jetsink dlq init`, or the daemon, makes on an advisory stream.
#[must_use]
pub fn advisory_durable_configuration(stream: &str, durable: &str) -> Value {
    json!({
        "durable_name": advisory_durable(stream, durable),
        "description": "Messages that the server gave up on, read by jetsink",
        "filter_subject": advisory_filter(stream, durable),
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "replay_policy": "instant",
        "ack_wait": to_nanoseconds(ACK_WAIT),
        "max_deliver": -1,
        "max_ack_pending": 1000,
    })
}

/// Makes the durable, unless it is there; says whether it was made.
///
/// # Errors
/// The server says no, or the existing one would not deliver the advisories.
pub async fn create_advisory_durable(
    connection: &Connection,
    advisory_stream: &str,
    stream: &str,
    durable: &str,
) -> Result<bool, NatsError> {
    let name = advisory_durable(stream, durable);
    let info =
        connection.api.call::<Value>(&format!("CONSUMER.INFO.{advisory_stream}.{name}"), &Value::Null).await;
    match info {
        Ok(_) => Ok(false),
        Err(ApiError::ConsumerNotFound) => {
            let config = advisory_durable_configuration(stream, durable);
            let body = json!({ "stream_name": advisory_stream, "config": config, "action": "create" });
            let operation = format!("CONSUMER.DURABLE.CREATE.{advisory_stream}.{name}");
            match connection.api.call::<Value>(&operation, &body).await {
                Ok(_) => Ok(true),
                Err(ApiError::ConsumerExists) => Ok(false),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

impl Place {
    /// The name of the durable.
    pub(in crate::nats) fn durable(&self) -> String {
        advisory_durable(&self.names.stream, &self.names.consumer)
    }

    /// The stream that captures the advisories; `None` when there is none.
    pub(in crate::nats) async fn find(&self, connection: &Connection) -> Result<Option<String>, NatsError> {
        if let Some(stream) = &self.settings.stream {
            return Ok(Some(stream.clone()));
        }
        let [exhausted, _] = advisory_subjects(&self.names.stream, &self.names.consumer);
        find_capturing_stream(connection, &exhausted).await
    }

    /// Binds the durable on that stream. `bound_before`: see [`BindPlan`].
    pub(in crate::nats) async fn bind(
        &self,
        connection: &Connection,
        stream: String,
        bound_before: Option<i64>,
    ) -> Result<BoundConsumer, NatsError> {
        let connection = connection.with_observer(Arc::new(Quiet));
        let settings = self.consumer(stream);
        let plan = BindPlan { bound_before, wanted_ack_pending: 1000 };
        let bound = bind(&connection, &settings, plan).await?;
        self.check(&bound)?;
        Ok(bound)
    }

    fn consumer(&self, stream: String) -> ConsumerSettings {
        ConsumerSettings {
            stream,
            durable: self.durable(),
            mode: self.mode,
            on_gone: OnGone::Wait,
            filter_subjects: vec![advisory_filter(&self.names.stream, &self.names.consumer)],
            deliver_policy: None,
            ack_wait: None,
            max_deliver: Some(-1),
            max_ack_pending: None,
            backoff: Vec::new(),
            replicas: None,
            headers_only_expected: false,
            expires: EXPIRES,
        }
    }

    fn check(&self, bound: &BoundConsumer) -> Result<(), NatsError> {
        let Some(stream) = &bound.stream else { return Ok(()) };
        let captured: Vec<_> =
            stream.subjects.iter().filter_map(|own| SubjectPattern::parse(own).ok()).collect();
        let subjects = advisory_subjects(&self.names.stream, &self.names.consumer);
        let missing = subjects.iter().find(|subject| !captured.iter().any(|own| own.matches(subject)));
        match missing {
            None => Ok(()),
            Some(subject) => Err(NatsError::Settings(format!(
                "advisory stream {} does not capture {subject}",
                bound.names.stream
            ))),
        }
    }
}

/// What happens to the pulls of advisories says nothing about the pipeline's own.
#[derive(Debug)]
struct Quiet;

impl Observer for Quiet {}
