//! Log lines about messages that the gate does not like: enough of them to see what goes on, and no flood. Of each stage and
//! reason there is one line a second; the rest is counted, and the count is said as soon as the second is over.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::delivery::Rejection;
use crate::envelope::Envelope;
use crate::reason::{ReasonCode, Stage};

/// Between two lines about one stage and reason.
const PERIOD: Duration = Duration::from_secs(1);

/// What was said lately. Its size is bounded by the reason codes.
#[derive(Debug, Default)]
pub(super) struct Notices {
    kinds: Mutex<HashMap<Kind, Said>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    verdict: Verdict,
    stage: Stage,
    reason: ReasonCode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Verdict {
    Rejected,
    Warned,
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    last: Instant,
    left_out: u64,
}

impl Notices {
    /// The gate rejected a message.
    pub(super) fn rejected(&self, envelope: &Envelope, rejection: &Rejection) {
        if let Some(left_out) = self.may_say(Kind::new(Verdict::Rejected, rejection), Instant::now()) {
            info!(
                stream_sequence = envelope.stream_sequence,
                stage = rejection.stage.as_str(),
                reason = rejection.reason.as_str(),
                delivery_count = envelope.delivery_count,
                left_out,
                "the gate rejects the message"
            );
        }
    }

    /// A policy that only warns would have rejected a message.
    pub(super) fn warned(&self, envelope: &Envelope, warning: &Rejection) {
        if let Some(left_out) = self.may_say(Kind::new(Verdict::Warned, warning), Instant::now()) {
            warn!(
                stream_sequence = envelope.stream_sequence,
                stage = warning.stage.as_str(),
                reason = warning.reason.as_str(),
                delivery_count = envelope.delivery_count,
                left_out,
                "the policy would reject the message; its mode is warn"
            );
        }
    }

    /// The server gave up on a message, or somebody else terminated it, or it is gone.
    pub(super) fn given_up(&self, envelope: &Envelope, rejection: &Rejection) {
        let Some(left_out) = self.may_say(Kind::new(Verdict::GivenUp, rejection), Instant::now()) else {
            return;
        };
        // The detail may hold the words of a stranger.
        let (stream_sequence, reason) = (envelope.stream_sequence, rejection.reason.as_str());
        if rejection.reason == ReasonCode::MessageLost {
            error!(stream_sequence, reason, left_out, "a message is lost: its body is gone");
        } else {
            warn!(stream_sequence, reason, left_out, "the server delivers the message no more");
        }
    }

    /// Says how many lines were left out, where none of the kind came after them.
    pub(super) fn catch_up(&self) {
        for (kind, count) in self.overdue(Instant::now()) {
            let (stage, reason) = (kind.stage.as_str(), kind.reason.as_str());
            match kind.verdict {
                Verdict::Rejected => info!(stage, reason, count, "the gate rejected more messages"),
                Verdict::Warned => warn!(stage, reason, count, "the policy would reject more messages"),
                Verdict::GivenUp if kind.reason == ReasonCode::MessageLost => {
                    error!(stage, reason, count, "more messages are lost");
                }
                Verdict::GivenUp => warn!(stage, reason, count, "the server delivers more messages no more"),
            }
        }
    }

    /// Whether a line may be written now: the number of those left out since the last.
    fn may_say(&self, kind: Kind, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(said) = kinds.get_mut(&kind) else {
            kinds.insert(kind, Said { last: now, left_out: 0 });
            return Some(0);
        };
        if now.duration_since(said.last) < PERIOD {
            said.left_out = said.left_out.saturating_add(1);
            return None;
        }
        said.last = now;
        Some(std::mem::take(&mut said.left_out))
    }

    fn overdue(&self, now: Instant) -> Vec<(Kind, u64)> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let overdue =
            kinds.iter_mut().filter(|(_, said)| said.left_out > 0 && now.duration_since(said.last) >= PERIOD);
        let mut counts: Vec<_> = overdue
            .map(|(kind, said)| {
                said.last = now;
                (*kind, std::mem::take(&mut said.left_out))
            })
            .collect();
        counts.sort_unstable_by_key(|(kind, _)| (kind.stage, kind.reason));
        counts
    }
}

impl Kind {
    const fn new(verdict: Verdict, rejection: &Rejection) -> Self {
        Self { verdict, stage: rejection.stage, reason: rejection.reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REJECTED: Kind =
        Kind { verdict: Verdict::Rejected, stage: Stage::Size, reason: ReasonCode::PayloadTooLarge };

    #[tokio::test(start_paused = true)]
    async fn one_line_a_second_of_a_kind_and_a_count_of_the_rest() {
        let notices = Notices::default();
        let start = Instant::now();
        assert_eq!(notices.may_say(REJECTED, start), Some(0));
        assert_eq!(notices.may_say(Kind { verdict: Verdict::Warned, ..REJECTED }, start), Some(0));
        assert_eq!(notices.may_say(Kind { stage: Stage::Policy, ..REJECTED }, start), Some(0));
        let soon = start + Duration::from_millis(999);
        assert_eq!(notices.may_say(REJECTED, soon), None);
        assert_eq!(notices.may_say(REJECTED, soon), None);
        assert!(notices.overdue(soon).is_empty());
        assert_eq!(notices.may_say(REJECTED, start + PERIOD), Some(2));
        assert_eq!(notices.may_say(REJECTED, start + PERIOD), None);
        assert!(notices.overdue(start + PERIOD).is_empty());
        assert_eq!(notices.overdue(start + PERIOD * 2), [(REJECTED, 1)]);
        assert!(notices.overdue(start + PERIOD * 3).is_empty());
        assert_eq!(notices.may_say(REJECTED, start + PERIOD * 3), Some(0));
    }
}
