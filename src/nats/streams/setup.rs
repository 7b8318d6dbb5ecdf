//! Looking at a stream's configuration, and making a stream that does not exist. Nothing that exists is altered.

use serde_json::Value;

use crate::nats::client::connect::Connection;
use crate::nats::error::{ApiError, NatsError};

/// The configuration of a stream as the server states it; `None` when there is no such stream.
///
/// # Errors
/// The server does not say.
pub async fn stream_configuration(connection: &Connection, stream: &str) -> Result<Option<Value>, NatsError> {
    match connection.api.call::<Value>(&format!("STREAM.INFO.{stream}"), &Value::Null).await {
        Ok(mut info) => Ok(info.get_mut("config").map(Value::take)),
        Err(ApiError::StreamNotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes a stream.
///
/// # Errors
/// The server says no, for instance since a subject is captured by another stream.
pub async fn create_stream(connection: &Connection, stream: &str, config: &Value) -> Result<(), NatsError> {
    connection.api.call::<Value>(&format!("STREAM.CREATE.{stream}"), config).await?;
    Ok(())
}
