//! NDJSON segments: the one writer of the directory.
//!
//! Everything here blocks and is called by one caller at a time. A batch is looked up, written, synced and remembered in
//! one go, so that two copies of a message, wherever they come from, give one line.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::compress::{Compressor, compressed_name};
use super::crew::{Crew, Job};
use super::encode::{EncodedBatch, Part};
use super::fault::FileFailure;
use super::folder::Folder;
use super::index::{Cut, Header};
use super::lock::Lock;
use super::memory::{Memory, index_name};
use super::name::stem;
use super::outcome::Outcome;
use super::repair::{self, Found};
use super::segment::{Growth, Segment, SegmentFiles, final_name, open_name};
use super::settings::{Compression, FileSettings, Partition};
use super::trouble::{Damaged, Trouble};
use crate::clock::{Clock, Timestamp};
use crate::disposition::Fault;
use crate::envelope::Identity;
use crate::sinks::time_text::TimeText;

/// Threads that sync side by side when a batch goes to several segments.
const MAX_THREADS: usize = 8;

/// The segments of a directory.
#[derive(Debug)]
pub(super) struct SegmentStore {
    pub(super) settings: FileSettings,
    stream: String,
    pub(super) base: Arc<Folder>,
    pub(super) state: Arc<Folder>,
    clock: Arc<dyn Clock>,
    pub(super) memory: Memory,
    pub(super) segments: HashMap<Arc<str>, Segment>,
    damaged: Vec<Damaged>,
    cuts: Vec<Cut>,
    trouble: Option<Trouble>,
    uses: u64,
    times: TimeText,
    crew: Crew,
    pub(super) compressor: Compressor,
    #[expect(dead_code, reason = "held for life")]
    lock: Arc<Lock>,
}

/// A part of a batch that is being written to its segment.
struct Writing {
    part: Part,
    growth: Growth,
    is_new: bool,
}

