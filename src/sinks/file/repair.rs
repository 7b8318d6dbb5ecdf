//! What happens at start, before the first write: an earlier life may have ended anywhere.
//!
//! - A batch counts only if its frame in the index and its data are both complete. Only the last batch of a segment can be
//!   incomplete, since every batch was synced before the next one was written.
//! - What a killed process wrote may be in the page cache only, and a sync that failed then succeeds now without a reason.
//!   So the last batch is written again, byte for byte, before the files are synced.
//! - A segment that is missing was moved away by its operator; what its index knows stays known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use super::compress::{Closed, compressed_name};
use super::fault::FileFailure;
use super::folder::Folder;
use super::index::{Frame, Header};
use super::index_reader::open_index;
use super::memory::{Memory, SegmentKey, index_name};
use super::segment::{final_name, open_name};
use super::settings::Compression;
use crate::clock::Timestamp;

/// Where data without an index goes: it was never reported, yet it is not ours to destroy.
const ORPHANS: &str = "orphans";

/// What was found and repaired.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) memory: Memory,
    /// Segments that may grow on.
    pub(super) open: Vec<OpenSegment>,
    /// Closed segments that are not compressed.
    pub(super) closed: Vec<Closed>,
}

/// A segment that may grow on.
#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) key: SegmentKey,
    pub(super) stem: String,
    pub(super) partition: Arc<str>,
    pub(super) created_at: Timestamp,
    pub(super) data_end: u64,
    pub(super) index_end: u64,
}

/// One batch as an index tells it.
#[derive(Clone, Copy, Debug)]
struct IndexedBatch {
    data_start: u64,
    data_end: u64,
    data_crc: u32,
    index_start: u64,
    index_end: u64,
}

/// The complete frames of an index.
#[derive(Debug, Default)]
struct Indexed {
    batches: Vec<IndexedBatch>,
    closed: bool,
}

/// Repairs the directory and loads the memory. `is_new` says that no sink ever worked here.
pub(super) fn repair(base: &Folder, state: &Folder, is_new: bool) -> Result<Found, FileFailure> {
    let mut headers: BTreeMap<String, Header> = BTreeMap::new();
    let mut void = BTreeSet::new();
    for name in state.files()? {
        if name.ends_with(".tmp") {
            state.remove(&name)?;
        } else if let Some(stem) = name.strip_suffix(".index") {
            match open_index(state, &name)? {
                Some((header, _)) => {
                    headers.insert(stem.into(), header);
                }
                None => {
                    void.insert(stem.to_owned());
                }
            }
        }
    }
    let mut repair = Repair { base, state, found: Found::default(), folders: BTreeSet::new() };
    let cuts: Vec<_> = headers.values().flat_map(|header| header.cuts.clone()).collect();
    for (stem, header) in &headers {
        let cut = cuts.iter().filter(|cut| cut.stem == *stem && cut.created_at == header.created_at);
        let limit = cut.map(|cut| cut.index_end).min();
        repair.segment(stem, header, limit)?;
    }
    repair.orphans(&headers, &void, is_new)?;
    repair.sync()?;
    Ok(repair.found)
}

struct Repair<'a> {
    base: &'a Folder,
    state: &'a Folder,
    found: Found,
    /// Partitions whose names the memory relies on.
    folders: BTreeSet<String>,
}

