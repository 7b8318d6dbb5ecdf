//! Which advisories to believe: pure.
//!
//! Whoever may publish to `$JS.EVENT.…` can write one, and sequences are used again when streams and durables are made anew.
//! So an advisory is held against the server's facts. In doubt a dead letter too many is better than a message too few.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::nats::advisories::advisory::{Advisory, Kind};

/// Clocks of the servers of one cluster may differ by this much.
const SKEW: Duration = Duration::from_secs(2);

/// What the server says now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) struct Scene {
    /// When the stream was created; `None` when that is not known.
    pub(in crate::nats) stream_created: Option<Timestamp>,
    /// When the durable was created.
    pub(in crate::nats) durable_created: Timestamp,
    /// The highest stream sequence that the durable has delivered, asked after the advisory came.
    pub(in crate::nats) delivered: u64,
    /// A work queue: a durable that is made anew is delivered everything that is stored.
    pub(in crate::nats) is_work_queue: bool,
    /// The servers are several, each with a clock of its own.
    pub(in crate::nats) is_clustered: bool,
}

/// What follows from an advisory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) enum Belief {
    /// Read the message.
    Read {
        /// It may be settled afterwards: the durable of today is the one that gave up on it.
        may_settle: bool,
    },
    /// The message it is about is gone, with its stream.
    Lost,
    /// A daemon has settled the message.
    Settled,
    /// The durable of today delivers the message anew.
    Superseded,
    /// It contradicts the facts.
    NotBelieved,
}

/// Holds an advisory against the facts. `settled_here`: this process has settled a message of this sequence for the durable of
/// today.
pub(in crate::nats) fn believe(advisory: &Advisory, scene: &Scene, settled_here: bool) -> Belief {
    if advisory.kind == Kind::TerminatedByUs {
        return Belief::Settled;
    }
    if scene.stream_created.is_some_and(|created| scene.is_before(advisory.at, created)) {
        return Belief::Lost;
    }
    if settled_here {
        return Belief::Settled;
    }
    let is_of_another_durable = scene.is_before(advisory.at, scene.durable_created);
    if advisory.stream_sequence > scene.delivered {
        return if is_of_another_durable { Belief::Superseded } else { Belief::NotBelieved };
    }
    if is_of_another_durable && scene.is_work_queue {
        return Belief::Superseded;
    }
    Belief::Read { may_settle: !is_of_another_durable }
}

/// What follows when the message of its sequence was read, stored at that time.
pub(in crate::nats) fn believe_message(
    advisory: &Advisory,
    scene: &Scene,
    stored_at: Timestamp,
) -> Option<Belief> {
    if scene.is_before(advisory.at, stored_at) {
        // The sequence is another message's now.
        return Some(Belief::Lost);
    }
    // It is there.
    (advisory.kind == Kind::Deleted).then_some(Belief::NotBelieved)
}

impl Scene {
    fn is_before(&self, one: Timestamp, other: Timestamp) -> bool {
        let skew = if self.is_clustered { i64::try_from(SKEW.as_nanos()).unwrap_or(0) } else { 0 };
        one.0.saturating_add(skew) < other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENE: Scene = Scene {
        stream_created: Some(Timestamp(1000)),
        durable_created: Timestamp(2000),
        delivered: 50,
        is_work_queue: false,
        is_clustered: false,
    };

    fn advisory(kind: Kind, stream_sequence: u64, at: i64) -> Advisory {
        Advisory { kind, stream_sequence, deliveries: 3, at: Timestamp(at) }
    }

    #[test]
    fn the_table_of_beliefs() {
        let queue = Scene { is_work_queue: true, ..SCENE };
        let blind = Scene { stream_created: None, ..SCENE };
        let read = |may_settle| Belief::Read { may_settle };
        for (sequence, at, scene, settled, expected) in [
            (50, 3000, SCENE, false, read(true)),
            (50, 3000, queue, false, read(true)),
            (50, 3000, SCENE, true, Belief::Settled),
            (51, 3000, SCENE, false, Belief::NotBelieved),
            (50, 1500, SCENE, false, read(false)),
            (50, 1500, queue, false, Belief::Superseded),
            (51, 1500, SCENE, false, Belief::Superseded),
            (50, 500, SCENE, false, Belief::Lost),
            (50, 500, SCENE, true, Belief::Lost),
            (51, 500, SCENE, false, Belief::Lost),
            (50, 500, blind, false, read(false)),
        ] {
            let found = believe(&advisory(Kind::Exhausted, sequence, at), &scene, settled);
            assert_eq!(found, expected, "{sequence} {at} {scene:?}");
        }
        assert_eq!(believe(&advisory(Kind::TerminatedByUs, 99, 1), &SCENE, false), Belief::Settled);
    }

    #[test]
    fn clocks_of_a_cluster_may_differ() {
        let skew = i64::try_from(SKEW.as_nanos()).unwrap();
        let scene =
            Scene { stream_created: None, durable_created: Timestamp(skew), is_clustered: true, ..SCENE };
        let at = |at| believe(&advisory(Kind::Exhausted, 1, at), &scene, false);
        assert_eq!(at(0), Belief::Read { may_settle: true });
        assert_eq!(at(-1), Belief::Read { may_settle: false });
    }

    #[test]
    fn the_message_itself_may_contradict() {
        let exhausted = advisory(Kind::Exhausted, 1, 3000);
        assert_eq!(believe_message(&exhausted, &SCENE, Timestamp(3000)), None);
        assert_eq!(believe_message(&exhausted, &SCENE, Timestamp(3001)), Some(Belief::Lost));
        let deleted = advisory(Kind::Deleted, 1, 3000);
        assert_eq!(believe_message(&deleted, &SCENE, Timestamp(2999)), Some(Belief::NotBelieved));
    }
}
