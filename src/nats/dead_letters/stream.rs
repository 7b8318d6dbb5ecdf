//! The look at the dead-letter stream: before the first message is pulled, after every reconnect, and after every publish
//! that was not confirmed (field cases 15, 24, 25).

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::dead_letter::LetterSubject;
use crate::nats::client::connect::Connection;
use crate::nats::durable::bind::BoundConsumer;
use crate::nats::error::{ApiError, NatsError};
use crate::nats::settings::PublisherSettings;
use crate::preflight::{Finding, LettersStream, Level, StreamFacts, judge_dead_letter_stream};

/// The stream that keeps dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterStream {
    /// Its name; `None` when the server does not tell us.
    pub name: Option<String>,
    /// The domain it is in, if the server has one and tells us.
    pub domain: Option<String>,
    /// The largest message it takes, if it has such a limit.
    pub max_message_bytes: Option<usize>,
    /// How it is limited, in words; `None` when the server does not tell us.
    pub limits: Option<String>,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

/// What the dead-letter stream must fit: the letters of one durable.
#[derive(Clone, Debug)]
pub(in crate::nats) struct LetterRoute {
    pub(in crate::nats) settings: PublisherSettings,
    pub(in crate::nats) subject: LetterSubject,
    /// The stream that the originals come from.
    source: String,
    /// Streams that it takes messages from, with the subjects it takes of them.
    fed_by: Vec<(String, String)>,
    filters: Vec<String>,
    ack_wait: Duration,
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    streams: Option<Vec<String>>,
}

/// Looks at the stream that captures the subjects of `[dead_letter]`.
///
/// # Errors
/// There is none, it is not the expected one, it captures only some of them, it would not confirm or not keep what it
/// confirms, or the durable would be handed its own dead letters.
pub async fn verify_dead_letter_stream(
    connection: &Connection,
    settings: &PublisherSettings,
    bound: &BoundConsumer,
) -> Result<DeadLetterStream, NatsError> {
    LetterRoute::new(settings.clone(), bound).verify(connection).await
}

impl LetterRoute {
    pub(in crate::nats) fn new(settings: PublisherSettings, bound: &BoundConsumer) -> Self {
        let names = &bound.names;
        let subject =
            LetterSubject::new(&settings.subject, &settings.subject_tokens, &names.stream, &names.consumer);
        Self {
            settings,
            subject,
            source: names.stream.clone(),
            fed_by: bound.stream.as_ref().map(|stream| stream.fed_by.clone()).unwrap_or_default(),
            filters: bound.filter_subjects.clone(),
            ack_wait: bound.ack_wait,
        }
    }

    pub(in crate::nats) async fn verify(
        &self,
        connection: &Connection,
    ) -> Result<DeadLetterStream, NatsError> {
        let pattern = self.subject.pattern().map_err(|error| refused(error.to_string()))?;
        let capturing = capturing_streams(connection, pattern.as_str()).await;
        let name = match (&self.settings.stream, capturing) {
            (_, Ok(streams)) if streams.is_empty() => {
                return Err(NatsError::Missing(format!(
                    "no stream captures dead_letter.subject {pattern}; create one, for instance: nats stream add DLQ \
                     --subjects '{pattern}'"
                )));
            }
            (Some(expected), Ok(streams)) if !streams.contains(expected) => {
                return Err(refused(format!(
                    "dead_letter.stream is {expected}, yet subject {pattern} is captured by {}",
                    streams.join(", ")
                )));
            }
            (Some(expected), Ok(_) | Err(_)) => expected.clone(),
            (None, Ok(mut streams)) => streams.swap_remove(0),
            (None, Err(error)) => return Ok(unseen(&error)),
        };
        let info: StreamFacts = match connection.api.call(&format!("STREAM.INFO.{name}"), &Value::Null).await
        {
            Ok(info) => info,
            Err(ApiError::StreamNotFound) => {
                return Err(NatsError::Missing(format!("stream {name} does not exist")));
            }
            Err(error) => return Ok(DeadLetterStream { name: Some(name), ..unseen(&error) }),
        };
        let letters = LettersStream {
            pattern: pattern.as_str(),
            subjects: &self.subject.all(),
            source: &self.source,
            fed_by: &self.fed_by,
            filters: &self.filters,
            ack_wait: self.ack_wait,
            max_payload: connection.max_payload(),
        };
        let findings = judge_dead_letter_stream(&letters, &info.config);
        if let Some(refusal) = findings.iter().find(|finding| finding.level == Level::Refusal) {
            return Err(refused(refusal.text()));
        }
        let max_message_bytes = usize::try_from(info.config.max_msg_size).ok().filter(|limit| *limit > 0);
        Ok(DeadLetterStream {
            name: Some(name),
            domain: info.domain,
            max_message_bytes,
            limits: Some(info.config.limits_in_words()),
            warnings: findings.iter().map(Finding::text).collect(),
        })
    }
}

/// The stream that captures a subject, if there is one.
///
/// # Errors
/// The server does not say.
pub async fn find_capturing_stream(
    connection: &Connection,
    subject: &str,
) -> Result<Option<String>, NatsError> {
    Ok(capturing_streams(connection, subject).await?.into_iter().next())
}

/// The streams that capture a subject, or some subject that the pattern stands for.
async fn capturing_streams(connection: &Connection, pattern: &str) -> Result<Vec<String>, ApiError> {
    let names: Names = connection.api.call("STREAM.NAMES", &json!({ "subject": pattern })).await?;
    Ok(names.streams.unwrap_or_default())
}

fn unseen(error: &ApiError) -> DeadLetterStream {
    let warning = format!("the dead-letter stream cannot be looked at: {error}");
    DeadLetterStream { warnings: vec![warning], ..DeadLetterStream::default() }
}

fn refused(detail: String) -> NatsError {
    NatsError::DeadLetterStream(detail)
}
