//! What is known of messages that kill the client, over all connections and clients of one pipeline. Pure.
//!
//! A lost connection proves nothing: networks and servers end it as well. It raises the question whether one of the
//! outstanding deliveries did it, and this decides when to answer that by reading them from the stream (design §11), and
//! what may be concluded where reading is not permitted.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::envelope::Incarnation;

/// Deaths without progress after which the outstanding deliveries are read, whatever else ended the connection.
const DEATHS: u32 = 2;
/// After a search that found nothing, the next first death is taken for a matter of the network for this long.
const CALM: Duration = Duration::from_secs(60);
/// After one that found something, every death is followed by a search for this long.
const ALARM: Duration = Duration::from_secs(600);
/// Where the stream could not be read, it is not asked again for this long, and pulls ask for one message.
const BLIND: Duration = Duration::from_secs(60);
/// Messages remembered as settled, or held back.
const MOST_REMEMBERED: usize = 10_000;

/// Where the durable stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::nats) struct Standpoint {
    /// Everything up to this stream sequence is settled.
    pub(in crate::nats) ack_floor: u64,
    /// The highest stream sequence delivered.
    pub(in crate::nats) delivered: u64,
    /// How many deliveries there were.
    pub(in crate::nats) deliveries: u64,
    /// Deliveries not settled, of all daemons.
    pub(in crate::nats) ack_pending: usize,
}

/// How the connection came to be a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) enum Renewal {
    /// The client has just been built: the process starts, or the client before died.
    NewClient,
    /// The client connected again by itself; `other_server`: to a server that is surely another one, so that the one before
    /// has ended.
    Reconnect {
        /// See above.
        other_server: bool,
    },
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nats) enum Verdict {
    /// Nothing was outstanding.
    Unsuspicious,
    /// One death; wait for the second.
    Wait,
    /// Read what is outstanding, from this sequence on.
    Search {
        /// The first sequence.
        from: u64,
    },
    /// The stream may not be read.
    Blind {
        /// The message that killed the client, where the numbers leave no other.
        culprit: Option<u64>,
    },
}

/// Shared by everything that works on one pipeline's durable, and kept over its clients.
#[derive(Default)]
pub struct Quarantine {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    incarnation: Option<Incarnation>,
    /// The ack floor at the last death, and the deaths since it stands there.
    floor: u64,
    deaths: u32,
    /// Where an unfinished search goes on.
    cursor: u64,
    fruitless: Option<Instant>,
    found: Option<Instant>,
    blind_until: Option<Instant>,
    /// The highest stream sequence and number of deliveries that came through the client.
    received: (u64, u64),
    /// A pull of one is outstanding, and nothing else.
    single_pull: bool,
    /// Found and handed over, not settled yet.
    waiting: BTreeSet<u64>,
    /// Settled, and perhaps above the ack floor: not to be found again.
    settled: BTreeSet<u64>,
    /// Kept from being delivered again, where they cannot be read.
    held: BTreeSet<u64>,
    isolated: u64,
}

impl Quarantine {
    /// Nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many messages were found so far.
    #[must_use]
    pub fn isolated(&self) -> u64 {
        self.lock().isolated
    }

    /// The durable that is bound now. What was known of another one is forgotten.
    /// Says whether it was bound before, by a client that is gone.
    pub(in crate::nats) fn bind(&self, incarnation: Incarnation) -> bool {
        let mut state = self.lock();
        let bound_before = state.incarnation == Some(incarnation);
        if !bound_before {
            *state = State { incarnation: Some(incarnation), isolated: state.isolated, ..State::default() };
        }
        // The loop that had it in hand is gone: it will be found again.
        state.waiting.clear();
        bound_before
    }

    /// A delivery came through.
    pub(in crate::nats) fn received(&self, stream_sequence: u64, consumer_sequence: u64) {
        let mut state = self.lock();
        state.received = (state.received.0.max(stream_sequence), state.received.1.max(consumer_sequence));
        state.single_pull = false;
    }

    /// A pull of one goes out while nothing else is outstanding, or its end was announced.
    pub(in crate::nats) fn single_pull(&self, outstanding: bool) {
        self.lock().single_pull = outstanding;
    }

