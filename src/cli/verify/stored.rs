//! Reading messages of a stream by sequence, without a consumer.

use std::sync::Arc;
use std::time::Duration;

use super::source::SourceError;
use crate::config::Settings;
use crate::nats::{Connection, NatsError, Observer, StoredMessage, StreamReader, apply_context};

const CLOSE: Duration = Duration::from_secs(2);

/// The messages with these sequences.
pub(super) fn read(
    settings: &Settings,
    stream: &str,
    sequences: &[u64],
) -> Result<Vec<StoredMessage>, SourceError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(SourceError::Runtime)?.block_on(get(settings, stream, sequences))?)
}

async fn get(settings: &Settings, stream: &str, sequences: &[u64]) -> Result<Vec<StoredMessage>, NatsError> {
    let mut connecting = settings.connection.clone();
    if let Some(context) = &settings.context {
        apply_context(context, &mut connecting)?;
    }
    let connection = Connection::open(&connecting, Arc::new(Silent)).await?;
    let reader = StreamReader::new(&connection, stream);
    let mut found = Vec::with_capacity(sequences.len());
    let mut failed = None;
    for sequence in sequences {
        match reader.get(*sequence).await {
            Ok(message) => found.push(message),
            Err(error) => failed = Some(error),
        }
    }
    connection.close(CLOSE).await;
    failed.map_or(Ok(found), |error| Err(error.into()))
}

/// A tool that asks once has nobody to tell; what is denied is not answered, and that is an error of its own.
#[derive(Debug)]
struct Silent;

impl Observer for Silent {}
