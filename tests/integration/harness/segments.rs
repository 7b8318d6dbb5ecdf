//! What the file sink has written.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One line of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) json: Value,
}

impl Record {
    /// Its sequence in the stream.
    pub(crate) fn sequence(&self) -> u64 {
        self.json["stream_sequence"].as_u64().unwrap()
    }
}

/// Every record there is now. A last line without its newline in an open segment is a write under way and left out; any other
/// line that does not parse alone fails the test.
pub(crate) fn records(directory: &Path) -> Vec<Record> {
    read(directory, true)
}

/// Every record, once nothing writes any more: each byte must belong to a whole line.
pub(crate) fn whole_records(directory: &Path) -> Vec<Record> {
    read(directory, false)
}

/// The stream sequences of all records, sorted, repeats included.
pub(crate) fn sequences(directory: &Path) -> Vec<u64> {
    let mut sequences = records(directory).iter().map(Record::sequence).collect::<Vec<_>>();
    sequences.sort_unstable();
    sequences
}

fn read(directory: &Path, being_written: bool) -> Vec<Record> {
    let mut records = Vec::new();
    for file in files(directory) {
        let Some(mut bytes) = content(&file) else { continue };
        if being_written && is_open(&file) {
            bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        }
        assert!(
            bytes.is_empty() || bytes.ends_with(b"\n"),
            "{} ends in the middle of a line",
            file.display()
        );
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let json = serde_json::from_slice(line)
                .unwrap_or_else(|error| panic!("{}: a torn line: {error}", file.display()));
            records.push(Record { json });
        }
    }
    records
}

fn is_open(file: &Path) -> bool {
    file.extension() == Some(OsStr::new("open"))
}

/// The uncompressed content; `None` when the file was renamed between listing and reading.
fn content(file: &Path) -> Option<Vec<u8>> {
    let opened = File::open(file).ok()?;
    let mut bytes = Vec::new();
    match file.extension().and_then(OsStr::to_str) {
        Some("gz") => flate2::read::MultiGzDecoder::new(opened).read_to_end(&mut bytes).unwrap(),
        Some("zst") => zstd::Decoder::new(opened).unwrap().read_to_end(&mut bytes).unwrap(),
        _plain => { opened }.read_to_end(&mut bytes).unwrap(),
    };
    Some(bytes)
}

/// Every file of records, in the order of their names; the sink's own folder and temporary files are left out.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.map(Result::unwrap) {
            let name = entry.file_name();
            let name = name.to_str().unwrap();
            if name.starts_with('.') {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if name.contains(".ndjson") && !name.ends_with(".tmp") {
                found.push(entry.path());
            }
        }
    }
    found.sort_unstable();
    found
}
