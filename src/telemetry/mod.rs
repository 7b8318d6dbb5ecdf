//! Logs, metrics, health.

mod settings;

pub use settings::{AdminSettings, LogFormat, LoggingSettings};
