//! The look at the dead-letter stream: before the first message is pulled, after every reconnect, and after every publish
//! that was not confirmed (field cases 15, 24, 25).

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::dead_letter::LetterSubject;
use crate::nats::client::api::{StreamConfig, StreamInfo};
use crate::nats::client::connect::Connection;
use crate::nats::durable::bind::BoundConsumer;
use crate::nats::error::{ApiError, NatsError};
use crate::nats::settings::PublisherSettings;
use crate::subject::SubjectPattern;

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
        let info: StreamInfo = match connection.api.call(&format!("STREAM.INFO.{name}"), &Value::Null).await {
            Ok(info) => info,
            Err(ApiError::StreamNotFound) => {
                return Err(NatsError::Missing(format!("stream {name} does not exist")));
            }
            Err(error) => return Ok(DeadLetterStream { name: Some(name), ..unseen(&error) }),
        };
        self.refuse_what_loses(&info.config)?;
        self.refuse_what_comes_back(&info.config.name, &pattern)?;
        let warnings = self.warn_about(&info.config, connection.max_payload());
        let max_message_bytes = usize::try_from(info.config.max_msg_size).ok().filter(|limit| *limit > 0);
        Ok(DeadLetterStream {
            name: Some(name),
            domain: info.domain,
            max_message_bytes,
            limits: Some(limits(&info.config)),
            warnings,
        })
    }

    fn refuse_what_loses(&self, config: &StreamConfig) -> Result<(), NatsError> {
        let name = &config.name;
        let fault = if config.no_ack {
            "has no_ack: it never confirms a publish"
        } else if config.sealed {
            "is sealed: it takes no message"
        } else if config.retention == "interest" {
            "has interest retention: it confirms dead letters and keeps none without a consumer"
        } else if config.mirror.is_some() {
            "is a mirror: nothing can be published to it"
        } else {
            return self.refuse_what_is_not_captured(config);
        };
        Err(refused(format!("stream {name} {fault}")))
    }

    fn refuse_what_is_not_captured(&self, config: &StreamConfig) -> Result<(), NatsError> {
        let captured: Vec<_> =
            config.subjects.iter().filter_map(|own| SubjectPattern::parse(own).ok()).collect();
        let is_lost = |subject: &String| !captured.iter().any(|own| own.matches(subject));
        match self.subject.all().into_iter().find(is_lost) {
            None => Ok(()),
            Some(subject) => Err(refused(format!(
                "stream {} does not capture {subject}, to which dead letters may go",
                config.name
            ))),
        }
    }

    fn refuse_what_comes_back(&self, name: &str, pattern: &SubjectPattern) -> Result<(), NatsError> {
        let overlaps =
            |filter: &String| SubjectPattern::parse(filter).is_ok_and(|filter| filter.overlaps(pattern));
        let is_delivered = self.filters.is_empty() || self.filters.iter().any(overlaps);
        let is_fed = self
            .fed_by
            .iter()
            .any(|(stream, subjects)| stream == name && (subjects.is_empty() || overlaps(subjects)));
        if is_delivered && name == self.source {
            return Err(refused(format!(
                "subject {pattern} is delivered by the durable itself: dead letters would come back for ever"
            )));
        }
        if is_delivered && is_fed {
            return Err(refused(format!(
                "stream {} takes messages from {name}, and the durable delivers them: dead letters would come back for ever",
                self.source
            )));
        }
        Ok(())
    }

    fn warn_about(&self, config: &StreamConfig, max_payload: usize) -> Vec<String> {
        let name = &config.name;
        let mut warnings = Vec::new();
        let is_limited = config.max_msgs > 0 || config.max_bytes > 0;
        if config.discard != "new" && is_limited {
            warnings.push(format!(
                "dead-letter stream {name} discards its oldest messages when it is full ({})",
                limits(config)
            ));
        }
        if config.max_msgs_per_subject > 0 && !config.discard_new_per_subject {
            warnings.push(format!(
                "dead-letter stream {name} keeps {} messages of a subject and discards older ones",
                config.max_msgs_per_subject
            ));
        }
        if config.retention == "workqueue" {
            warnings.push(format!(
                "dead-letter stream {name} is a work queue: reading a dead letter with acks removes it"
            ));
        }
        if usize::try_from(config.max_msg_size).is_ok_and(|limit| limit > 0 && limit < max_payload) {
            warnings.push(format!(
                "max_msg_size of dead-letter stream {name} is {} bytes, the server's max_payload {max_payload}: what does \
                 not fit into two messages stays on its stream",
                config.max_msg_size
            ));
        }
        let window = Duration::from_nanos(config.duplicate_window);
        let wanted = 2 * self.ack_wait + RESTART;
        if window < wanted {
            warnings.push(format!(
                "the duplicate window of dead-letter stream {name} is {window:?}; below {wanted:?} (twice the ack wait and \
                 a restart) a crash can store a dead letter twice"
            ));
        }
        warnings
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

/// The limits of a stream, in words.
fn limits(config: &StreamConfig) -> String {
    let mut limits = vec![format!("discard {}", if config.discard == "new" { "new" } else { "old" })];
    let positive = |limit: i64| (limit > 0).then_some(limit);
    limits.extend(positive(config.max_msgs).map(|limit| format!("max_msgs {limit}")));
    limits.extend(positive(config.max_bytes).map(|limit| format!("max_bytes {limit}")));
    limits.extend(positive(config.max_msgs_per_subject).map(|limit| format!("max_msgs_per_subject {limit}")));
    limits.extend(positive(config.max_msg_size).map(|limit| format!("max_msg_size {limit}")));
    let age = Duration::from_nanos(config.max_age);
    limits.extend((!age.is_zero()).then(|| format!("max_age {age:?}")));
    limits.push(format!("duplicate window {:?}", Duration::from_nanos(config.duplicate_window)));
    limits.join(", ")
}

/// What a restart may take.
const RESTART: Duration = Duration::from_secs(30);
