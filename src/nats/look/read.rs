//! Reads the facts: several requests at once, each with a deadline, none of which changes anything.

use std::time::Duration;

use futures_util::future::join;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::nats::advisories::names::advisory_subjects;
use crate::nats::client::connect::Connection;
use crate::nats::durable::drift::differences;
use crate::nats::error::{ApiError, NatsError};
use crate::nats::isolation::stored::StreamReader;
use crate::nats::settings::ConsumerSettings;
use crate::preflight::{
    ConsumerFacts, DeadLetterFacts, Facts, Outcome, Plan, Seen, ServerFacts, StreamFacts, Trial,
};
use crate::subject::SubjectPattern;

/// Consumers that are looked at.
const CONSUMERS: usize = 2000;
/// Deleted sequences that are read.
const LISTED: u64 = 10_000;
/// Exhausted messages that are named.
const NAMED: usize = 10;

/// Reads facts of one server, stream and durable.
#[derive(Clone, Debug)]
pub struct FactsReader {
    connection: Connection,
    deadline: Duration,
}

#[derive(Deserialize)]
struct ConsumerPage {
    #[serde(default)]
    total: usize,
    #[serde(default)]
    consumers: Option<Vec<ConsumerFacts>>,
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    streams: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Details {
    state: DetailedState,
}

#[derive(Deserialize)]
struct DetailedState {
    deleted: Option<Vec<u64>>,
}

impl FactsReader {
    /// `deadline`: of each request.
    #[must_use]
    pub fn new(connection: &Connection, deadline: Duration) -> Self {
        Self { connection: connection.clone(), deadline }
    }

    /// Everything. What the trials found to be denied is not asked for.
    pub async fn read(&self, consumer: &ConsumerSettings, plan: &Plan, trials: Vec<Trial>) -> Facts {
        let asker = Asker { reader: self, trials: &trials };
        let about_stream = format!("STREAM.INFO.{}", plan.stream);
        let stream = asker.one::<StreamFacts>(&about_stream, &Value::Null);
        let durable = asker.durable(consumer, plan);
        let consumers = asker.consumers(plan);
        let (dead_letters, advisories) = (asker.dead_letters(plan), asker.advisories(plan));
        // All at once: what is denied costs one deadline, not one each.
        let (both, others) = (join(stream, durable), join(consumers, join(dead_letters, advisories)));
        let (both, (consumers, (dead_letters, advisory_streams))) = join(both, others).await;
        let (stream, (durable, differences)) = both;
        let exhausted = asker.exhausted(plan, &stream, &durable).await;
        Facts {
            server: self.server(),
            stream,
            durable,
            created_now: false,
            differences,
            consumers,
            exhausted,
            dead_letters,
            advisory_streams,
            trials,
            now: i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX),
        }
    }

    /// Server and durable only: one request.
    pub async fn read_durable(&self, consumer: &ConsumerSettings, plan: &Plan) -> Facts {
        let (durable, differences) = Asker { reader: self, trials: &[] }.durable(consumer, plan).await;
        Facts { server: self.server(), durable, differences, ..Facts::default() }
    }

    fn server(&self) -> ServerFacts {
        ServerFacts { version: self.connection.server_version(), max_payload: self.connection.max_payload() }
    }

    /// Stream and durable for the watch; the sequences that are gone when their number is above the one before.
    ///
    /// # Errors
    /// One of the two cannot be read.
    pub async fn look(
        &self,
        stream: &str,
        durable: &str,
        deleted_before: Option<u64>,
    ) -> Result<(StreamFacts, ConsumerFacts, Vec<u64>), NatsError> {
        let asker = Asker { reader: self, trials: &[] };
        let operation = format!("STREAM.INFO.{stream}");
        let found: StreamFacts = asker.call(&operation, &Value::Null).await?;
        let consumer = asker.call(&format!("CONSUMER.INFO.{stream}.{durable}"), &Value::Null).await?;
        let count = found.state.num_deleted;
        // A stream with more gaps than that answers with a list that is too long.
        if deleted_before.is_none_or(|before| count <= before) || count > LISTED {
            return Ok((found, consumer, Vec::new()));
        }
        let details: Details = asker.call(&operation, &json!({ "deleted_details": true })).await?;
        Ok((found, consumer, details.state.deleted.unwrap_or_default()))
    }
}

/// Asks what may be asked.
struct Asker<'a> {
    reader: &'a FactsReader,
    trials: &'a [Trial],
}

