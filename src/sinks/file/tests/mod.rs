//! The file sink as a whole, on a real file system.

#[cfg(feature = "failpoints")]
mod crashes;
mod layouts;
mod repairs;
mod troubles;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::envelope::Envelope;
use crate::sinks::PayloadMode;
use crate::sinks::conformance::{self, Rig, message, messages, write_now};

/// Settings of a directory.
pub(super) fn settings(directory: &Path) -> FileSettings {
    FileSettings { directory: directory.into(), ..FileSettings::default() }
}

pub(super) fn open(settings: &FileSettings) -> FileSink {
    FileSink::open(settings.clone(), "ORDERS", "sink").unwrap()
}

/// Every file below the directory that holds records, with what it holds, uncompressed. Segments may change their names
/// while we look: then we look again.
pub(super) fn contents(directory: &Path) -> BTreeMap<String, String> {
    loop {
        let names = record_files(directory);
        let found: Option<BTreeMap<_, _>> =
            names.iter().map(|name| Some((name.clone(), uncompressed(&directory.join(name))?))).collect();
        if let Some(found) = found.filter(|_| record_files(directory) == names) {
            return found;
        }
    }
}

fn record_files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![directory.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with('.') || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                names.push(path.strip_prefix(directory).unwrap().to_str().unwrap().into());
            }
        }
    }
    names.sort();
    names
}

/// `None` if the file is not there any more.
fn uncompressed(path: &Path) -> Option<String> {
    let raw = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        other => other.unwrap(),
    };
    let mut text = String::new();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => {
            flate2::read::GzDecoder::new(raw.as_slice()).read_to_string(&mut text).unwrap();
        }
        Some("zst") => text = String::from_utf8(zstd::decode_all(raw.as_slice()).unwrap()).unwrap(),
        _ => text = String::from_utf8(raw).unwrap(),
    }
    Some(text)
}

/// The sequences in full records, file by file in the order of their names. Fails on a line that does not parse alone.
pub(super) fn sequences(directory: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    for (name, text) in contents(directory) {
        assert!(text.is_empty() || text.ends_with('\n'), "{name} ends within a line");
        for line in text.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            found.push(record["stream_sequence"].as_u64().unwrap());
        }
    }
    found
}

pub(super) fn indexes(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory.join(".jetsink"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "index"))
        .collect();
    found.sort();
    found
}

/// The one open segment.
pub(super) fn open_segment(directory: &Path) -> PathBuf {
    let mut open: Vec<_> = contents(directory).into_keys().filter(|name| name.ends_with(".open")).collect();
    assert_eq!(open.len(), 1, "{open:?}");
    directory.join(open.remove(0))
}

async fn conforms(change: impl Fn(&mut FileSettings) + Send + Sync) {
    conformance::run(|| {
        let folder = TempDir::new().unwrap();
        let mut settings = settings(folder.path());
        settings.payload_mode = PayloadMode::JsonOnly;
        change(&mut settings);
        Rig {
            sink: Arc::new(open(&settings)),
            ordered: settings.partition == Partition::None,
            stored: Box::new(move || sequences(folder.path())),
        }
    })
    .await;
}

#[tokio::test]
async fn segments_conform() {
    conforms(|_| ()).await;
}

#[tokio::test]
async fn segments_by_subject_conform() {
    conforms(|settings| settings.partition = Partition::Subject).await;
}

#[tokio::test]
async fn small_segments_conform() {
    conforms(|settings| settings.rotate_bytes = 600).await;
}

#[tokio::test]
async fn one_file_per_message_conforms() {
    conforms(|settings| settings.layout = Layout::OneFilePerMessage).await;
    conforms(|settings| {
        settings.layout = Layout::OneFilePerMessage;
        settings.partition = Partition::Subject;
    })
    .await;
}

#[tokio::test]
async fn a_second_daemon_waits_and_another_pipeline_is_refused() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path());
    let first = open(&settings);
    let again =
        |settings: &FileSettings, stream, consumer| FileSink::open(settings.clone(), stream, consumer);
    assert!(matches!(again(&settings, "ORDERS", "sink"), Err(FileSinkError::Locked { .. })));
    let payload = FileSettings { record: Record::Payload, ..settings.clone() };
    let files = FileSettings { layout: Layout::OneFilePerMessage, ..settings.clone() };
    for (settings, stream, consumer) in [
        (&settings, "OTHER", "sink"),
        (&settings, "ORDERS", "other"),
        (&payload, "ORDERS", "sink"),
        (&files, "ORDERS", "sink"),
    ] {
        assert!(matches!(again(settings, stream, consumer), Err(FileSinkError::AnotherPipeline { .. })));
    }
    drop(first);
    assert!(matches!(again(&settings, "OTHER", "sink"), Err(FileSinkError::AnotherPipeline { .. })));
    drop(reopen(&settings));
}

