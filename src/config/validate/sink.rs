//! `[sink]` → [`SinkSettings`].

use std::path::PathBuf;
use std::time::Duration;

use super::Validator;
use crate::config::raw::{self, File, Raw};
use crate::config::{SinkSettings, instance};
use crate::sinks::PayloadMode;
use crate::sinks::file::{Compression, FileSettings, Layout, Partition, Record};
use crate::sinks::stdout::StdoutSettings;

/// Smaller segments would cost more syncs than they hold records.
const SMALLEST_SEGMENT: u64 = 64 << 10;

const DIRECTORY: &str = "sink.file.directory";

pub(super) fn validate(raw: &Raw, host: Option<&str>, validator: &mut Validator<'_>) -> SinkSettings {
    let (settings, stored, record_key, unused) = match raw.sink.kind {
        raw::SinkType::File => (
            SinkSettings::File(file(&raw.sink.file, host, validator)),
            raw.sink.file.record,
            "sink.file.record",
            "stdout",
        ),
        raw::SinkType::Stdout => {
            let stdout = &raw.sink.stdout;
            let settings = StdoutSettings {
                record: record(stdout.record),
                payload_mode: payload_mode(stdout.payload_mode),
            };
            (SinkSettings::Stdout(settings), stdout.record, "sink.stdout.record", "file")
        }
    };
    if validator.has_keys(&format!("sink.{unused}")) {
        validator.warn(format!("sink.{unused} is written and not used: sink.type chooses another sink"));
    }
    validator.require(
        stored == raw::Record::Full || raw.consumer.headers_only == raw::HeadersOnly::Refused,
        &[record_key, "consumer.headers_only"],
        "a durable that leaves bodies out gives no payloads to store",
        "set record = \"full\", or consumer.headers_only = \"refused\"",
    );
    settings
}

fn file(raw: &File, host: Option<&str>, validator: &mut Validator<'_>) -> FileSettings {
    validator.at_least("sink.file.rotate_age", raw.rotate_age.0, Duration::from_secs(1));
    if raw.rotate_bytes.0 < SMALLEST_SEGMENT {
        validator.refuse(&["sink.file.rotate_bytes"], "is too small", "write \"64 KiB\" or more");
    }
    FileSettings {
        directory: directory(raw.directory.as_deref(), host, validator),
        layout: match raw.layout {
            raw::Layout::Segments => Layout::Segments,
            raw::Layout::OneFilePerMessage => Layout::OneFilePerMessage,
        },
        record: record(raw.record),
        payload_mode: payload_mode(raw.payload_mode),
        partition: match raw.partition {
            raw::Partition::None => Partition::None,
            raw::Partition::Subject => Partition::Subject,
            raw::Partition::Day => Partition::Day,
        },
        rotate_bytes: raw.rotate_bytes.0,
        rotate_age: raw.rotate_age.0,
        compression: match raw.compression {
            raw::Compression::None => Compression::None,
            raw::Compression::Gzip => Compression::Gzip,
            raw::Compression::Zstd => Compression::Zstd,
        },
        dedup_horizon: raw.dedup_horizon.0,
        max_open_files: validator.count("sink.file.max_open_files", raw.max_open_files, 1, 65_536),
    }
}

fn directory(text: Option<&str>, host: Option<&str>, validator: &mut Validator<'_>) -> PathBuf {
    let Some(text) = text else {
        if !validator.findings.is_bad("sink.type") {
            validator.missing(DIRECTORY, "write the directory that the files go to");
        }
        return PathBuf::new();
    };
    match instance::expand(text, host) {
        Ok(path) => PathBuf::from(path),
        Err(error) => {
            let remedy = match error {
                instance::InstanceError::Unknown | instance::InstanceError::NotPlain => {
                    "set JETSINK_INSTANCE to a plain name, or take {instance} out"
                }
                instance::InstanceError::OtherBraces => {
                    "write {instance} in lower case, or take the braces out"
                }
            };
            validator.refuse(&[DIRECTORY], error.to_string(), remedy);
            PathBuf::new()
        }
    }
}

const fn record(raw: raw::Record) -> Record {
    match raw {
        raw::Record::Full => Record::Full,
        raw::Record::Payload => Record::Payload,
    }
}

const fn payload_mode(raw: raw::PayloadMode) -> PayloadMode {
    match raw {
        raw::PayloadMode::JsonOrEnvelope => PayloadMode::JsonOrEnvelope,
        raw::PayloadMode::JsonOnly => PayloadMode::JsonOnly,
        raw::PayloadMode::TextEnvelope => PayloadMode::TextEnvelope,
        raw::PayloadMode::BytesEnvelope => PayloadMode::BytesEnvelope,
    }
}
