//! The invariants of design §9, over what came about: pure data in, violations out. Simulation and integration use the same.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use jetsink::delivery::SettlementKind;
use jetsink::envelope::Identity;
use jetsink::reason::ReasonCode;
use jetsink::testing::{Entry, Step};

/// What a run may do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectations {
    /// Messages the gate says no to.
    pub(crate) bad: HashSet<Identity>,
    /// Messages the sink will not take, by their own fault: they may be stored or dead-lettered.
    pub(crate) doomed: HashSet<Identity>,
    /// Arrivals from which a message may be dead-lettered as a suspected crash.
    pub(crate) crash_limit: u64,
    /// The durable's own limit of deliveries.
    pub(crate) max_deliver: Option<u64>,
    /// How long a daemon may say that it is ready while nothing gets anywhere.
    pub(crate) patience: Duration,
    /// The run is over and everything had time: nothing may be left.
    pub(crate) complete: bool,
}

/// A broken invariant.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// Which one, `I1` to `I7`.
    pub(crate) invariant: &'static str,
    /// What broke it.
    pub(crate) detail: String,
    /// The message, if it is about one.
    pub(crate) identity: Option<Identity>,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.invariant, self.detail)
    }
}

/// Every invariant.
pub(crate) fn check(entries: &[Entry], expectations: &Expectations) -> Vec<Violation> {
    let mut violations = proof_before_settlement(entries);
    violations.extend(nothing_lost(entries, expectations));
    violations.extend(nothing_rejected_is_stored(entries, expectations));
    violations.extend(in_hand_is_bounded(entries));
    violations.extend(one_settlement_each(entries));
    violations.extend(good_ones_pass(entries, expectations));
    violations.extend(never_idle_in_silence(entries, expectations));
    violations
}

fn about(invariant: &'static str, identity: Identity, detail: String) -> Violation {
    Violation { invariant, detail, identity: Some(identity) }
}

/// I1: no settlement without proof.
fn proof_before_settlement(entries: &[Entry]) -> Vec<Violation> {
    let (mut stored, mut dead) = (HashSet::new(), HashSet::new());
    let mut violations = Vec::new();
    for entry in entries {
        match &entry.step {
            Step::Committed { identity } => drop(stored.insert(*identity)),
            Step::DeadLettered { identity, .. } => drop(dead.insert(*identity)),
            Step::Settled { identity, kind, .. } => {
                let proved = match kind {
                    SettlementKind::Ack => stored.contains(identity) || dead.contains(identity),
                    SettlementKind::Term { .. } => dead.contains(identity),
                    SettlementKind::Nak { .. } => true,
                };
                if !proved {
                    violations.push(about("I1", *identity, format!("{identity} {kind:?} without proof")));
                }
            }
            _ => {}
        }
    }
    violations
}

/// I2: every message is in the sink or in the dead-letter stream once the run is over. (That acked ones are is I1.)
fn nothing_lost(entries: &[Entry], expectations: &Expectations) -> Vec<Violation> {
    if !expectations.complete {
        return Vec::new();
    }
    let mut open = BTreeSet::new();
    for entry in entries {
        match &entry.step {
            Step::Stored { identity } => drop(open.insert(*identity)),
            Step::Removed { identity }
            | Step::Committed { identity }
            | Step::DeadLettered { identity, .. } => {
                open.remove(identity);
            }
            Step::Exhausted { identity, count }
                if expectations.max_deliver.is_some_and(|most| *count >= most) =>
            {
                open.remove(identity);
            }
            _ => {}
        }
    }
    open.into_iter().map(|identity| about("I2", identity, format!("{identity} is nowhere"))).collect()
}

/// I3: nothing rejected reaches a sink.
fn nothing_rejected_is_stored(entries: &[Entry], expectations: &Expectations) -> Vec<Violation> {
    let stored = entries.iter().filter_map(|entry| match &entry.step {
        Step::Committed { identity } => Some(*identity),
        _ => None,
    });
    stored
        .filter(|identity| expectations.bad.contains(identity))
        .map(|identity| about("I3", identity, format!("{identity} was rejected and is stored")))
        .collect()
}

