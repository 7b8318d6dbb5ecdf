//! What can go wrong with a record, by meaning. The reaction derives from the variant, never from a text (design §5).

use std::time::Duration;

use crate::reason::ReasonCode;

/// Why one record was not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This record's own fault, for good: a data error, a record that cannot be encoded, a name that is too long.
    Refused(Refusal),
    /// Some record of the batch is refused and the destination cannot say which: the batch is bisected.
    RefusedSomewhere(Refusal),
    /// It may pass next time: a timeout, a throttled destination, a lost connection, an unknown driver error.
    Transient {
        /// What happened, for the log; no payload, no header value, no secret.
        detail: String,
        /// What the destination asked for, if it did.
        retry_after: Option<Duration>,
    },
    /// Everybody's fault: bad credentials, a missing table, a full disk.
    SinkDown {
        /// What happened and what to do, for the log and readiness.
        detail: String,
    },
}

impl Fault {
    /// A transient fault without a hint when to come back.
    #[must_use]
    pub fn transient(detail: impl Into<String>) -> Self {
        Self::Transient { detail: detail.into(), retry_after: None }
    }

    /// The sink is down for everybody.
    #[must_use]
    pub fn sink_down(detail: impl Into<String>) -> Self {
        Self::SinkDown { detail: detail.into() }
    }

    /// The text for logs.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Self::Refused(refusal) | Self::RefusedSomewhere(refusal) => &refusal.detail,
            Self::Transient { detail, .. } | Self::SinkDown { detail } => detail,
        }
    }
}

/// A sink's final "no" to one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason code of the dead letter.
    pub reason: ReasonCode,
    /// What was wrong, for the dead letter; no payload value.
    pub detail: String,
}
