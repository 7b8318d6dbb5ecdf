//! What is known of records that failed before, while they are not in our hands (design §5, attempts).

use std::collections::{HashMap, VecDeque};

use crate::envelope::Identity;

/// The history of one record's tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct History {
    /// Attempts that counted.
    pub(super) attempts: u32,
    /// Rounds in a row in which nothing could be counted.
    pub(super) uncounted_rounds: u32,
    /// How often it raised *sink down* and the probe passed afterwards.
    pub(super) downs_disproved: u32,
    /// The largest batch it may be written in.
    pub(super) company: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { attempts: 0, uncounted_rounds: 0, downs_disproved: 0, company: usize::MAX }
    }
}

/// Histories of records that were given back and will come again. Bounded: the oldest is forgotten first, which can only
/// give a record more attempts than it has earned.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    histories: HashMap<Identity, History>,
    order: VecDeque<Identity>,
}

const BOUND: usize = 10_000;

impl Ledger {
    pub(super) fn keep(&mut self, identity: Identity, history: History) {
        if self.histories.insert(identity, history).is_none() {
            self.order.push_back(identity);
        }
        if self.order.len() > BOUND
            && let Some(oldest) = self.order.pop_front()
        {
            self.histories.remove(&oldest);
        }
    }

    /// Takes the history of a record that came again.
    pub(super) fn take(&mut self, identity: &Identity) -> Option<History> {
        if self.histories.is_empty() {
            return None;
        }
        let history = self.histories.remove(identity)?;
        self.order.retain(|kept| kept != identity);
        Some(history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    const fn identity(sequence: u64) -> Identity {
        Identity { sequence, stored_at: Timestamp(1) }
    }

    #[test]
    fn the_ledger_is_bounded_and_forgets_the_oldest() {
        let mut ledger = Ledger::default();
        for sequence in 0..=BOUND as u64 {
            ledger.keep(identity(sequence), History { attempts: 2, ..History::default() });
        }
        assert_eq!(ledger.take(&identity(0)), None);
        assert_eq!(ledger.take(&identity(1)).unwrap().attempts, 2);
        assert_eq!(ledger.take(&identity(1)), None);
        assert_eq!(ledger.order.len(), BOUND - 1);
    }
}