    /// There is a connection again.
    pub(in crate::nats) fn renewed(&self, at: Standpoint, how: Renewal, now: Instant) -> Verdict {
        let mut state = self.lock();
        state.settled = state.settled.split_off(&at.ack_floor.saturating_add(1));
        state.held = state.held.split_off(&at.ack_floor.saturating_add(1));
        let single = std::mem::take(&mut state.single_pull);
        let culprit = state.culprit(at, single);
        // What did not come through until now never will.
        state.received = (state.received.0.max(at.delivered), state.received.1.max(at.deliveries));
        if at.ack_pending == 0 || at.delivered <= at.ack_floor {
            state.deaths = 0;
            state.held.clear();
            return Verdict::Unsuspicious;
        }
        if state.floor != at.ack_floor {
            state.deaths = 0;
            state.floor = at.ack_floor;
        }
        state.deaths = state.deaths.saturating_add(1);
        if state.blind_until.is_some_and(|until| now < until) {
            state.blind_until = Some(now + BLIND);
            return Verdict::Blind { culprit };
        }
        let is_alarmed = state.found.is_some_and(|at| now.duration_since(at) < ALARM);
        let was_fruitless = state.fruitless.is_some_and(|at| now.duration_since(at) < CALM);
        let by_the_server = how == Renewal::Reconnect { other_server: true };
        let search = how == Renewal::NewClient
            || is_alarmed
            || state.deaths >= DEATHS
            || !(by_the_server || was_fruitless);
        if !search {
            return Verdict::Wait;
        }
        let from = at.ack_floor.saturating_add(1);
        Verdict::Search { from: if state.cursor > at.delivered { from } else { from.max(state.cursor) } }
    }

    /// A step of a search has found these; `next`: it goes on there, `None`: it has seen everything.
    pub(in crate::nats) fn found(&self, sequences: &[u64], next: Option<u64>, now: Instant) {
        let mut state = self.lock();
        state.blind_until = None;
        state.held.clear();
        state.cursor = next.unwrap_or(0);
        state.waiting.extend(sequences);
        state.isolated = state.isolated.saturating_add(u64::try_from(sequences.len()).unwrap_or(u64::MAX));
        if !sequences.is_empty() {
            state.found = Some(now);
        }
        if next.is_none() {
            state.deaths = 0;
            state.fruitless = sequences.is_empty().then_some(now);
        }
    }

    /// The stream could not be read.
    pub(in crate::nats) fn blinded(&self, now: Instant) {
        self.lock().blind_until = Some(now + BLIND);
    }

    /// Whether pulls ask for one message only, since what kills the client cannot be read.
    pub(in crate::nats) fn is_blind(&self, now: Instant) -> bool {
        self.lock().blind_until.is_some_and(|until| now < until)
    }

    /// Holds one back; says whether it is new.
    pub(in crate::nats) fn hold(&self, sequence: u64) -> bool {
        let mut state = self.lock();
        state.held.len() < MOST_REMEMBERED && state.held.insert(sequence)
    }

    /// What is held back.
    pub(in crate::nats) fn held(&self) -> Vec<u64> {
        self.lock().held.iter().copied().collect()
    }

    /// These were settled, if they are ours.
    pub(in crate::nats) fn settled(&self, sequences: impl Iterator<Item = u64>) {
        let mut state = self.lock();
        for sequence in sequences {
            if state.waiting.remove(&sequence) && state.settled.len() < MOST_REMEMBERED {
                state.settled.insert(sequence);
            }
        }
    }

    /// Whether some were handed over and are not settled.
    pub(in crate::nats) fn is_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Whether it was handed over already, settled or not.
    pub(in crate::nats) fn knows(&self, sequence: u64) -> bool {
        let state = self.lock();
        state.waiting.contains(&sequence) || state.settled.contains(&sequence)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// With one pull of one outstanding, exactly one delivery more than came through is the one that killed the client. It
    /// is the highest delivered if that rose; else the only one outstanding.
    const fn culprit(&self, at: Standpoint, single_pull: bool) -> Option<u64> {
        let (highest, deliveries) = self.received;
        if !single_pull || at.deliveries != deliveries.saturating_add(1) {
            None
        } else if at.delivered > highest {
            Some(at.delivered)
        } else if at.ack_pending == 1 {
            Some(at.ack_floor.saturating_add(1))
        } else {
            None
        }
    }
}

impl fmt::Debug for Quarantine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Quarantine").field("isolated", &self.isolated()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUCK: Standpoint = Standpoint { ack_floor: 1, delivered: 8, deliveries: 8, ack_pending: 7 };
    const LOST: Renewal = Renewal::Reconnect { other_server: false };
    const RESTARTED: Renewal = Renewal::Reconnect { other_server: true };

