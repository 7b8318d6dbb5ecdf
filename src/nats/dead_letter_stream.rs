//! The look at the dead-letter stream before the first message is pulled (field cases 15, 24, 25).

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{StreamConfig, StreamInfo};
use super::connect::Connection;
use super::consumer::BoundConsumer;
use super::error::{ApiError, NatsError};
use super::settings::PublisherSettings;
use crate::subject::SubjectPattern;

/// The stream that keeps dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterStream {
    /// Its name; `None` when the server does not tell us.
    pub name: Option<String>,
    /// The largest message it takes, if it has such a limit.
    pub max_message_bytes: Option<usize>,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    streams: Option<Vec<String>>,
}

/// Looks at the stream that captures `dead_letter.subject`.
///
/// # Errors
/// There is none, it is not the expected one, it would not confirm or not keep what it confirms, or the durable would be
/// handed its own dead letters.
pub async fn verify_dead_letter_stream(
    connection: &Connection,
    settings: &PublisherSettings,
    bound: &BoundConsumer,
) -> Result<DeadLetterStream, NatsError> {
    let name = match (&settings.stream, capturing_stream(connection, &settings.subject).await) {
        (Some(expected), Ok(Some(found))) if *expected != found => {
            return Err(refused(format!(
                "dead_letter.stream is {expected}, yet subject {} is captured by {found}",
                settings.subject
            )));
        }
        (_, Ok(None)) => {
            return Err(NatsError::Missing(format!(
                "no stream captures dead_letter.subject {}; create one, for instance: nats stream add DLQ --subjects '{}'",
                settings.subject, settings.subject
            )));
        }
        (_, Ok(Some(found))) => found,
        (Some(expected), Err(_)) => expected.clone(),
        (None, Err(error)) => return Ok(unseen(&error)),
    };
    let info: StreamInfo = match connection.api.call(&format!("STREAM.INFO.{name}"), &Value::Null).await {
        Ok(info) => info,
        Err(ApiError::StreamNotFound) => {
            return Err(NatsError::Missing(format!("stream {name} does not exist")));
        }
        Err(error) => return Ok(DeadLetterStream { name: Some(name), ..unseen(&error) }),
    };
    refuse_what_loses(&info.config, settings, bound)?;
    let warnings = warn_about(&info.config, bound.ack_wait);
    let max_message_bytes = usize::try_from(info.config.max_msg_size).ok().filter(|limit| *limit > 0);
    Ok(DeadLetterStream { name: Some(name), max_message_bytes, warnings })
}

/// The stream that captures a subject, if there is one.
///
/// # Errors
/// The server does not say.
pub async fn find_capturing_stream(
    connection: &Connection,
    subject: &str,
) -> Result<Option<String>, NatsError> {
    Ok(capturing_stream(connection, subject).await?)
}

async fn capturing_stream(connection: &Connection, subject: &str) -> Result<Option<String>, ApiError> {
    let names: Names = connection.api.call("STREAM.NAMES", &json!({ "subject": subject })).await?;
    Ok(names.streams.unwrap_or_default().into_iter().next())
}

fn unseen(error: &ApiError) -> DeadLetterStream {
    let warning = format!("the dead-letter stream cannot be looked at: {error}");
    DeadLetterStream { warnings: vec![warning], ..DeadLetterStream::default() }
}

fn refused(detail: String) -> NatsError {
    NatsError::DeadLetterStream(detail)
}

fn refuse_what_loses(
    config: &StreamConfig,
    settings: &PublisherSettings,
    bound: &BoundConsumer,
) -> Result<(), NatsError> {
    let name = &config.name;
    if config.no_ack {
        return Err(refused(format!("stream {name} has no_ack: it never confirms a publish")));
    }
    if config.sealed {
        return Err(refused(format!("stream {name} is sealed: it takes no message")));
    }
    if config.retention == "interest" {
        return Err(refused(format!(
            "stream {name} has interest retention: it confirms dead letters and keeps none without a consumer"
        )));
    }
    if *name == bound.names.stream {
        let subject = SubjectPattern::parse(&settings.subject).map_err(|error| refused(error.to_string()))?;
        let overlaps =
            |filter: &String| SubjectPattern::parse(filter).is_ok_and(|filter| filter.overlaps(&subject));
        if bound.filter_subjects.is_empty() || bound.filter_subjects.iter().any(overlaps) {
            return Err(refused(format!(
                "subject {} is delivered by the durable itself: dead letters would come back for ever",
                settings.subject
            )));
        }
    }
    Ok(())
}

fn warn_about(config: &StreamConfig, ack_wait: Duration) -> Vec<String> {
    let mut warnings = Vec::new();
    let name = &config.name;
    let is_limited = config.max_msgs > 0 || config.max_bytes > 0;
    if config.discard != "new" && is_limited {
        warnings.push(format!("dead-letter stream {name} discards its oldest messages when it is full"));
    }
    if config.retention == "workqueue" {
        warnings.push(format!(
            "dead-letter stream {name} is a work queue: reading a dead letter with acks removes it"
        ));
    }
    let window = Duration::from_nanos(config.duplicate_window);
    let wanted = 2 * ack_wait + RESTART;
    if window < wanted {
        warnings.push(format!(
            "the duplicate window of dead-letter stream {name} is {window:?}; below {wanted:?} (twice the ack wait and a \
             restart) a crash can store a dead letter twice"
        ));
    }
    warnings
}

/// What a restart may take.
const RESTART: Duration = Duration::from_secs(30);