impl Repair<'_> {
    /// Repairs one segment; `limit` is where its index was cut after a failed write.
    fn segment(&mut self, stem: &str, header: &Header, limit: Option<u64>) -> Result<(), FileFailure> {
        let opened = match header.partition.as_str() {
            "" => None,
            partition => match self.base.folder(partition) {
                Err(failure) if failure.errno() == Some(rustix::io::Errno::NOENT) => {
                    return self.moved_away(stem, limit);
                }
                other => Some(other?),
            },
        };
        let folder = opened.as_ref().unwrap_or(self.base);
        self.folders.insert(header.partition.clone());
        let compressed = [Compression::Gzip, Compression::Zstd]
            .into_iter()
            .filter_map(|compression| compressed_name(stem, compression))
            .try_fold(false, |any, name| Ok::<_, FileFailure>(any || folder.holds(&name)?))?;
        let is_final = folder.holds(&final_name(stem))?;
        let is_open = folder.holds(&open_name(stem))?;
        if compressed {
            // It got its name when it was complete and synced: it wins.
            folder.remove(&final_name(stem))?;
            return self.moved_away(stem, Some(limit.unwrap_or(u64::MAX)));
        }
        let indexed = self.read_index(stem, limit)?;
        if is_final && is_open {
            tracing::warn!(segment = stem, "a closed segment has an open copy, which is put aside");
            self.put_aside(folder, &open_name(stem))?;
        }
        match (is_final, is_open) {
            (true, _) if indexed.closed => self.keep_closed(stem, header, &indexed),
            (true, _) => self.verify(folder, &final_name(stem), stem, header, indexed, true),
            (false, true) => self.verify(folder, &open_name(stem), stem, header, indexed, false),
            (false, false) => self.moved_away(stem, limit),
        }
    }

    /// A segment without its file. Without a close frame or a cut its last batch may never have been reported.
    fn moved_away(&mut self, stem: &str, limit: Option<u64>) -> Result<(), FileFailure> {
        let mut indexed = self.read_index(stem, limit)?;
        if !indexed.closed && limit.is_none() {
            indexed.batches.pop();
        }
        if indexed.batches.is_empty() {
            return self.state.remove(&index_name(stem));
        }
        let key = self.load(stem, &indexed)?;
        self.found.memory.close_segment(key);
        Ok(())
    }

    fn keep_closed(&mut self, stem: &str, header: &Header, indexed: &Indexed) -> Result<(), FileFailure> {
        let key = self.load(stem, indexed)?;
        self.found.memory.close_segment(key);
        self.found.closed.push(Closed { partition: header.partition.as_str().into(), stem: stem.into() });
        Ok(())
    }

    /// Cuts a segment that was not closed to its last complete batch, and makes that one durable.
    fn verify(
        &mut self,
        folder: &Folder,
        name: &str,
        stem: &str,
        header: &Header,
        mut indexed: Indexed,
        is_final: bool,
    ) -> Result<(), FileFailure> {
        let path = folder.path().join(name);
        let data = folder.open(name)?;
        let length = data.metadata().map_err(|cause| FileFailure::new("inspect", &path, cause))?.len();
        while indexed.batches.last().is_some_and(|batch| batch.data_end > length) {
            indexed.batches.pop();
            indexed.closed = false;
        }
        let mut last = read_last(&data, &indexed, &path)?;
        // Behind a close frame every batch was synced: a difference is somebody's edit, not a torn write.
        if last.is_none() && !indexed.closed && indexed.batches.pop().is_some() {
            last = read_last(&data, &indexed, &path)?;
            if last.is_none() && !indexed.batches.is_empty() {
                tracing::warn!(segment = %path.display(), "a segment differs from its index; it is kept as it is");
            }
        }
        let Some(batch) = indexed.batches.last().copied() else {
            folder.remove(name)?;
            return self.state.remove(&index_name(stem));
        };
        if length > batch.data_end {
            tracing::info!(segment = %path.display(), bytes = length - batch.data_end, "an unfinished batch is cut off");
        }
        let failure = |cause| FileFailure::new("repair", &path, cause);
        if !indexed.closed {
            data.set_len(batch.data_end).map_err(failure)?;
        }
        if let Some(bytes) = last {
            data.write_all_at(&bytes, batch.data_start).map_err(failure)?;
        }
        data.sync_all().map_err(failure)?;
        self.renew_index(stem, batch, indexed.closed)?;
        let key = self.load(stem, &indexed)?;
        let partition: Arc<str> = header.partition.as_str().into();
        if is_final || indexed.closed {
            if !is_final {
                folder.rename(name, folder, &final_name(stem))?;
            }
            self.found.memory.close_segment(key);
            self.found.closed.push(Closed { partition, stem: stem.into() });
        } else {
            self.found.open.push(OpenSegment {
                key,
                stem: stem.into(),
                partition,
                created_at: header.created_at,
                data_end: batch.data_end,
                index_end: batch.index_end,
            });
        }
        Ok(())
    }

    /// Cuts an index behind `batch`, unless it ends with a close frame, and makes that frame durable.
    fn renew_index(&self, stem: &str, batch: IndexedBatch, closed: bool) -> Result<(), FileFailure> {
        let name = index_name(stem);
        let path = self.state.path().join(&name);
        let failure = |cause| FileFailure::new("repair", &path, cause);
        let mut index = self.state.open(&name)?;
        if !closed {
            index.set_len(batch.index_end).map_err(failure)?;
        }
        index.seek(SeekFrom::Start(batch.index_start)).map_err(failure)?;
        let mut bytes = Vec::new();
        index.read_to_end(&mut bytes).map_err(failure)?;
        index.write_all_at(&bytes, batch.index_start).map_err(failure)?;
        index.sync_all().map_err(failure)
    }

    /// Remembers what the first batches of an index hold: as many as `indexed` has.
    fn load(&mut self, stem: &str, indexed: &Indexed) -> Result<SegmentKey, FileFailure> {
        let memory = &mut self.found.memory;
        let key = memory.add_segment(stem.into());
        let name = index_name(stem);
        let path = self.state.path().join(&name);
        let Some((_, mut reader)) = open_index(self.state, &name)? else { return Ok(key) };
        for _ in &indexed.batches {
            match reader.next_frame().map_err(|cause| FileFailure::new("read", &path, cause))? {
                Some(Frame::Batch(_, identities)) => memory.insert(key, identities),
                Some(Frame::Close) | None => break,
            }
        }
        Ok(key)
    }

    fn read_index(&self, stem: &str, limit: Option<u64>) -> Result<Indexed, FileFailure> {
        let name = index_name(stem);
        let path = self.state.path().join(&name);
        let mut indexed = Indexed::default();
        let Some((_, mut reader)) = open_index(self.state, &name)? else { return Ok(indexed) };
        let limit = limit.unwrap_or(u64::MAX);
        let (mut index_start, mut data_start) = (reader.end(), 0_u64);
        while let Some(frame) = reader.next_frame().map_err(|cause| FileFailure::new("read", &path, cause))? {
            let Frame::Batch(facts, _) = frame else {
                indexed.closed = true;
                break;
            };
            let index_end = reader.end();
            let data_end = data_start.saturating_add(facts.data_length);
            if index_end > limit {
                break;
            }
            let data_crc = facts.data_crc;
            indexed.batches.push(IndexedBatch { data_start, data_end, data_crc, index_start, index_end });
            (index_start, data_start) = (index_end, data_end);
        }
        Ok(indexed)
    }

    /// Open segments that no index tells of.
    fn orphans(
        &self,
        headers: &BTreeMap<String, Header>,
        void: &BTreeSet<String>,
        is_new: bool,
    ) -> Result<(), FileFailure> {
        self.orphans_of(self.base, headers, void, is_new)?;
        for folder in self.base.folders()? {
            if self.orphans_of(&folder, headers, void, is_new)? {
                folder.sync()?;
            }
        }
        for stem in void {
            self.state.remove(&index_name(stem))?;
        }
        Ok(())
    }

    /// True when there were any.
    fn orphans_of(
        &self,
        folder: &Folder,
        headers: &BTreeMap<String, Header>,
        void: &BTreeSet<String>,
        is_new: bool,
    ) -> Result<bool, FileFailure> {
        let mut any = false;
        for name in folder.files()? {
            let Some(stem) = name.strip_suffix(".ndjson.open") else { continue };
            if headers.contains_key(stem) {
                continue;
            }
            any = true;
            if void.contains(stem) {
                // Its very first batch was not complete: nothing of it was ever reported.
                folder.remove(&name)?;
            } else if is_new {
                keep_whole_lines(folder, &name, stem)?;
            } else {
                self.put_aside(folder, &name)?;
            }
        }
        Ok(any)
    }

    fn put_aside(&self, folder: &Folder, name: &str) -> Result<(), FileFailure> {
        tracing::warn!(file = %folder.path().join(name).display(), "a segment without its index is put aside");
        let (orphans, _) = self.state.folder_or_new(ORPHANS)?;
        folder.rename(name, &orphans, name)?;
        orphans.sync()
    }

    /// Makes every name durable that the memory relies on.
    fn sync(&self) -> Result<(), FileFailure> {
        for partition in &self.folders {
            match partition.as_str() {
                "" => {}
                name => self.base.folder(name)?.sync()?,
            }
        }
        self.state.sync()?;
        self.base.sync()?;
        Ok(())
    }
}

