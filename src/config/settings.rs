//! The settings of all components, gathered.

use crate::checks::GateSettings;
use crate::nats::{ConnectionSettings, ConsumerSettings, PublisherSettings};
use crate::runner::DeliverySettings;
use crate::sinks::file::FileSettings;
use crate::sinks::stdout::StdoutSettings;
use crate::telemetry::{AdminSettings, LoggingSettings};

/// Everything that was configured, checked. Only [`super::load`] makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `[nats]`.
    pub connection: ConnectionSettings,
    /// `nats.context`: a context of the nats command that gives servers, sign-in and TLS files; `connection.servers` is
    /// empty then. `connection.inbox_prefix` and `connection.domain` win over the context when they are set.
    pub context: Option<String>,
    /// `[consumer]`.
    pub consumer: ConsumerSettings,
    /// `[delivery]`, with `dead_letter.ack_term_after_publish`.
    pub delivery: DeliverySettings,
    /// `[dead_letter]`; `None` = rejected messages stay on the stream.
    pub dead_letter: Option<PublisherSettings>,
    /// `[message_metadata]`, `[message_authenticity]`, `[size_policy]`, `[pre_sink_policy]`.
    pub gate: GateSettings,
    /// `[sink]`.
    pub sink: SinkSettings,
    /// `[admin]`.
    pub admin: AdminSettings,
    /// `[logging]`.
    pub logging: LoggingSettings,
    /// What is allowed and yet worth a word at start, one sentence each, no secrets.
    pub warnings: Vec<String>,
}

/// The sink that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkSettings {
    /// `[sink.file]`.
    File(FileSettings),
    /// `[sink.stdout]`.
    Stdout(StdoutSettings),
}
