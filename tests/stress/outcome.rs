//! What must hold in the end, whatever has happened (design §9).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::harness::{Client, Record, whole_records};
use crate::traffic::Ledger;

/// Requests under way at once.
const SIDE_BY_SIDE: usize = 50;
/// More than one record.
const TAIL: u64 = 16 * 1024;

/// Every confirmed message that the policy lets pass is in a sink and in no dead letter; each other one is in exactly one
/// dead letter and in no sink; no directory holds a sequence twice. Gives how many stand in more than one directory.
pub(crate) async fn check(client: &Client, directories: &[&Path], ledger: &Ledger) -> usize {
    let mut written = BTreeSet::new();
    let mut several = 0;
    for directory in directories {
        let found = whole_records(directory).iter().map(Record::sequence).collect::<Vec<_>>();
        let set = found.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(set.len(), found.len(), "{}: a sequence is there twice", directory.display());
        several += set.intersection(&written).count();
        written.extend(set);
    }
    let (good, bad) = (ledger.sequences(false), ledger.sequences(true));
    let missing = good.iter().filter(|sequence| !written.contains(sequence)).collect::<Vec<_>>();
    assert!(missing.is_empty(), "{} confirmed and in no sink: {:?}", missing.len(), few(&missing));
    let wrong = bad.iter().filter(|sequence| written.contains(sequence)).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "rejected and in a sink: {:?}", few(&wrong));
    let letters = dead_letters(client).await;
    let unexpected = symmetric_difference(&letters, &bad);
    assert!(
        unexpected.is_empty(),
        "{} letters for {} rejected messages; differing: {:?}",
        letters.len(),
        bad.len(),
        few(&unexpected)
    );
    several
}

/// What stands in one list only, or in one list more often.
fn symmetric_difference(letters: &[u64], expected: &[u64]) -> Vec<u64> {
    let mut difference =
        letters.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect::<Vec<_>>();
    let (letters, expected) =
        (letters.iter().copied().collect::<BTreeSet<_>>(), expected.iter().copied().collect::<BTreeSet<_>>());
    difference.extend(letters.symmetric_difference(&expected));
    difference
}

fn few<T: Copy>(all: &[T]) -> Vec<T> {
    all.iter().copied().take(10).collect()
}

/// The stream sequences in the dead letters, sorted, repeats included.
async fn dead_letters(client: &Client) -> Vec<u64> {
    let info = client.stream_info("DLQ").await;
    let (first, last) =
        (info["state"]["first_seq"].as_u64().unwrap(), info["state"]["last_seq"].as_u64().unwrap());
    let read = |letter: u64| async move {
        let asked = client.api("STREAM.MSG.GET.DLQ", &json!({ "seq": letter })).await;
        let block = STANDARD.decode(asked["message"]["hdrs"].as_str().unwrap()).unwrap();
        let block = String::from_utf8(block).unwrap();
        let line = block.lines().find_map(|line| line.strip_prefix("Jetsink-Stream-Sequence:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let mut found =
        futures_util::stream::iter(first..=last).map(read).buffered(SIDE_BY_SIDE).collect::<Vec<_>>().await;
    found.sort_unstable();
    found
}

/// Whether the durable has nothing left.
pub(crate) async fn is_drained(client: &Client) -> Result<(), String> {
    let info: Value = client.try_api("CONSUMER.INFO.SRC.w", &Value::Null).await?;
    if info["num_pending"] == 0 && info["num_ack_pending"] == 0 { Ok(()) } else { Err(info.to_string()) }
}

/// The sequence of the last whole line of the segment that was written last; 0 when there is none. Reads the end of one file:
/// it is asked many times a second.
pub(crate) fn newest(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let files = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let modified = entry.metadata().ok()?.modified().ok()?;
        entry.file_name().to_str()?.contains(".ndjson").then(|| (modified, entry.path()))
    });
    files.max().and_then(|(_, path)| last_sequence(&path)).unwrap_or_default()
}

fn last_sequence(path: &Path) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let end = file.seek(SeekFrom::End(0)).ok()?;
    file.seek(SeekFrom::Start(end.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n')?);
    let line = bytes.rsplit(|byte| *byte == b'\n').next()?;
    let record: Value = serde_json::from_slice(line).ok()?;
    record["stream_sequence"].as_u64()
}