    #[tokio::test(start_paused = true)]
    async fn a_client_that_loses_its_connection_to_a_living_server_is_suspicious_at_once() {
        let quarantine = Quarantine::new();
        let now = Instant::now();
        assert_eq!(quarantine.renewed(STUCK, LOST, now), Verdict::Search { from: 2 });
        quarantine.found(&[], None, now);
        assert_eq!(quarantine.renewed(STUCK, LOST, now), Verdict::Wait, "the network, it seems");
        assert_eq!(quarantine.renewed(STUCK, LOST, now), Verdict::Search { from: 2 }, "two without progress");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_has_ended_is_suspicious_only_when_it_happens_again_without_progress() {
        let quarantine = Quarantine::new();
        let now = Instant::now();
        assert_eq!(quarantine.renewed(STUCK, RESTARTED, now), Verdict::Wait);
        let moved = Standpoint { ack_floor: 5, ..STUCK };
        assert_eq!(quarantine.renewed(moved, RESTARTED, now), Verdict::Wait);
        assert_eq!(quarantine.renewed(moved, RESTARTED, now), Verdict::Search { from: 6 });
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_outstanding_is_no_question() {
        let quarantine = Quarantine::new();
        let done = Standpoint { ack_pending: 0, ..STUCK };
        assert_eq!(quarantine.renewed(done, Renewal::NewClient, Instant::now()), Verdict::Unsuspicious);
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_goes_on_where_it_ended_and_begins_anew_after_its_end() {
        let quarantine = Quarantine::new();
        let now = Instant::now();
        quarantine.found(&[3], Some(6), now);
        assert_eq!(quarantine.renewed(STUCK, LOST, now), Verdict::Search { from: 6 });
        quarantine.found(&[], None, now);
        assert_eq!(quarantine.renewed(STUCK, LOST, now), Verdict::Search { from: 2 }, "still alarmed");
        assert_eq!(quarantine.isolated(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_settled_is_known_until_the_floor_passes_it() {
        let quarantine = Quarantine::new();
        quarantine.bind(Incarnation(1));
        quarantine.found(&[3, 4], None, Instant::now());
        quarantine.settled([3, 5].into_iter());
        assert!(
            quarantine.knows(3) && quarantine.knows(4) && !quarantine.knows(5) && quarantine.is_waiting()
        );
        quarantine.bind(Incarnation(1));
        assert!(!quarantine.is_waiting() && !quarantine.knows(4));
        let past = Standpoint { ack_floor: 3, ..STUCK };
        let _verdict = quarantine.renewed(past, LOST, Instant::now());
        assert!(!quarantine.knows(3));
    }

    #[tokio::test(start_paused = true)]
    async fn without_reading_the_numbers_must_leave_one_message_only() {
        let quarantine = Quarantine::new();
        let now = Instant::now();
        quarantine.blinded(now);
        let ask = |at: Standpoint, received: u64, single: bool| {
            let quarantine = Quarantine::new();
            quarantine.blinded(now);
            quarantine.received(received, 7);
            quarantine.single_pull(single);
            quarantine.renewed(at, LOST, now)
        };
        assert_eq!(ask(STUCK, 7, false), Verdict::Blind { culprit: None }, "more than one may have come");
        assert_eq!(ask(STUCK, 7, true), Verdict::Blind { culprit: Some(8) });
        assert_eq!(ask(STUCK, 8, true), Verdict::Blind { culprit: None }, "any of seven came again");
        let alone = Standpoint { ack_pending: 1, ..STUCK };
        assert_eq!(ask(alone, 8, true), Verdict::Blind { culprit: Some(2) });
        let others = Standpoint { deliveries: 9, ..STUCK };
        assert_eq!(ask(others, 7, true), Verdict::Blind { culprit: None }, "others pull too");
        assert!(quarantine.is_blind(now) && !quarantine.is_blind(now + BLIND));
    }

    #[test]
    fn another_durable_begins_with_nothing() {
        let quarantine = Quarantine::new();
        quarantine.bind(Incarnation(1));
        assert!(quarantine.hold(4) && !quarantine.hold(4));
        quarantine.bind(Incarnation(1));
        assert_eq!(quarantine.held(), [4]);
        quarantine.bind(Incarnation(2));
        assert_eq!(quarantine.held(), [0_u64; 0]);
    }
}
