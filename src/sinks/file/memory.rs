//! What the directory holds already: a compressed bitmap of sequences in memory, the stored times in the indexes on disk.
//!
//! A sequence that is not in the bitmap is new. One that is may still name another message, since streams get recreated and
//! rolled back; this is rare, so the index on disk decides. The bitmap of a stream in order is a few bytes for a million.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use roaring::RoaringTreemap;
use tokio::time::Instant;

use super::fault::FileFailure;
use super::folder::Folder;
use super::index::Frame;
use super::index_reader::open_index;
use crate::envelope::Identity;

/// Sequences taken in between two rounds of compressing the bitmap.
const INSERTS_PER_ROUND: u64 = 1 << 18;

/// Names a segment for as long as this process lives.
pub(super) type SegmentKey = u64;

/// What is remembered of one segment; its identities are in its index.
#[derive(Clone, Debug)]
pub(super) struct SegmentFacts {
    pub(super) stem: String,
    pub(super) lowest: u64,
    pub(super) highest: u64,
    /// No batch will be added.
    pub(super) closed: bool,
    /// When the ack floor was first seen at or above `highest`.
    pub(super) passed_at: Option<Instant>,
}

/// The name of the index of a segment.
pub(super) fn index_name(stem: &str) -> String {
    format!("{stem}.index")
}

/// The committed identities.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sequences: RoaringTreemap,
    segments: BTreeMap<SegmentKey, SegmentFacts>,
    next_key: SegmentKey,
    inserts: u64,
}

impl Memory {
    /// Begins to remember a segment that holds nothing yet.
    pub(super) fn add_segment(&mut self, stem: String) -> SegmentKey {
        let key = self.next_key;
        self.next_key += 1;
        let facts = SegmentFacts { stem, lowest: u64::MAX, highest: 0, closed: false, passed_at: None };
        self.segments.insert(key, facts);
        key
    }

    pub(super) fn segment(&self, key: SegmentKey) -> Option<&SegmentFacts> {
        self.segments.get(&key)
    }

    pub(super) fn remove_segment(&mut self, key: SegmentKey) {
        self.segments.remove(&key);
    }

    pub(super) fn close_segment(&mut self, key: SegmentKey) {
        if let Some(facts) = self.segments.get_mut(&key) {
            facts.closed = true;
        }
        self.sequences.optimize();
    }

    /// Remembers records that are durable in a segment.
    pub(super) fn insert(&mut self, key: SegmentKey, identities: impl Iterator<Item = Identity>) {
        let Some(facts) = self.segments.get_mut(&key) else { return };
        let mut run: Option<(u64, u64)> = None;
        for Identity { sequence, .. } in identities {
            facts.lowest = facts.lowest.min(sequence);
            facts.highest = facts.highest.max(sequence);
            self.inserts += 1;
            run = match run {
                Some((first, last)) if last.checked_add(1) == Some(sequence) => Some((first, sequence)),
                Some((first, last)) => {
                    self.sequences.insert_range(first..=last);
                    Some((sequence, sequence))
                }
                None => Some((sequence, sequence)),
            };
        }
        if let Some((first, last)) = run {
            self.sequences.insert_range(first..=last);
        }
        facts.passed_at = None;
        if self.inserts >= INSERTS_PER_ROUND {
            self.inserts = 0;
            self.sequences.optimize();
        }
    }

