//! Opening the sink: once, before anything is pulled, and patiently where time can help.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::config::{Settings, SinkSettings};
use crate::delivery::Sink;
use crate::disposition::{Backoff, Rng};
use crate::sinks::file::{FileSettings, FileSink, FileSinkError};
use crate::sinks::stdout::StdoutSink;
use crate::telemetry::{Health, NotReady};

/// Opens the configured sink. While another daemon holds its lock, or its place does not work, the daemon is not ready and
/// tries again; `None` when it was stopped meanwhile.
pub(crate) async fn open(
    settings: &Settings,
    health: &Health,
    stop: &CancellationToken,
) -> Result<Option<Arc<dyn Sink>>, Box<dyn Error + Send + Sync>> {
    match &settings.sink {
        SinkSettings::Stdout(stdout) => Ok(Some(Arc::new(StdoutSink::new(*stdout)?))),
        SinkSettings::File(file) => open_file(file, settings, health, stop).await,
    }
}

async fn open_file(
    file: &FileSettings,
    settings: &Settings,
    health: &Health,
    stop: &CancellationToken,
) -> Result<Option<Arc<dyn Sink>>, Box<dyn Error + Send + Sync>> {
    let backoff = Backoff { max: Duration::from_secs(2), ..Backoff::default() };
    let mut rng = Rng::seeded(u64::from(std::process::id()));
    let mut failures = 0u32;
    loop {
        let (file, consumer) = (file.clone(), settings.consumer.clone());
        let opening =
            tokio::task::spawn_blocking(move || FileSink::open(file, &consumer.stream, &consumer.durable))
                .await?;
        match opening {
            Ok(sink) => {
                health.clear(NotReady::SinkLocked);
                health.clear(NotReady::SinkDown);
                return Ok(Some(Arc::new(sink)));
            }
            Err(error @ FileSinkError::AnotherPipeline { .. }) => return Err(error.into()),
            Err(error @ FileSinkError::Locked { .. }) => {
                health.not_ready(NotReady::SinkLocked, error.to_string())
            }
            Err(error @ FileSinkError::Failed(_)) => {
                health.clear(NotReady::SinkLocked);
                health.not_ready(NotReady::SinkDown, error.to_string());
            }
        }
        failures = failures.saturating_add(1);
        if failures == 1 {
            warn!("the sink cannot be opened yet; trying again");
        }
        health.progress();
        tokio::select! {
            () = sleep(backoff.delay(failures, &mut rng)) => {}
            () = stop.cancelled() => return Ok(None),
        }
    }
}