/// I4: what is in hand stays bounded.
fn in_hand_is_bounded(entries: &[Entry]) -> Vec<Violation> {
    let mut limits = HashMap::new();
    let mut violations = Vec::new();
    for entry in entries {
        match &entry.step {
            Step::Started { daemon, in_hand_limit } => drop(limits.insert(*daemon, *in_hand_limit)),
            Step::InHand { daemon, deliveries } => {
                let limit = limits.get(daemon).copied().unwrap_or(0);
                if *deliveries > limit {
                    let detail = format!("daemon {daemon} has {deliveries} in hand, {limit} at most");
                    violations.push(Violation { invariant: "I4", detail, identity: None });
                }
            }
            _ => {}
        }
    }
    violations
}

/// I5: at most one settlement for each delivery; the same one again is the same. A killed server may give the same reply
/// subject to a second delivery, which then has one of its own.
fn one_settlement_each(entries: &[Entry]) -> Vec<Violation> {
    let mut deliveries: HashMap<_, usize> = HashMap::new();
    let mut settlements: BTreeMap<_, (Identity, Vec<SettlementKind>)> = BTreeMap::new();
    for entry in entries {
        match &entry.step {
            Step::Delivered { reply, incarnation, .. } => {
                *deliveries.entry((incarnation.0, reply)).or_default() += 1;
            }
            Step::Settled { identity, reply, incarnation, kind, .. } => {
                let (_, kinds) = settlements.entry((incarnation.0, reply)).or_insert((*identity, Vec::new()));
                if !kinds.contains(kind) {
                    kinds.push(*kind);
                }
            }
            _ => {}
        }
    }
    settlements
        .into_iter()
        .filter(|(delivery, (_, kinds))| kinds.len() > deliveries.get(delivery).copied().unwrap_or(0))
        .map(|(_, (identity, kinds))| about("I5", identity, format!("{identity} was settled as {kinds:?}")))
        .collect()
}

/// I6: one bad message never costs a good one.
fn good_ones_pass(entries: &[Entry], expectations: &Expectations) -> Vec<Violation> {
    let mut counts: HashMap<Identity, u64> = HashMap::new();
    let mut violations = Vec::new();
    for entry in entries {
        match &entry.step {
            Step::Delivered { identity, count, .. } => {
                let highest = counts.entry(*identity).or_default();
                *highest = (*highest).max(*count);
            }
            Step::DeadLettered { identity, reason } => {
                let own_fault = expectations.bad.contains(identity) || expectations.doomed.contains(identity);
                let count = counts.get(identity).copied().unwrap_or(0);
                let suspected = *reason == ReasonCode::SuspectedCrash && count >= expectations.crash_limit;
                if !own_fault && !suspected {
                    let detail =
                        format!("good {identity} is dead-lettered: {reason}, delivered {count} times");
                    violations.push(about("I6", *identity, detail));
                }
            }
            _ => {}
        }
    }
    violations
}

/// I7: a daemon works, says that it is not ready, or has ended; it never idles silently.
fn never_idle_in_silence(entries: &[Entry], expectations: &Expectations) -> Vec<Violation> {
    let mut idle_since: BTreeMap<u32, Duration> = BTreeMap::new();
    let mut violations = Vec::new();
    for entry in entries {
        match &entry.step {
            // A write that stores nothing is work all the same: it is tried again, with growing delays.
            Step::Wrote { .. }
            | Step::Committed { .. }
            | Step::DeadLettered { .. }
            | Step::Settled { .. } => {
                idle_since.clear();
            }
            Step::Ended { daemon } => drop(idle_since.remove(daemon)),
            Step::Readiness { daemon, ready, backlog } => {
                if !ready || *backlog == 0 {
                    idle_since.remove(daemon);
                    continue;
                }
                let since = *idle_since.entry(*daemon).or_insert(entry.at);
                if entry.at.saturating_sub(since) > expectations.patience {
                    let detail =
                        format!("daemon {daemon} is ready and idle since {since:?}, backlog {backlog}");
                    violations.push(Violation { invariant: "I7", detail, identity: None });
                    idle_since.remove(daemon);
                }
            }
            _ => {}
        }
    }
    violations
}

