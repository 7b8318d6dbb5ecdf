//! The file sink: NDJSON segments with a memory of what they hold, and one file per message.

mod settings;

pub use settings::{Compression, FileSettings, Layout, Partition, Record};
