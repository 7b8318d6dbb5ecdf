//! Signals, and what the service manager is told.

use std::sync::Arc;

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::checks::Gate;
use crate::nats::chain;
use crate::telemetry::{KeyReload, Metrics};

/// Begins the orderly stop at the first SIGTERM or SIGINT, and returns at the second.
pub(super) async fn second_signal(stop: CancellationToken) {
    // A write above the file-size limit of the process shall be an error of the write, not the end of the process.
    let _file_size_limit = signal(SignalKind::from_raw(25)).ok();
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt()));
    first_of(&mut terminate, &mut interrupt).await;
    info!("told to stop");
    tell_service_manager(&[NotifyState::Stopping]);
    stop.cancel();
    first_of(&mut terminate, &mut interrupt).await;
}

/// Reads the keys again at every SIGHUP. Never ends.
pub(super) async fn reload_keys_on_hangup(gate: Arc<Gate>, metrics: Arc<Metrics>) {
    let mut hangup = listen(SignalKind::hangup());
    loop {
        received(&mut hangup).await;
        let gate = Arc::clone(&gate);
        // Files may be slow; the data path does not wait for them.
        let outcome = match spawn_blocking(move || gate.reload_keys()).await {
            Ok(Ok(key_ids)) => {
                info!(?key_ids, "SIGHUP: the keys were read again");
                KeyReload::Succeeded
            }
            Ok(Err(error)) => {
                error!(
                    error = chain(&error),
                    "SIGHUP: the keys cannot be read again; the old ones stay in use"
                );
                KeyReload::Failed
            }
            Err(error) => {
                error!(%error, "SIGHUP: the keys cannot be read again; the old ones stay in use");
                KeyReload::Failed
            }
        };
        metrics.key_reloads.increment(outcome);
    }
}

/// Tells systemd, if it listens.
pub(super) fn tell_service_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be told");
    }
}

fn listen(kind: SignalKind) -> Option<Signal> {
    signal(kind).ok()
}

async fn first_of(terminate: &mut Option<Signal>, interrupt: &mut Option<Signal>) {
    tokio::select! {
        () = received(terminate) => {}
        () = received(interrupt) => {}
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