/// The bytes of the last batch, if they are what its frame says.
fn read_last(data: &File, indexed: &Indexed, path: &Path) -> Result<Option<Vec<u8>>, FileFailure> {
    let Some(batch) = indexed.batches.last() else { return Ok(None) };
    let mut bytes = vec![0; usize::try_from(batch.data_end - batch.data_start).unwrap_or(0)];
    data.read_exact_at(&mut bytes, batch.data_start)
        .map_err(|cause| FileFailure::new("read", path, cause))?;
    Ok((crc32fast::hash(&bytes) == batch.data_crc).then_some(bytes))
}

/// A segment of a directory whose memory was taken away: its data is kept, half a line at its end is not.
fn keep_whole_lines(folder: &Folder, name: &str, stem: &str) -> Result<(), FileFailure> {
    const CHUNK_BYTES: u64 = 64 << 10;
    let path = folder.path().join(name);
    let failure = |cause| FileFailure::new("repair", &path, cause);
    let file = folder.open(name)?;
    let length = file.metadata().map_err(failure)?.len();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(CHUNK_BYTES);
        let mut chunk = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(&mut chunk, start).map_err(failure)?;
        if let Some(at) = chunk.iter().rposition(|byte| *byte == b'\n') {
            end = start + u64::try_from(at + 1).unwrap_or(0);
            break;
        }
        end = start;
    }
    tracing::warn!(segment = %path.display(), bytes = length - end, "a segment without any memory is closed at its last line");
    if end == 0 {
        return folder.remove(name);
    }
    file.set_len(end).map_err(failure)?;
    file.sync_all().map_err(failure)?;
    if folder.holds(&final_name(stem))? {
        return Ok(());
    }
    folder.rename(name, folder, &final_name(stem))
}
