//! Logs, metrics, health: what the outside can learn about this daemon. Nothing here ever holds a payload, a header value
//! or a secret, and metric labels come from closed sets only.

pub mod admin;
mod health;
mod labels;
pub mod logs;
mod measures;
mod metrics;
mod settings;

pub use health::{Health, NotReady};
pub use labels::{AdvisoryOutcome, KeyReload, PublishFailure, PullStatus, StreamLimit};
pub use measures::{Counter, CounterBy, DurationHistogram, Gauge, GaugeBy, Label, RatioBy, SizeHistogram};
pub use metrics::{Metrics, MetricsError};
pub use settings::{AdminSettings, LogFormat, LoggingSettings};
