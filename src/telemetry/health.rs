//! Whether the daemon is ready, and why not; whether its loop still turns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Why the daemon is not ready. The texts are lines of `/readyz` and labels of `jetsink_not_ready`, so they never change
/// once released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotReady {
    /// The start is not over.
    Starting,
    /// Stream or durable are not found or not verified yet.
    ConsumerUnbound,
    /// Stream or durable vanished, or another one of the same name took their place.
    ConsumerGone,
    /// There is no connection to a server.
    Disconnected,
    /// The server denies something that the daemon needs.
    PermissionDenied,
    /// The sink works for nobody; the daemon holds.
    SinkDown,
    /// Another daemon writes into the same place.
    SinkLocked,
    /// Dead letters are not confirmed, so rejected messages wait.
    DeadLetterUnavailable,
    /// A message was rejected and there is nowhere to publish its dead letter.
    DeadLetterNotConfigured,
    /// Too many of the last messages were rejected; the daemon holds.
    TooManyRejections,
    /// The server does not confirm acknowledgements.
    AcksUnconfirmed,
    /// The server refuses the pulls.
    PullRefused,
    /// A message that no client can be handed ends the connection: it is looked for, or known and not to be read.
    UndeliverableMessage,
    /// Messages are in hand and none of them gets anywhere.
    NoProgress,
    /// The daemon stops.
    Draining,
}

impl NotReady {
    /// Every reason, in the order of `/readyz`.
    pub const ALL: &'static [Self] = &[
        Self::Starting,
        Self::ConsumerUnbound,
        Self::ConsumerGone,
        Self::Disconnected,
        Self::PermissionDenied,
        Self::SinkDown,
        Self::SinkLocked,
        Self::DeadLetterUnavailable,
        Self::DeadLetterNotConfigured,
        Self::TooManyRejections,
        Self::AcksUnconfirmed,
        Self::PullRefused,
        Self::UndeliverableMessage,
        Self::NoProgress,
        Self::Draining,
    ];

    /// The text that `/readyz`, logs and metrics carry.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::ConsumerUnbound => "consumer_unbound",
            Self::ConsumerGone => "consumer_gone",
            Self::Disconnected => "disconnected",
            Self::PermissionDenied => "permission_denied",
            Self::SinkDown => "sink_down",
            Self::SinkLocked => "sink_locked",
            Self::DeadLetterUnavailable => "dead_letter_unavailable",
            Self::DeadLetterNotConfigured => "dead_letter_not_configured",
            Self::TooManyRejections => "too_many_rejections",
            Self::AcksUnconfirmed => "acks_unconfirmed",
            Self::PullRefused => "pull_refused",
            Self::UndeliverableMessage => "undeliverable_message",
            Self::NoProgress => "no_progress",
            Self::Draining => "draining",
        }
    }
}

/// The daemon's health, shared by everything that knows a part of it. It starts not ready, with [`NotReady::Starting`].
#[derive(Clone, Debug)]
pub struct Health {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    reasons: Mutex<BTreeMap<NotReady, String>>,
    born: Instant,
    /// Milliseconds from `born` to the last turn of the loop.
    progressed: AtomicU64,
}

impl Health {
    /// The health of a daemon that has just begun to start.
    #[must_use]
    pub fn new() -> Self {
        let reasons = BTreeMap::from([(NotReady::Starting, String::new())]);
        let shared =
            Shared { reasons: Mutex::new(reasons), born: Instant::now(), progressed: AtomicU64::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a reason, or renews its detail: what was found and what to do, without payloads, header values or secrets.
    /// A reason that is there already is not logged again.
    pub fn not_ready(&self, reason: NotReady, detail: impl Into<String>) {
        let detail = detail.into();
        let before = self.lock().insert(reason, detail.clone());
        if before.is_none() {
            tracing::warn!(reason = reason.as_str(), detail, "not ready");
        } else if before.is_some_and(|before| before != detail) {
            tracing::debug!(reason = reason.as_str(), detail, "still not ready");
        }
    }

    /// Takes a reason away.
    pub fn clear(&self, reason: NotReady) {
        let (was_there, left) = {
            let mut reasons = self.lock();
            (reasons.remove(&reason).is_some(), reasons.len())
        };
        if was_there {
            tracing::info!(
                reason = reason.as_str(),
                reasons_left = left,
                "reason for not being ready is gone"
            );
            if left == 0 {
                tracing::info!("ready");
            }
        }
    }

    /// Whether there is no reason left.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.lock().is_empty()
    }

    /// The reasons with their details, in a fixed order.
    #[must_use]
    pub fn reasons(&self) -> Vec<(NotReady, String)> {
        self.lock().iter().map(|(reason, detail)| (*reason, detail.clone())).collect()
    }

    /// The loop has turned. It turns when idle too, so an idle daemon stays alive.
    pub fn progress(&self) {
        self.shared.progressed.store(millis(self.shared.born.elapsed()), Ordering::Relaxed);
    }

    /// Whether the loop has turned within this time. The birth of this value counts as a turn.
    #[must_use]
    pub fn alive(&self, within: Duration) -> bool {
        let last = Duration::from_millis(self.shared.progressed.load(Ordering::Relaxed));
        self.shared.born.elapsed().saturating_sub(last) <= within
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NotReady, String>> {
        // The map is whole after every statement, so a panic elsewhere does not spoil it.
        self.shared.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ready_means_no_reason_is_left() {
        let health = Health::new();
        assert_eq!(health.reasons(), [(NotReady::Starting, String::new())]);
        health.not_ready(NotReady::SinkDown, "disk full");
        health.not_ready(NotReady::SinkDown, "disk full, 3 tries");
        health.clear(NotReady::Starting);
        assert!(!health.is_ready());
        assert_eq!(health.reasons(), [(NotReady::SinkDown, "disk full, 3 tries".to_owned())]);
        health.clone().clear(NotReady::SinkDown);
        health.clear(NotReady::SinkDown);
        assert!(health.is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn liveness_follows_the_loop_and_not_the_reasons() {
        let health = Health::new();
        let window = Duration::from_secs(30);
        assert!(health.alive(window));
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(!health.alive(window));
        health.progress();
        assert!(health.alive(window));
        assert!(!health.is_ready());
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(health.alive(window));
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(!health.alive(window));
    }

    #[test]
    fn reasons_are_listed_once_in_their_own_order() {
        assert!(NotReady::ALL.is_sorted());
        let mut texts: Vec<_> = NotReady::ALL.iter().map(|reason| reason.as_str()).collect();
        assert!(texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), NotReady::ALL.len());
    }
}