impl SegmentStore {
    /// Repairs what an earlier life left, syncs what is relied on, and loads the memory.
    pub(super) fn open(
        settings: &FileSettings,
        stream: &str,
        base: Arc<Folder>,
        state: Arc<Folder>,
        lock: Lock,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, FileFailure> {
        let lock = Arc::new(lock);
        let found = repair::repair(&base, &state, lock.is_new)?;
        let threads = if settings.partition == Partition::None { 1 } else { MAX_THREADS };
        let crew = Crew::start(threads)?;
        let compressor = Compressor::start(
            Arc::clone(&base),
            Arc::clone(&state),
            settings.compression,
            Arc::clone(&lock),
        )?;
        let Found { memory, open, closed } = found;
        let mut store = Self {
            settings: settings.clone(),
            stream: stream.into(),
            base,
            state,
            clock,
            memory,
            segments: HashMap::new(),
            damaged: Vec::new(),
            cuts: Vec::new(),
            trouble: None,
            uses: 0,
            times: TimeText::default(),
            crew,
            compressor,
            lock,
        };
        if settings.compression != Compression::None {
            closed.into_iter().for_each(|segment| store.compressor.add(segment));
        }
        for segment in open {
            store.resume(segment);
        }
        store.rotate();
        Ok(store)
    }

    /// Goes on with a segment of an earlier life, unless another one of its partition is there already.
    fn resume(&mut self, found: repair::OpenSegment) {
        let age = self.clock.now().0.saturating_sub(found.created_at.0);
        let age = Duration::from_nanos(u64::try_from(age).unwrap_or(0));
        let mut segment = Segment {
            key: found.key,
            stem: found.stem,
            partition: Arc::clone(&found.partition),
            created_at: found.created_at,
            due_at: Instant::now() + self.settings.rotate_age.saturating_sub(age),
            data_end: found.data_end,
            index_end: found.index_end,
            files: None,
            unwritten: None,
            used: 0,
        };
        let unsuitable = (self.settings.partition == Partition::None) != found.partition.is_empty();
        if unsuitable || self.segments.contains_key(&found.partition) {
            self.close_segment(&mut segment);
        } else {
            self.segments.insert(found.partition, segment);
        }
    }

    /// Makes the records durable and says what became of each.
    pub(super) fn commit(&mut self, batch: EncodedBatch) -> Outcome {
        let mut outcome = Outcome::default();
        let identities = batch.parts.iter().flat_map(|part| part.lines.iter().map(|line| line.identity));
        let known = self.settle().and_then(|()| self.memory.committed(identities, &self.state));
        let known = match known {
            Ok(known) => known,
            Err(failure) => {
                self.trouble = Some(Trouble::of(&batch.parts).joined_with(self.trouble.as_ref()));
                let records = batch.parts.iter().flat_map(|part| part.lines.iter().map(|line| line.record));
                outcome.fail(records, &failure.fault());
                return outcome;
            }
        };
        let mut parts = batch.parts;
        if !known.is_empty() {
            for part in &mut parts {
                outcome.commit(part.take_out(|identity| known.contains(&identity)));
            }
            parts.retain(|part| !part.lines.is_empty());
        }
        let at_once = self.most_open();
        let mut parts = parts.into_iter();
        loop {
            let group: Vec<Part> = parts.by_ref().take(at_once).collect();
            if group.is_empty() {
                break;
            }
            self.commit_group(group, &mut outcome);
        }
        outcome
    }

    /// Writes parts of different partitions side by side.
    fn commit_group(&mut self, parts: Vec<Part>, outcome: &mut Outcome) {
        let mut jobs: Vec<Job> = Vec::new();
        let mut writing: Vec<Writing> = Vec::new();
        let group: Vec<Arc<str>> = parts.iter().map(|part| Arc::clone(&part.partition)).collect();
        let needs = Trouble::of(&parts);
        let mut failed = false;
        for mut part in parts {
            match self.prepare(&mut part, &group) {
                Ok((pair, growth, is_new)) => {
                    jobs.extend(pair);
                    writing.push(Writing { part, growth, is_new });
                }
                Err(fault) => {
                    failed |= !matches!(fault, Fault::Refused(_));
                    outcome.fail(part.lines.iter().map(|line| line.record), &fault);
                }
            }
        }
        let pairs = jobs.len() / 2;
        jobs.extend(self.name_jobs(&writing));
        let mut results = self.crew.run(jobs);
        let names = results.split_off(pairs * 2).into_iter().find_map(Result::err);
        let mut results = results.into_iter();
        for Writing { part, growth, is_new } in writing {
            let data = results.next().and_then(Result::err);
            let index = results.next().and_then(Result::err);
            let failure = data.or(index);
            let failure = failure.as_ref().or(if is_new { names.as_ref() } else { None });
            let records = part.lines.iter().map(|line| line.record);
            if let Some(failure) = failure {
                failed = true;
                outcome.fail(records, &failure.fault());
                self.damage(&part.partition);
            } else {
                self.prove(&part, &growth);
                outcome.commit(records);
            }
        }
        self.trouble = failed.then(|| needs.joined_with(self.trouble.as_ref()));
    }

    /// Finds or makes the segment of a part and gives the jobs that write it.
    fn prepare(&mut self, part: &mut Part, group: &[Arc<str>]) -> Result<([Job; 2], Growth, bool), Fault> {
        let folder = self.folder_of(&part.partition).map_err(|failure| failure.fault_of_partition())?;
        let first = part
            .lines
            .first()
            .map_or(Identity { sequence: 0, stored_at: Timestamp(0) }, |line| line.identity);
        if self.segments.get(&part.partition).is_none_or(|segment| segment.files.is_none()) {
            self.make_room(group);
        }
        self.open_segment(&part.partition, &folder, first).map_err(|failure| failure.fault())?;
        self.uses += 1;
        let missing = || Fault::transient("the segment could not be opened");
        let segment = self.segments.get_mut(&part.partition).ok_or_else(missing)?;
        segment.used = self.uses;
        let is_new = segment.unwritten.is_some();
        let path = folder.path().join(open_name(&segment.stem));
        let (jobs, growth) = segment.write_jobs(part, path, &self.state).ok_or_else(missing)?;
        Ok((jobs, growth, is_new))
    }

    pub(super) fn folder_of(&self, partition: &str) -> Result<Arc<Folder>, FileFailure> {
        if partition.is_empty() {
            return Ok(Arc::clone(&self.base));
        }
        // A folder that is made here gets its name synced with the names of its first segment.
        Ok(Arc::new(self.base.folder_or_new(partition)?.0))
    }

    /// Sees to it that the partition has a segment with open files.
    fn open_segment(
        &mut self,
        partition: &Arc<str>,
        folder: &Folder,
        first: Identity,
    ) -> Result<(), FileFailure> {
        if let Some(segment) = self.segments.get_mut(partition) {
            if segment.files.is_some() {
                return Ok(());
            }
            match reopen(segment, folder, &self.state) {
                Ok(Some(files)) => {
                    segment.files = Some(files);
                    return Ok(());
                }
                Ok(None) => {
                    tracing::warn!(
                        segment = segment.stem,
                        "an open segment was moved or changed; a new one is begun"
                    );
                    self.memory.close_segment(segment.key);
                    self.segments.remove(partition);
                }
                Err(failure) => return Err(failure),
            }
        }
        let stem = self.free_stem(folder, first)?;
        let files = SegmentFiles::create(folder, &self.state, &stem)?;
        let created_at = self.clock.now();
        let header = Header { created_at, partition: partition.to_string(), cuts: self.cuts.clone() };
        let key = self.memory.add_segment(stem.clone());
        let segment = Segment {
            key,
            stem,
            partition: Arc::clone(partition),
            created_at,
            due_at: Instant::now() + self.settings.rotate_age,
            data_end: 0,
            index_end: 0,
            files: Some(files),
            unwritten: Some(header),
            used: 0,
        };
        self.segments.insert(Arc::clone(partition), segment);
        Ok(())
    }

    /// A stem that no file uses.
    fn free_stem(&mut self, folder: &Folder, first: Identity) -> Result<String, FileFailure> {
        let mut attempt = 0;
        loop {
            let stem = stem(&self.stream, first, &mut self.times, attempt);
            let taken = self.state.holds(&index_name(&stem))?
                || folder.holds(&open_name(&stem))?
                || folder.holds(&final_name(&stem))?
                || [Compression::Gzip, Compression::Zstd]
                    .into_iter()
                    .filter_map(|compression| compressed_name(&stem, compression))
                    .try_fold(false, |taken, name| Ok::<_, FileFailure>(taken || folder.holds(&name)?))?;
            if !taken {
                return Ok(stem);
            }
            attempt += 1;
        }
    }

    /// How many segments may have their files open at once: each has two.
    fn most_open(&self) -> usize {
        (self.settings.max_open_files / 2).max(1)
    }

    /// Closes the files of the segments that were used longest ago, except those of the group.
    fn make_room(&mut self, group: &[Arc<str>]) {
        let mut open: Vec<_> = self.segments.values_mut().filter(|segment| segment.files.is_some()).collect();
        let Some(too_many) = (open.len() + 1).checked_sub(self.settings.max_open_files / 2) else { return };
        open.sort_unstable_by_key(|segment| segment.used);
        let idle = open.into_iter().filter(|segment| !group.contains(&segment.partition));
        // Everything in them is synced: closing loses nothing.
        idle.take(too_many).for_each(|segment| segment.files = None);
    }

    /// Jobs that make the names of new segments durable.
    fn name_jobs(&self, writing: &[Writing]) -> Vec<Job> {
        let new: Vec<_> = writing.iter().filter(|writing| writing.is_new).collect();
        if new.is_empty() {
            return Vec::new();
        }
        let (state, base) = (Arc::clone(&self.state), Arc::clone(&self.base));
        let mut jobs: Vec<Job> = vec![Box::new(move || state.sync())];
        if self.settings.partition != Partition::None {
            jobs.push(Box::new(move || base.sync()));
        }
        for writing in new {
            let folder = self.folder_of(&writing.part.partition);
            jobs.push(Box::new(move || folder?.sync()));
        }
        jobs
    }

    /// A batch is durable: remember it.
    fn prove(&mut self, part: &Part, growth: &Growth) {
        let Some(segment) = self.segments.get_mut(&part.partition) else { return };
        if let Some(header) = &segment.unwritten {
            // These cuts are durable now.
            self.cuts.retain(|cut| !header.cuts.contains(cut));
        }
        segment.grow(growth);
        self.memory.insert(segment.key, part.lines.iter().map(|line| line.identity));
    }

    /// A write or a sync failed: the segment is cut and closed for ever.
    pub(super) fn damage(&mut self, partition: &Arc<str>) {
        let Some(segment) = self.segments.remove(partition) else { return };
        let cut = segment.as_cut();
        if segment.data_end == 0 {
            self.memory.remove_segment(segment.key);
        } else {
            self.memory.close_segment(segment.key);
        }
        if let Some(files) = segment.files {
            let (data_end, index_end) = (segment.data_end, segment.index_end);
            self.damaged.push(Damaged {
                stem: segment.stem,
                partition: segment.partition,
                files,
                data_end,
                index_end,
            });
        }
        self.cuts.push(cut);
        if let Err(failure) = self.settle() {
            tracing::warn!(%failure, "a damaged segment cannot be cut yet; nothing is written before it is");
        }
    }

    /// Cuts what is damaged; nothing may be written or looked up before.
    pub(super) fn settle(&mut self) -> Result<(), FileFailure> {
        self.base.check_is_in_place()?;
        while let Some(damaged) = self.damaged.last() {
            if damaged.settle(&self.base, &self.state)? {
                self.cuts.retain(|cut| cut.stem != damaged.stem);
            }
            if let Some(Damaged { stem, partition, data_end: 1.., .. }) = self.damaged.pop() {
                self.offer_compression(stem, partition);
            }
        }
        Ok(())
    }

    /// Tries what failed last.
    /// Whether a committed batch holds the message.
    pub(super) fn remembers(&self, identity: Identity) -> bool {
        self.memory
            .committed(std::iter::once(identity), &self.state)
            .is_ok_and(|known| known.contains(&identity))
    }

    pub(super) fn probe(&mut self) -> Result<(), FileFailure> {
        self.settle()?;
        self.trouble.clone().unwrap_or_default().probe(&self.base, &self.state)
    }

    #[cfg(test)]
    pub(super) const fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// Opens the files of a segment again; `None` if they are not as we left them.
pub(super) fn reopen(
    segment: &Segment,
    folder: &Folder,
    state: &Folder,
) -> Result<Option<SegmentFiles>, FileFailure> {
    let files = match SegmentFiles::open(folder, state, &segment.stem) {
        Err(failure) if failure.errno() == Some(rustix::io::Errno::NOENT) => return Ok(None),
        other => other?,
    };
    for (file, end) in [(&files.data, segment.data_end), (&files.index, segment.index_end)] {
        let length =
            file.metadata().map_err(|cause| FileFailure::new("inspect", folder.path(), cause))?.len();
        if length != end {
            return Ok(None);
        }
    }
    Ok(Some(files))
}