impl Asker<'_> {
    async fn call<T: DeserializeOwned>(&self, operation: &str, body: &Value) -> Result<T, ApiError> {
        let api = &self.reader.connection.api;
        let subject = api.subject(operation);
        let fails = |trial: &&Trial| trial.outcome != Outcome::Granted && trial.permission.subject == subject;
        if self.trials.iter().any(|trial| fails(&trial)) {
            return Err(ApiError::TimedOut { subject });
        }
        let answer = timeout(self.reader.deadline, api.call(operation, body)).await;
        answer.unwrap_or(Err(ApiError::TimedOut { subject }))
    }

    async fn one<T: DeserializeOwned>(&self, operation: &str, body: &Value) -> Seen<T> {
        match self.call(operation, body).await {
            Ok(found) => Seen::Found(found),
            Err(ApiError::StreamNotFound | ApiError::ConsumerNotFound) => Seen::Missing,
            Err(error) => Seen::Unseen(error.to_string()),
        }
    }

    async fn durable(&self, consumer: &ConsumerSettings, plan: &Plan) -> (Seen<ConsumerFacts>, Vec<String>) {
        let operation = format!("CONSUMER.INFO.{}.{}", plan.stream, plan.durable);
        let durable = self.one::<ConsumerFacts>(&operation, &Value::Null).await;
        let differences = durable.found().map(|durable| differences(consumer, &durable.config));
        (durable, differences.unwrap_or_default())
    }

    async fn consumers(&self, plan: &Plan) -> Seen<Vec<ConsumerFacts>> {
        let operation = format!("CONSUMER.LIST.{}", plan.stream);
        let mut found = Vec::new();
        loop {
            let page = match self.one::<ConsumerPage>(&operation, &json!({ "offset": found.len() })).await {
                Seen::Found(page) => page,
                Seen::Missing => return Seen::Missing,
                Seen::Unseen(why) => return Seen::Unseen(why),
                Seen::NotAsked => return Seen::NotAsked,
            };
            let more = page.consumers.unwrap_or_default();
            let is_last = more.is_empty() || found.len() + more.len() >= page.total.min(CONSUMERS);
            found.extend(more);
            if is_last {
                return Seen::Found(found);
            }
        }
    }

    async fn names(&self, subject: &str) -> Seen<Vec<String>> {
        match self.one::<Names>("STREAM.NAMES", &json!({ "subject": subject })).await {
            Seen::Found(names) => Seen::Found(names.streams.unwrap_or_default()),
            Seen::Missing => Seen::Missing,
            Seen::Unseen(why) => Seen::Unseen(why),
            Seen::NotAsked => Seen::NotAsked,
        }
    }

    async fn dead_letters(&self, plan: &Plan) -> DeadLetterFacts {
        let Some(letters) = &plan.dead_letters else { return DeadLetterFacts::default() };
        let capturing = self.names(&letters.pattern).await;
        let captured_by = capturing.found().and_then(|names| names.first());
        let name =
            letters.stream.as_ref().filter(|name| capturing.found().is_none_or(|all| all.contains(name)));
        let stream = match (name.or(captured_by), &capturing) {
            (Some(name), _) => self.one(&format!("STREAM.INFO.{name}"), &Value::Null).await,
            (None, Seen::Unseen(why)) => Seen::Unseen(why.clone()),
            (None, Seen::Found(_) | Seen::Missing | Seen::NotAsked) => Seen::NotAsked,
        };
        DeadLetterFacts { capturing, stream }
    }

    async fn advisories(&self, plan: &Plan) -> Seen<Vec<String>> {
        let [exhausted, _] = advisory_subjects(&plan.stream, &plan.durable);
        self.names(&exhausted).await
    }

    /// Messages of a work queue that the durable is done with and that are stored all the same.
    async fn exhausted(
        &self,
        plan: &Plan,
        stream: &Seen<StreamFacts>,
        durable: &Seen<ConsumerFacts>,
    ) -> Vec<u64> {
        let (Some(stream), Some(durable)) = (stream.found(), durable.found()) else { return Vec::new() };
        if stream.config.retention != "workqueue" {
            return Vec::new();
        }
        // With deliveries under way only what lies below the first of them is surely done with.
        let end = if durable.num_ack_pending == 0 {
            durable.delivered.stream_seq
        } else {
            durable.ack_floor.stream_seq
        };
        let patterns: Vec<_> =
            durable.config.filters().iter().filter_map(|filter| SubjectPattern::parse(filter).ok()).collect();
        let filter = match &durable.config.filters()[..] {
            [one] => one.clone(),
            _ => ">".to_owned(),
        };
        let messages = StreamReader::new(&self.reader.connection, &plan.stream);
        let mut found = Vec::new();
        let mut from = stream.state.first_seq;
        for _ in 0..NAMED * 4 {
            if from > end || found.len() >= NAMED {
                break;
            }
            let next = timeout(self.reader.deadline, messages.next(from, &filter)).await;
            let Ok(Ok(message)) = next else { break };
            if message.sequence > end {
                break;
            }
            if patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(&message.subject)) {
                found.push(message.sequence);
            }
            from = message.sequence + 1;
        }
        found
    }
}
