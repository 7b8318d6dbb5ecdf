//! `[admin]` and `[logging]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::telemetry::LoggingSettings;

/// The listener of metrics and health.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Admin {
    /// Address and port, such as `127.0.0.1:9464`; nothing listens when not set. It has no sign-in: keep it on loopback
    /// or a private network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) listen: Option<String>,
}

/// Logs, on standard error.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Logging {
    /// Lines for people or for machines.
    pub(in crate::config) format: LogFormat,
    /// A level (`error`, `warn`, `info`, `debug`, `trace`), or a filter such as `info,jetsink::nats=debug`.
    pub(in crate::config) filter: String,
}

impl Default for Logging {
    fn default() -> Self {
        Self { format: LogFormat::default(), filter: LoggingSettings::default().filter }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum LogFormat {
    #[default]
    Text,
    Json,
}
