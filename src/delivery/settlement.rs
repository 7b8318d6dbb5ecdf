//! What is told to the server about one delivery, and the lease that keeps it ours until then.

use std::time::Duration;

use bytes::Bytes;

use crate::envelope::{Identity, Incarnation};
use crate::reason::ReasonCode;

/// The single-use right to settle one delivery. Neither `Clone` nor `Default`; dropping it sends nothing.
#[derive(Debug)]
#[must_use = "dropping a handle means redelivery after the ack wait"]
pub(super) struct Handle {
    pub(super) reply: Bytes,
    pub(super) identity: Identity,
    pub(super) incarnation: Incarnation,
}

impl Handle {
    pub(super) fn settle(self, kind: SettlementKind) -> Settlement {
        Settlement { handle: self, kind }
    }

    pub(super) fn lease(&self) -> Lease {
        Lease { reply: self.reply.clone(), incarnation: self.incarnation }
    }
}

/// The right to extend one delivery's ack wait. It can be copied, and it can never settle.
#[derive(Clone, Debug)]
pub struct Lease {
    reply: Bytes,
    incarnation: Incarnation,
}

impl Lease {
    /// The reply subject of the delivery.
    #[must_use]
    pub const fn reply(&self) -> &Bytes {
        &self.reply
    }

    /// The consumer's life it belongs to.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
}

/// What the server is told about one delivery; made only by the states that may settle, sent only by an
/// [`Acker`](super::Acker).
#[derive(Debug)]
#[must_use = "a settlement that is not sent means redelivery"]
pub struct Settlement {
    handle: Handle,
    kind: SettlementKind,
}

/// The kinds of settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettlementKind {
    /// The message is done: committed, or its dead letter is confirmed.
    Ack,
    /// Deliver it again, after the delay if there is one.
    Nak {
        /// How long the server shall wait.
        delay: Option<Duration>,
    },
    /// Never deliver it again; its dead letter is confirmed. The reason travels with the term.
    Term {
        /// The reason code of the dead letter.
        reason: ReasonCode,
    },
}

impl Settlement {
    /// The reply subject of the delivery.
    #[must_use]
    pub const fn reply(&self) -> &Bytes {
        &self.handle.reply
    }

    /// The message.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.handle.identity
    }

    /// The consumer's life the delivery belongs to.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.handle.incarnation
    }

    /// What is told.
    #[must_use]
    pub const fn kind(&self) -> SettlementKind {
        self.kind
    }
}
