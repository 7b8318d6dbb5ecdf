//! One segment that is being written: its two files, how far they are proven, and the jobs that write a batch to them.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::time::Instant;

use super::crew::Job;
use super::encode::Part;
use super::fault::FileFailure;
use super::folder::{Folder, is_unlinked};
use super::index::{self, Cut, Header};
use super::memory::{SegmentKey, index_name};
use crate::clock::Timestamp;
use crate::envelope::Identity;

/// The name of a segment that may still grow.
pub(super) fn open_name(stem: &str) -> String {
    format!("{stem}.ndjson.open")
}

/// The name of a closed segment.
pub(super) fn final_name(stem: &str) -> String {
    format!("{stem}.ndjson")
}

/// A segment that may still grow.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) key: SegmentKey,
    pub(super) stem: String,
    pub(super) partition: Arc<str>,
    pub(super) created_at: Timestamp,
    /// When its age closes it.
    pub(super) due_at: Instant,
    /// Up to here both files are proven: every batch before was synced.
    pub(super) data_end: u64,
    pub(super) index_end: u64,
    /// Closed in between when too many are open.
    pub(super) files: Option<SegmentFiles>,
    /// The header is not written yet, the names are not synced yet.
    pub(super) unwritten: Option<Header>,
    /// Grows with every use, for choosing which to close in between.
    pub(super) used: u64,
}

/// The open files of a segment.
#[derive(Clone, Debug)]
pub(super) struct SegmentFiles {
    pub(super) data: Arc<File>,
    pub(super) index: Arc<File>,
}

/// A batch on its way to a segment: how far the files reach once it is proven.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) data: u64,
    pub(super) index: u64,
}

impl SegmentFiles {
    /// Makes both files; neither may exist.
    pub(super) fn create(folder: &Folder, state: &Folder, stem: &str) -> Result<Self, FileFailure> {
        let index = state.create(&index_name(stem))?;
        match folder.create(&open_name(stem)) {
            Ok(data) => Ok(Self { data: Arc::new(data), index: Arc::new(index) }),
            Err(failure) => {
                state.remove(&index_name(stem))?;
                Err(failure)
            }
        }
    }

    /// Opens both files of a segment that was closed in between.
    pub(super) fn open(folder: &Folder, state: &Folder, stem: &str) -> Result<Self, FileFailure> {
        let data = Arc::new(folder.open(&open_name(stem))?);
        let index = Arc::new(state.open(&index_name(stem))?);
        Ok(Self { data, index })
    }

    /// Cuts both files to where they are proven.
    pub(super) fn cut(
        &self,
        data_end: u64,
        index_end: u64,
        path: &std::path::Path,
    ) -> Result<(), FileFailure> {
        for (file, end) in [(&self.data, data_end), (&self.index, index_end)] {
            file.set_len(end).map_err(|cause| FileFailure::new("cut", path, cause))?;
        }
        Ok(())
    }
}

impl Segment {
    /// The two jobs that write and sync the records of `part`; data and index side by side.
    pub(super) fn write_jobs(
        &self,
        part: &mut Part,
        path: PathBuf,
        state: &Folder,
    ) -> Option<([Job; 2], Growth)> {
        let files = self.files.clone()?;
        let data = std::mem::take(&mut part.data);
        let identities: Vec<Identity> = part.lines.iter().map(|line| line.identity).collect();
        let mut frame = Vec::new();
        if let Some(header) = &self.unwritten {
            header.encode(&mut frame);
        }
        let data_length = u64::try_from(data.len()).ok()?;
        index::encode_batch(data_length, crc32fast::hash(&data), &identities, &mut frame);
        let growth = Growth { data: data_length, index: u64::try_from(frame.len()).ok()? };
        let (data_end, index_end) = (self.data_end, self.index_end);
        let index_path = state.path().join(index_name(&self.stem));
        let data_job: Job = Box::new(move || write_data(&files.data, &data, data_end, &path));
        let index_job: Job = Box::new(move || write_index(&files.index, &frame, index_end, &index_path));
        Some(([data_job, index_job], growth))
    }

    /// Both files are durable to their new ends.
    pub(super) fn grow(&mut self, growth: &Growth) {
        self.data_end += growth.data;
        self.index_end += growth.index;
        self.unwritten = None;
    }

    /// Ends the index, durably: from here on no batch will be added.
    pub(super) fn write_close(&mut self, state: &Folder) -> Result<(), FileFailure> {
        let Some(files) = &self.files else { return Ok(()) };
        let mut frame = Vec::new();
        index::encode_close(&mut frame);
        let path = state.path().join(index_name(&self.stem));
        write_index(&files.index, &frame, self.index_end, &path)
    }

    /// The cut that start-up must repeat.
    pub(super) fn as_cut(&self) -> Cut {
        Cut {
            stem: self.stem.clone(),
            created_at: self.created_at,
            data_end: self.data_end,
            index_end: self.index_end,
        }
    }
}

fn write_data(file: &File, data: &[u8], at: u64, path: &std::path::Path) -> Result<(), FileFailure> {
    #[cfg(feature = "failpoints")]
    crate::failpoint::hit("file.before_write");
    file.write_all_at(data, at).map_err(|cause| FileFailure::new("write", path, cause))?;
    #[cfg(feature = "failpoints")]
    crate::failpoint::hit("file.between_write_and_sync");
    file.sync_data().map_err(|cause| FileFailure::new("sync", path, cause))?;
    #[cfg(feature = "failpoints")]
    crate::failpoint::hit("file.after_data_sync");
    if is_unlinked(file, path)? {
        return Err(FileFailure::new("keep", path, Errno::NOENT));
    }
    Ok(())
}

fn write_index(file: &File, frame: &[u8], at: u64, path: &std::path::Path) -> Result<(), FileFailure> {
    file.write_all_at(frame, at).map_err(|cause| FileFailure::new("write", path, cause))?;
    file.sync_data().map_err(|cause| FileFailure::new("sync", path, cause))?;
    #[cfg(feature = "failpoints")]
    crate::failpoint::hit("file.after_index_sync");
    Ok(())
}
