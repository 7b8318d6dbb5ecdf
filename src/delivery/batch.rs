//! What a sink sees of a batch, and what it answers.

use std::time::Duration;

use super::admitted::Admitted;
use crate::disposition::{Fault, Refusal};
use crate::envelope::Envelope;

/// The records of one write. A sink sees envelopes only; the rights to settle stay inside.
#[derive(Debug)]
pub struct WriteBatch {
    records: Vec<Admitted>,
    stops_at_first_failure: bool,
}

impl WriteBatch {
    pub(super) const fn new(records: Vec<Admitted>, stops_at_first_failure: bool) -> Self {
        Self { records, stops_at_first_failure }
    }

    /// Whether no record may become durable while an earlier one of the batch is neither durable nor refused
    /// (`delivery.strict`).
    #[must_use]
    pub const fn stops_at_first_failure(&self) -> bool {
        self.stops_at_first_failure
    }

    /// The envelopes in order.
    pub fn envelopes(&self) -> impl ExactSizeIterator<Item = &Envelope> {
        self.records.iter().map(Admitted::envelope)
    }

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes in memory of all records together.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.envelopes().map(Envelope::weight).sum()
    }

    pub(super) fn into_records(self) -> Vec<Admitted> {
        self.records
    }

    pub(super) fn timed_out_slots(&self, deadline: Duration) -> Vec<Slot> {
        let fault =
            Fault::transient(format!("the write did not end within {deadline:?}; its outcome is unknown"));
        vec![Slot::Failed(fault); self.len()]
    }
}

/// The answer for one record.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    Committed,
    Failed(Fault),
}

/// A sink's answer, record by record. Made from the batch with every slot preset to *transient*, so that an omission means
/// redelivery.
#[derive(Debug)]
#[must_use]
pub struct WriteReport {
    slots: Vec<Slot>,
}

impl WriteReport {
    /// The report of a batch of which nothing is known yet.
    pub fn new(batch: &WriteBatch) -> Self {
        let untouched = Slot::Failed(Fault::transient("the sink gave no answer for this record"));
        Self { slots: vec![untouched; batch.len()] }
    }

    /// Every record shares one fault.
    pub fn all(batch: &WriteBatch, fault: &Fault) -> Self {
        Self { slots: vec![Slot::Failed(fault.clone()); batch.len()] }
    }

    /// Record `index` is durable: a power cut right now loses nothing of it.
    pub fn commit(&mut self, index: usize) {
        self.set(index, Slot::Committed);
    }

    /// Record `index` is refused for good.
    pub fn refuse(&mut self, index: usize, refusal: Refusal) {
        self.set(index, Slot::Failed(Fault::Refused(refusal)));
    }

    /// Record `index` failed.
    pub fn fail(&mut self, index: usize, fault: Fault) {
        self.set(index, Slot::Failed(fault));
    }

    fn set(&mut self, index: usize, slot: Slot) {
        if let Some(own) = self.slots.get_mut(index) {
            *own = slot;
        }
    }

    /// Exactly `length` slots: what a foreign report lacks is transient.
    pub(super) fn into_slots(mut self, length: usize) -> Vec<Slot> {
        self.slots.resize(length, Slot::Failed(Fault::transient("the sink's report is too short")));
        self.slots
    }
}
