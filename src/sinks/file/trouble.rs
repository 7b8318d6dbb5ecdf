//! After a failure: files that must be cut, and a probe that really tries what failed.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::encode::Part;
use super::fault::FileFailure;
use super::folder::Folder;
use super::memory::index_name;
use super::segment::{SegmentFiles, final_name, open_name};
use crate::disposition::Rng;

const PROBE_NAME: &str = "probe.tmp";
/// A probe in a folder that readers see is hidden.
const HIDDEN_PROBE_NAME: &str = ".jetsink-probe.tmp";
const PROBE_CHUNK_BYTES: usize = 64 << 10;
/// What new names and blocks may cost beyond the bytes themselves.
const PROBE_SLACK_BYTES: u64 = 8 << 10;
/// Upper bound of what a record needs in the index.
const INDEX_BYTES: u64 = 24;

/// A segment whose write or sync failed. It is cut to where it was proven and never written again.
#[derive(Debug)]
pub(super) struct Damaged {
    pub(super) stem: String,
    pub(super) partition: Arc<str>,
    pub(super) files: SegmentFiles,
    pub(super) data_end: u64,
    pub(super) index_end: u64,
}

impl Damaged {
    /// Cuts the files so that no half record is seen. No file is synced: a sync after a failed one proves nothing, so the
    /// next segment's index carries the cut for start-up. True when there is nothing left to be cut.
    pub(super) fn settle(&self, base: &Folder, state: &Folder) -> Result<bool, FileFailure> {
        let opened = if self.partition.is_empty() { None } else { Some(base.folder(&self.partition)?) };
        let folder = opened.as_ref().unwrap_or(base);
        if self.data_end == 0 {
            // The data goes first: an index that tells of no data is harmless, data without an index is a riddle.
            folder.remove(&open_name(&self.stem))?;
            state.remove(&index_name(&self.stem))?;
            return Ok(state.sync().is_ok());
        }
        self.files.cut(self.data_end, self.index_end, &folder.path().join(open_name(&self.stem)))?;
        if folder.leads_to(&open_name(&self.stem), &self.files.data) {
            folder.rename(&open_name(&self.stem), folder, &final_name(&self.stem))?;
        }
        Ok(false)
    }
}

/// What failed last: what a probe must be able to do.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    /// Bytes that were to be written.
    pub(super) bytes: u64,
    /// Folders they were to be written to.
    pub(super) partitions: Vec<Arc<str>>,
}

impl Trouble {
    pub(super) fn of(parts: &[Part]) -> Self {
        let bytes = parts.iter().map(|part| {
            let lines = u64::try_from(part.lines.len()).unwrap_or(u64::MAX);
            let data = u64::try_from(part.data.len()).unwrap_or(u64::MAX);
            data.saturating_add(lines.saturating_mul(INDEX_BYTES))
        });
        Self {
            bytes: bytes.fold(0, u64::saturating_add),
            partitions: parts.iter().map(|part| Arc::clone(&part.partition)).collect(),
        }
    }

    /// The larger need of this failure and an earlier one: batches of several sizes fail side by side, and room for the
    /// smallest of them is not room for all.
    pub(super) fn joined_with(mut self, earlier: Option<&Self>) -> Self {
        if let Some(earlier) = earlier {
            self.bytes = self.bytes.max(earlier.bytes);
            let known: Vec<_> =
                earlier.partitions.iter().filter(|own| !self.partitions.contains(own)).cloned().collect();
            self.partitions.extend(known);
        }
        self
    }

    /// Writes and syncs as many bytes as failed, and makes and removes a name in every folder that was involved.
    pub(super) fn probe(&self, base: &Folder, state: &Folder) -> Result<(), FileFailure> {
        base.check_is_in_place()?;
        try_write(state, PROBE_NAME, self.bytes + PROBE_SLACK_BYTES)?;
        if self.partitions.is_empty() {
            try_write(base, HIDDEN_PROBE_NAME, 1)?;
        }
        for partition in &self.partitions {
            if partition.is_empty() {
                try_write(base, HIDDEN_PROBE_NAME, 1)?;
            } else {
                let (folder, made) = base.folder_or_new(partition)?;
                if made {
                    base.sync()?;
                }
                try_write(&folder, HIDDEN_PROBE_NAME, 1)?;
            }
        }
        Ok(())
    }
}

fn try_write(folder: &Folder, name: &str, bytes: u64) -> Result<(), FileFailure> {
    folder.remove(name)?;
    let file = folder.create(name)?;
    let path = folder.path().join(name);
    // Not zeros: a file system that compresses or leaves holes would take any amount of them.
    let mut random = Rng::seeded(bytes);
    let chunk: Vec<u8> = std::iter::repeat_with(|| random.next_u64().to_le_bytes())
        .take(PROBE_CHUNK_BYTES / 8)
        .flatten()
        .collect();
    let mut at = 0;
    let mut result = Ok(());
    while at < bytes && result.is_ok() {
        let left = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(chunk.len());
        result = file.write_all_at(chunk.get(..left).unwrap_or_default(), at);
        at += u64::try_from(left).unwrap_or(u64::MAX);
    }
    let result = result
        .map_err(|cause| FileFailure::new("write", &path, cause))
        .and_then(|()| file.sync_data().map_err(|cause| FileFailure::new("sync", &path, cause)));
    folder.remove(name)?;
    result
}
