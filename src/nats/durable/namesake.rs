//! A durable of the same names in another domain of the account.
//!
//! A reply subject of the usual form (`$JS.ACK.<stream>.<durable>.…`) holds no domain. Where leaf connections join domains within
//! one account, every server that has a durable of these names hears an acknowledgement and settles its own message with it
//! (measured, 2.15.1): a message that nobody has written would be gone.

use serde_json::Value;

use crate::nats::client::api::ConsumerInfo;
use crate::nats::client::connect::Connection;
use crate::nats::error::NatsError;
use crate::nats::settings::ConsumerSettings;

/// Refuses to bind when the domain of the server that we are connected to has such a durable. Other domains cannot be asked:
/// nobody knows their names.
pub(super) async fn refuse_namesake(
    connection: &Connection,
    settings: &ConsumerSettings,
    created: &str,
) -> Result<(), NatsError> {
    let Some(here) = connection.api.of_this_server() else { return Ok(()) };
    let (stream, durable) = (&settings.stream, &settings.durable);
    let found: Result<ConsumerInfo, _> =
        here.call(&format!("CONSUMER.INFO.{stream}.{durable}"), &Value::Null).await;
    match found {
        Ok(other) if other.created != created => Err(NatsError::Settings(format!(
            "the server that jetsink is connected to has a durable {durable} of a stream {stream} too, outside nats.domain: \
             acknowledgements name no domain and would settle its messages as well; give one of the two another name"
        ))),
        // It is the same one: nats.domain is this server's own domain. Or there is none, or it cannot be asked for.
        Ok(_) | Err(_) => Ok(()),
    }
}
