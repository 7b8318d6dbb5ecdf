//! Validated settings of the file sink (`[sink.file]`, docs/file-sink.md).

use std::path::PathBuf;
use std::time::Duration;

use crate::sinks::PayloadMode;
pub use crate::sinks::Record;

/// How and where files are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// The directory; `{instance}` is already replaced.
    pub directory: PathBuf,
    /// Segments or one file per message.
    pub layout: Layout,
    /// What a line or a file holds.
    pub record: Record,
    /// How payloads stand in a full record (formats §7).
    pub payload_mode: PayloadMode,
    /// How records are spread over files.
    pub partition: Partition,
    /// A segment is closed when it has grown to this.
    pub rotate_bytes: u64,
    /// A segment is closed at this age.
    pub rotate_age: Duration,
    /// How closed segments are compressed.
    pub compression: Compression,
    /// How long identities are kept after the ack floor has passed them.
    pub dedup_horizon: Duration,
    /// Files held open at once when records are partitioned.
    pub max_open_files: usize,
}

/// The layout of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// NDJSON segments.
    Segments,
    /// One file for every message.
    OneFilePerMessage,
}

/// How records are spread over files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// Not.
    None,
    /// A folder for every subject.
    Subject,
    /// A folder for every UTC day the stream stored the message on.
    Day,
}

/// How closed segments are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            layout: Layout::Segments,
            record: Record::Full,
            payload_mode: PayloadMode::JsonOrEnvelope,
            partition: Partition::None,
            rotate_bytes: 128 << 20,
            rotate_age: Duration::from_secs(3600),
            compression: Compression::None,
            dedup_horizon: Duration::from_secs(15 * 60),
            max_open_files: 64,
        }
    }
}
