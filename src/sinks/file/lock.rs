//! One writer per directory: the lock is taken before anything is repaired and held for life.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error::FileSinkError;
use super::fault::FileFailure;
use super::folder::Folder;
use super::settings::{FileSettings, Layout, Record};

const NAME: &str = "lock";
/// Far above what an owner's names can need.
const MAX_OWNER_BYTES: u64 = 64 << 10;

/// The held lock; the kernel frees it with the process, however that ends.
#[derive(Debug)]
pub(super) struct Lock {
    #[expect(dead_code, reason = "the lock lives as long as the open file")]
    file: File,
    /// The directory was never used by a sink before.
    pub(super) is_new: bool,
}

/// Whose directory it is.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Owner {
    stream: String,
    consumer: String,
    record: String,
    layout: String,
}

impl Owner {
    pub(super) fn new(stream: &str, consumer: &str, settings: &FileSettings) -> Self {
        let record = match settings.record {
            Record::Full => "full",
            Record::Payload => "payload",
        };
        let layout = match settings.layout {
            Layout::Segments => "segments",
            Layout::OneFilePerMessage => "one_file_per_message",
        };
        Self {
            stream: stream.into(),
            consumer: consumer.into(),
            record: record.into(),
            layout: layout.into(),
        }
    }

    fn describe(&self) -> String {
        let Self { stream, consumer, record, layout } = self;
        format!("stream {stream:?}, consumer {consumer:?}, record = {record:?}, layout = {layout:?}")
    }
}

impl Lock {
    /// Takes the lock in `state`, the `.jetsink` folder of `base`.
    pub(super) fn take(base: &Folder, state: &Folder, own: &Owner) -> Result<Self, FileSinkError> {
        loop {
            let mut file = state.open_or_create(NAME)?;
            let path = state.path().join(NAME);
            let free = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => true,
                Err(Errno::WOULDBLOCK) => false,
                Err(errno) => return Err(FileFailure::new("lock", &path, errno).into()),
            };
            let mut text = Vec::new();
            (&mut file)
                .take(MAX_OWNER_BYTES)
                .read_to_end(&mut text)
                .map_err(|cause| FileFailure::new("read", &path, cause))?;
            // A power cut during the very first start may leave half a text; then nothing was written here yet.
            let owner: Option<Owner> = serde_json::from_slice(&text).ok();
            if let Some(other) = owner.as_ref().filter(|owner| *owner != own) {
                return Err(FileSinkError::AnotherPipeline {
                    directory: base.path().into(),
                    owner: other.describe(),
                    own: own.describe(),
                });
            }
            if !free {
                return Err(FileSinkError::Locked { directory: base.path().into() });
            }
            if !state.leads_to(NAME, &file) {
                // Somebody removed the lock file between our open and our lock: this lock guards nothing.
                continue;
            }
            if owner.is_none() {
                write_owner(&state.open(NAME)?, own)
                    .map_err(|cause| FileFailure::new("write", &path, cause))?;
            }
            return Ok(Self { file, is_new: owner.is_none() });
        }
    }
}

fn write_owner(file: &File, own: &Owner) -> std::io::Result<()> {
    let text = serde_json::to_vec(own)?;
    file.set_len(0)?;
    file.write_all_at(&text, 0)?;
    file.sync_all()
}
