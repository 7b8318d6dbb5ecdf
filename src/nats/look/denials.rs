//! What the server denies, as it comes: out of turn, and only in words.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::nats::client::connect::Observer;

/// Denials that are kept.
const KEPT: usize = 1000;

/// Collects what the server denies on one connection.
#[derive(Debug, Default)]
pub struct Denials {
    texts: Mutex<Vec<String>>,
    more: Notify,
}

impl Denials {
    /// Waits until the server has denied this subject.
    pub(in crate::nats) async fn of(&self, direction: &str, subject: &str) {
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            // Registered before the look, so that nothing between the two is missed.
            more.as_mut().enable();
            if self.has(direction, subject) {
                return;
            }
            more.await;
        }
    }

    /// Waits until the server has denied anything.
    pub async fn any(&self) {
        self.of("", "").await;
    }

    /// Whether the server has denied a subject that begins like this.
    pub(in crate::nats) fn has(&self, direction: &str, subject: &str) -> bool {
        let words =
            if direction.is_empty() { String::new() } else { format!("for {direction} to \"{subject}") };
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.iter().any(|text| text.contains(&words))
    }
}

impl Observer for Denials {
    fn permission_violation(&self, text: &str) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() < KEPT {
            texts.push(text.to_owned());
        }
        drop(texts);
        self.more.notify_waiters();
    }
}
