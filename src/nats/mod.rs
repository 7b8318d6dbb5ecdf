//! The sole importer of async-nats: connection, durable, pulls, settlements, dead-letter publishes.
//!
//! Start at [`bind`], which verifies a durable and never rewrites it; [`PullSource`] and [`NatsAcker`] work on what it
//! returns. The `guard` stands between them and the server after every reconnect.

mod ack;
mod api;
mod connect;
mod consumer;
mod context;
mod dead_letter_stream;
mod drift;
mod error;
mod guard;
mod open_pulls;
mod publish;
mod pull;
mod reply;
mod settings;
mod status;
mod stored;
mod watch;

pub use ack::NatsAcker;
pub use connect::{Connection, Observer};
pub use consumer::{BindPlan, BoundConsumer, StreamFacts, bind};
pub use context::apply_context;
pub use dead_letter_stream::{DeadLetterStream, verify_dead_letter_stream};
pub use error::{ApiError, NatsError, chain};
pub use publish::{NatsPublisher, NoDeadLetters};
pub use pull::{PullSettings, PullSource};
pub use settings::{
    BindMode, ConnectionSettings, ConsumerSettings, DeliverPolicy, OnGone, PublisherSettings, SignIn,
    TlsSettings,
};
pub use status::PullStatusClass;
pub use stored::{StoredMessage, StreamReader};
pub use watch::NatsWatch;