/// The trace of a run, cut to what the violations are about.
pub(crate) fn trace(entries: &[Entry], violations: &[Violation]) -> String {
    let about: HashSet<_> = violations.iter().filter_map(|violation| violation.identity).take(3).collect();
    let mut text = String::new();
    for entry in entries {
        let shown = match &entry.step {
            Step::Stored { identity }
            | Step::Removed { identity }
            | Step::Delivered { identity, .. }
            | Step::Settled { identity, .. }
            | Step::Exhausted { identity, .. }
            | Step::Committed { identity }
            | Step::DeadLettered { identity, .. } => about.contains(identity),
            Step::Wrote { sequences, .. } => {
                about.iter().any(|identity| sequences.contains(&identity.sequence))
            }
            Step::Started { .. } | Step::Ended { .. } | Step::Note(_) => true,
            Step::InHand { .. } | Step::Readiness { .. } => about.is_empty(),
        };
        if shown {
            text.push_str(&format!("{entry}\n"));
        }
    }
    text
}

mod tests {
    use bytes::Bytes;
    use jetsink::clock::Timestamp;
    use jetsink::envelope::Incarnation;

    use super::*;

    fn identity(sequence: u64) -> Identity {
        Identity { sequence, stored_at: Timestamp(1) }
    }

    fn entries(steps: Vec<Step>) -> Vec<Entry> {
        steps
            .into_iter()
            .enumerate()
            .map(|(second, step)| Entry { at: Duration::from_secs(second as u64), step })
            .collect()
    }

    fn broken(steps: Vec<Step>, expectations: &Expectations) -> Vec<&'static str> {
        check(&entries(steps), expectations).iter().map(|violation| violation.invariant).collect()
    }

    fn delivered(sequence: u64, count: u64) -> Step {
        Step::Delivered {
            identity: identity(sequence),
            reply: Bytes::from(format!("{sequence}.{count}")),
            incarnation: Incarnation(1),
            count,
            daemon: 0,
        }
    }

    fn settled(sequence: u64, count: u64, kind: SettlementKind) -> Step {
        Step::Settled {
            identity: identity(sequence),
            reply: Bytes::from(format!("{sequence}.{count}")),
            incarnation: Incarnation(1),
            kind,
            daemon: 0,
        }
    }

    fn expectations() -> Expectations {
        Expectations {
            crash_limit: 3,
            patience: Duration::from_secs(2),
            complete: true,
            ..Expectations::default()
        }
    }

    #[test]
    fn a_good_run_breaks_nothing() {
        let steps = vec![
            Step::Stored { identity: identity(1) },
            delivered(1, 1),
            Step::Committed { identity: identity(1) },
            settled(1, 1, SettlementKind::Ack),
            settled(1, 1, SettlementKind::Ack),
        ];
        assert_eq!(broken(steps, &expectations()), Vec::<&str>::new());
    }

    #[test]
    fn each_invariant_is_noticed_when_broken() {
        let ack = SettlementKind::Ack;
        let nak = SettlementKind::Nak { delay: None };
        let stored = || Step::Stored { identity: identity(1) };
        let committed = || Step::Committed { identity: identity(1) };
        assert_eq!(broken(vec![settled(1, 1, ack)], &expectations()), ["I1", "I5"]);
        assert_eq!(broken(vec![stored()], &expectations()), ["I2"]);
        let bad = Expectations { bad: HashSet::from([identity(1)]), ..expectations() };
        assert_eq!(broken(vec![stored(), committed()], &bad), ["I3"]);
        let started = Step::Started { daemon: 0, in_hand_limit: 2 };
        assert_eq!(broken(vec![started, Step::InHand { daemon: 0, deliveries: 3 }], &expectations()), ["I4"]);
        let twice = vec![delivered(1, 1), committed(), settled(1, 1, nak), settled(1, 1, ack)];
        assert_eq!(broken(twice, &expectations()), ["I5"]);
        let dead = |reason| Step::DeadLettered { identity: identity(1), reason };
        assert_eq!(broken(vec![dead(ReasonCode::AttemptsExhausted)], &expectations()), ["I6"]);
        let early = vec![delivered(1, 2), dead(ReasonCode::SuspectedCrash)];
        assert_eq!(broken(early, &expectations()), ["I6"]);
        let due = vec![delivered(1, 3), dead(ReasonCode::SuspectedCrash)];
        assert_eq!(broken(due, &expectations()), Vec::<&str>::new());
        let idle = (0..5).map(|_| Step::Readiness { daemon: 0, ready: true, backlog: 1 }).collect();
        assert_eq!(broken(idle, &expectations()), ["I7"]);
        let honest = (0..5).map(|_| Step::Readiness { daemon: 0, ready: false, backlog: 1 }).collect();
        assert_eq!(broken(honest, &expectations()), Vec::<&str>::new());
    }
}
