//! What became of the records of a batch.

use crate::disposition::Fault;

/// Answers by place in the batch; a place without one is transient.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) committed: Vec<usize>,
    pub(super) failed: Vec<(usize, Fault)>,
}

impl Outcome {
    pub(super) fn commit(&mut self, records: impl IntoIterator<Item = usize>) {
        self.committed.extend(records);
    }

    pub(super) fn fail(&mut self, records: impl IntoIterator<Item = usize>, fault: &Fault) {
        self.failed.extend(records.into_iter().map(|record| (record, fault.clone())));
    }
}

impl Outcome {
    /// Copies share the outcome of the first of their message; each pair is a copy's place and the first's.
    pub(super) fn share(&mut self, copies: &[(usize, usize)]) {
        for (copy, first) in copies {
            if self.committed.contains(first) {
                self.committed.push(*copy);
            } else if let Some((_, fault)) = self.failed.iter().find(|(record, _)| record == first) {
                self.failed.push((*copy, fault.clone()));
            }
        }
    }
}