    /// Those of the identities that are committed. Reads an index only where a sequence is known.
    pub(super) fn committed(
        &self,
        identities: impl Iterator<Item = Identity>,
        state: &Folder,
    ) -> Result<HashSet<Identity>, FileFailure> {
        let mut wanted: HashSet<Identity> =
            identities.filter(|identity| self.sequences.contains(identity.sequence)).collect();
        let mut found = HashSet::new();
        // The newest segments first: what comes twice was mostly written a moment ago.
        for facts in self.segments.values().rev() {
            if wanted.is_empty() {
                break;
            }
            let within = |identity: &Identity| (facts.lowest..=facts.highest).contains(&identity.sequence);
            if wanted.iter().any(within) {
                find_in_index(facts, state, &mut wanted, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Learns the ack floor.
    pub(super) fn note_ack_floor(&mut self, floor: u64, now: Instant) {
        for facts in self.segments.values_mut() {
            if facts.closed && facts.highest <= floor && facts.passed_at.is_none() {
                facts.passed_at = Some(now);
            }
        }
    }

    /// The closed segments that the ack floor has passed at least `horizon` ago.
    pub(super) fn expired(&self, horizon: Duration, now: Instant) -> Vec<SegmentKey> {
        let is_due = |facts: &SegmentFacts| {
            facts.closed && facts.passed_at.is_some_and(|at| now.saturating_duration_since(at) >= horizon)
        };
        self.segments.iter().filter(|(_, facts)| is_due(facts)).map(|(key, _)| *key).collect()
    }

    /// Forgets segments and deletes their indexes. A sequence that another segment holds as well, since the stream was
    /// recreated, stays.
    pub(super) fn forget(&mut self, keys: &[SegmentKey], state: &Folder) -> Result<(), FileFailure> {
        let gone: Vec<SegmentFacts> = keys.iter().filter_map(|key| self.segments.get(key).cloned()).collect();
        let mut sequences = RoaringTreemap::new();
        for facts in &gone {
            sequences |= sequences_of(facts, state)?;
        }
        for (key, facts) in &self.segments {
            let overlaps = || sequences.range_cardinality(facts.lowest..=facts.highest) > 0;
            if !keys.contains(key) && facts.lowest <= facts.highest && overlaps() {
                sequences -= sequences_of(facts, state)?;
            }
        }
        for facts in &gone {
            state.remove(&index_name(&facts.stem))?;
        }
        for key in keys {
            self.segments.remove(key);
        }
        self.sequences -= sequences;
        self.sequences.optimize();
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn segments(&self) -> impl Iterator<Item = &SegmentFacts> {
        self.segments.values()
    }

    #[cfg(test)]
    pub(super) fn sequence_count(&self) -> u64 {
        self.sequences.len()
    }
}

fn find_in_index(
    facts: &SegmentFacts,
    state: &Folder,
    wanted: &mut HashSet<Identity>,
    found: &mut HashSet<Identity>,
) -> Result<(), FileFailure> {
    each_batch(facts, state, |batch| {
        let within = |identity: &Identity| (batch.lowest..=batch.highest).contains(&identity.sequence);
        if wanted.iter().any(within) {
            for identity in batch.identities {
                if wanted.remove(&identity) {
                    found.insert(identity);
                }
            }
        }
        !wanted.is_empty()
    })
}

fn sequences_of(facts: &SegmentFacts, state: &Folder) -> Result<RoaringTreemap, FileFailure> {
    let mut sequences = RoaringTreemap::new();
    each_batch(facts, state, |batch| {
        sequences.extend(batch.identities.map(|identity| identity.sequence));
        true
    })?;
    Ok(sequences)
}

struct IndexedBatch<'a> {
    lowest: u64,
    highest: u64,
    identities: super::index::Identities<'a>,
}

/// Calls `visit` for the batches of an index until it says false.
fn each_batch(
    facts: &SegmentFacts,
    state: &Folder,
    mut visit: impl FnMut(IndexedBatch<'_>) -> bool,
) -> Result<(), FileFailure> {
    let name = index_name(&facts.stem);
    let opened = match open_index(state, &name) {
        Err(failure) if failure.errno() == Some(rustix::io::Errno::NOENT) => {
            tracing::warn!(
                index = name,
                "the index of a segment was removed; its messages are no longer known"
            );
            return Ok(());
        }
        other => other?,
    };
    let Some((_, mut reader)) = opened else { return Ok(()) };
    let path = state.path().join(&name);
    while let Some(frame) = reader.next_frame().map_err(|cause| FileFailure::new("read", &path, cause))? {
        if let Frame::Batch(batch, identities) = frame
            && !visit(IndexedBatch { lowest: batch.lowest, highest: batch.highest, identities })
        {
            break;
        }
    }
    Ok(())
}
