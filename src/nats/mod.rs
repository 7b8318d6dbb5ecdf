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
mod isolate;
mod open_pulls;
mod publish;
mod pull;
mod quarantine;
mod replay;
mod reply;
mod requests;
mod search;
mod settings;
mod status;
mod stored;
mod stream_message;
mod stream_pages;
mod stream_setup;
mod watch;

pub use ack::NatsAcker;
pub use connect::{Connection, Observer};
pub use consumer::{BindPlan, BoundConsumer, StreamFacts, bind};
pub use context::{apply_context, apply_urls};
pub use dead_letter_stream::{DeadLetterStream, find_capturing_stream, verify_dead_letter_stream};
pub use error::{ApiError, NatsError, chain};
pub use publish::{NatsPublisher, NoDeadLetters};
pub use pull::{PullSettings, PullSource};
pub use quarantine::Quarantine;
pub use replay::replayed;
pub use requests::{Answer, Refused, Requests, SendError, Stored, Ticket};
pub use settings::{
    BindMode, ConnectionSettings, ConsumerSettings, DeliverPolicy, OnGone, PublisherSettings, SignIn,
    TlsSettings,
};
pub use status::PullStatusClass;
pub use stored::{StoredMessage, StreamReader};
pub use stream_message::StreamMessage;
pub use stream_pages::{Page, StreamPages, StreamState};
pub use stream_setup::{create_stream, stream_configuration};
pub use watch::NatsWatch;
