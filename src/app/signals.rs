//! Signals, and what the service manager is told.

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

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
