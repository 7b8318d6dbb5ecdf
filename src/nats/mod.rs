//! The sole importer of async-nats: connection, durable, pulls, settlements, dead-letter publishes.
//!
//! Start at [`bind`], which verifies a durable and never rewrites it; [`PullSource`] and [`NatsAcker`] work on what it
//! returns. The guard in `durable` stands between them and the server after every reconnect. `isolation` finds messages that
//! end the client; `advisories` learns what the server delivers no more; `look` reads the facts that `preflight` judges;
//! `streams` reads and makes streams for the tools.

mod ack;
mod advisories;
mod client;
mod dead_letters;
mod durable;
mod error;
mod isolation;
mod look;
mod pulls;
mod reply;
mod settings;
mod streams;

pub use ack::NatsAcker;
pub use advisories::exhausted::ExhaustedWatch;
pub use advisories::names::{advisory_durable, advisory_filter, advisory_subjects};
pub use advisories::reader::{AdvisoryMemory, AdvisoryOutcome, AdvisoryReader};
pub use advisories::setup::{advisory_durable_configuration, create_advisory_durable};
pub use advisories::source::{GivenUpDoor, SourceWithGivenUp};
pub use client::connect::{Connection, Observer};
pub use client::context::{apply_context, apply_urls};
pub use client::requests::{Answer, Refused, Requests, SendError, Stored, Ticket};
pub use dead_letters::publish::{NatsPublisher, NoDeadLetters};
pub use dead_letters::stream::{DeadLetterStream, find_capturing_stream, verify_dead_letter_stream};
pub use durable::bind::{BindPlan, BoundConsumer, StreamFacts, bind};
pub use durable::watch::NatsWatch;
pub use error::{ApiError, NatsError, chain};
pub use isolation::quarantine::Quarantine;
pub use isolation::stored::{StoredMessage, StreamReader};
pub use look::denials::Denials;
pub use look::read::FactsReader;
pub use look::trials::try_permissions;
pub use pulls::pull::{PullSettings, PullSource};
pub use pulls::status::PullStatusClass;
pub use settings::{
    AdvisorySettings, BindMode, ConnectionSettings, ConsumerSettings, DeliverPolicy, OnGone,
    PublisherSettings, SignIn, TlsSettings,
};
pub use streams::message::StreamMessage;
pub use streams::pages::{Page, StreamPages, StreamState};
pub use streams::replay::replayed;
pub use streams::setup::{create_stream, stream_configuration};
