//! `[sink]` and its tables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::messages::widen;
use crate::config::duration::Span;
use crate::config::size::ByteSize;
use crate::sinks::file::FileSettings;

/// Where messages become durable.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Sink {
    /// Which sink; the table of its name holds its settings.
    #[serde(rename = "type")]
    pub(in crate::config) kind: SinkType,
    /// Settings of the file sink.
    pub(in crate::config) file: File,
    /// Settings of the stdout sink.
    pub(in crate::config) stdout: Stdout,
}

/// Which sink.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum SinkType {
    #[default]
    File,
    Stdout,
}

/// Settings of the file sink.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct File {
    /// The directory. Required. `{instance}` stands for `JETSINK_INSTANCE`, or the host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) directory: Option<String>,
    /// NDJSON segments, or one file for every message.
    pub(in crate::config) layout: Layout,
    /// What is stored of a message: facts and payload, or the payload only.
    pub(in crate::config) record: Record,
    /// How payloads stand in a full record.
    pub(in crate::config) payload_mode: PayloadMode,
    /// How records are spread over files.
    pub(in crate::config) partition: Partition,
    /// A segment is closed when it has grown to this.
    pub(in crate::config) rotate_bytes: ByteSize,
    /// A segment is closed at this age.
    pub(in crate::config) rotate_age: Span,
    /// How closed segments are compressed.
    pub(in crate::config) compression: Compression,
    /// How long identities are kept after the ack floor has passed them.
    pub(in crate::config) dedup_horizon: Span,
    /// Files held open at once when records are partitioned.
    pub(in crate::config) max_open_files: u64,
}

impl Default for File {
    fn default() -> Self {
        let settings = FileSettings::default();
        Self {
            directory: None,
            layout: Layout::default(),
            record: Record::default(),
            payload_mode: PayloadMode::default(),
            partition: Partition::default(),
            rotate_bytes: ByteSize(settings.rotate_bytes),
            rotate_age: Span(settings.rotate_age),
            compression: Compression::default(),
            dedup_horizon: Span(settings.dedup_horizon),
            max_open_files: widen(settings.max_open_files),
        }
    }
}

/// Settings of the stdout sink.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Stdout {
    /// What is written of a message: facts and payload, or the payload only.
    pub(in crate::config) record: Record,
    /// How payloads stand in a full record.
    pub(in crate::config) payload_mode: PayloadMode,
}

/// NDJSON segments, or one file for every message.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Layout {
    #[default]
    Segments,
    OneFilePerMessage,
}

/// What is stored of a message.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Record {
    #[default]
    Full,
    Payload,
}

/// How payloads stand in a full record.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum PayloadMode {
    #[default]
    JsonOrEnvelope,
    JsonOnly,
    TextEnvelope,
    BytesEnvelope,
}

/// How records are spread over files.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Partition {
    #[default]
    None,
    Subject,
    Day,
}

/// How closed segments are compressed.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Compression {
    #[default]
    None,
    Gzip,
    Zstd,
}