/// Opens the directory again after the sink before was dropped.
pub(super) fn reopen(settings: &FileSettings) -> FileSink {
    // Threads of the sink before give up the lock when they have ended.
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        match FileSink::open(settings.clone(), "ORDERS", "sink") {
            Ok(sink) => return sink,
            Err(FileSinkError::Locked { .. }) if tokio::time::Instant::now() < until => {
                std::thread::yield_now()
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub(super) async fn write_ok(sink: &FileSink, envelopes: Vec<Envelope>) {
    assert_eq!(write_now(sink, envelopes).await, []);
}

#[tokio::test]
async fn what_is_written_is_known_after_a_restart() {
    for record in [Record::Full, Record::Payload] {
        let folder = TempDir::new().unwrap();
        let settings = FileSettings { record, ..settings(folder.path()) };
        let sink = open(&settings);
        write_ok(&sink, messages(1..=100)).await;
        drop(sink);
        let sink = reopen(&settings);
        write_ok(&sink, messages(50..=150)).await;
        assert_eq!(sink.close(Duration::from_secs(10)).await, Ok(()));
        drop(sink);
        let sink = reopen(&settings);
        write_ok(&sink, messages(1..=150)).await;
        let files = contents(folder.path());
        assert_eq!(files.len(), 1);
        let lines: Vec<_> = files.values().next().unwrap().lines().collect();
        assert_eq!(lines.len(), 150);
        if record == Record::Payload {
            assert_eq!(lines[149], "{\"n\":150}");
        }
    }
}

#[tokio::test]
async fn an_old_sequence_of_a_recreated_stream_is_a_new_message() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path());
    let recreated = || {
        let mut batch = messages(1..=10);
        batch
            .iter_mut()
            .for_each(|envelope| envelope.stored_at = envelope.stored_at.plus(Duration::from_secs(60)));
        batch
    };
    let sink = open(&settings);
    write_ok(&sink, messages(1..=20)).await;
    write_ok(&sink, recreated()).await;
    write_ok(&sink, recreated()).await;
    write_ok(&sink, messages(1..=20)).await;
    assert_eq!(sequences(folder.path()).len(), 30);
    drop(sink);
    let sink = reopen(&settings);
    write_ok(&sink, recreated()).await;
    write_ok(&sink, messages(1..=20)).await;
    assert_eq!(sequences(folder.path()).len(), 30);
}

#[tokio::test(start_paused = true)]
async fn identities_age_out_after_the_ack_floor_passed_them() {
    let folder = TempDir::new().unwrap();
    let settings = FileSettings { rotate_bytes: 1, ..settings(folder.path()) };
    let sink = open(&settings);
    write_ok(&sink, messages(1..=10)).await;
    write_ok(&sink, messages(11..=20)).await;
    // A recreated stream: sequence 5 stands in a younger segment as well.
    let mut again = message(5);
    again.stored_at = again.stored_at.plus(Duration::from_secs(3600));
    write_ok(&sink, vec![message(30), again.clone()]).await;
    assert_eq!(indexes(folder.path()).len(), 3);
    sink.note_ack_floor(15).await;
    tokio::time::advance(settings.dedup_horizon - Duration::from_secs(1)).await;
    sink.note_ack_floor(15).await;
    assert_eq!(indexes(folder.path()).len(), 3);
    tokio::time::advance(Duration::from_secs(1)).await;
    sink.note_ack_floor(15).await;
    assert_eq!(indexes(folder.path()).len(), 2);
    // Forgotten: written again. Still known: not.
    write_ok(&sink, vec![message(1), again, message(11)]).await;
    assert_eq!(sink.close(Duration::from_secs(10)).await, Ok(()));
    let mut found = sequences(folder.path());
    found.sort_unstable();
    let mut expected: Vec<u64> = (1..=20).chain([1, 5, 30]).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn memory_does_not_grow_with_the_number_of_messages() {
    let folder = TempDir::new().unwrap();
    let sink = open(&settings(folder.path()));
    for start in (0..20_000_u64).step_by(5_000) {
        write_ok(&sink, messages(start..start + 5_000)).await;
    }
    let store = sink.store.lock().await;
    let Store::Segments(store) = &*store else { panic!("segments") };
    assert_eq!(store.memory().sequence_count(), 20_000);
    assert_eq!(store.memory().segments().count(), 1);
    let index = fs::metadata(&indexes(folder.path())[0]).unwrap().len();
    assert!(index < 20_000 * 5, "{index}");
}
