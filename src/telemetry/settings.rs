//! Validated settings of logs and the admin listener (`[logging]`, `[admin]`).

use std::net::SocketAddr;

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingSettings {
    /// Text or JSON lines, on standard error.
    pub format: LogFormat,
    /// A level, or a filter such as `info,jetsink::nats=debug`.
    pub filter: String,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// The admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Where it listens; `None` = it does not.
    pub listen: Option<SocketAddr>,
}

impl Default for LoggingSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".into() }
    }
}
