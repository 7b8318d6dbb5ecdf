//! The process is killed at every named point in turn; what was reported is there once, and so is everything in the end.

use std::process::Command;

use super::*;

const DIRECTORY: &str = "JETSINK_TEST_CRASH_DIRECTORY";
const POINTS: [&str; 5] = [
    "file.before_write",
    "file.between_write_and_sync",
    "file.after_data_sync",
    "file.after_index_sync",
    "file.before_rename",
];

fn crash_settings(directory: &Path, variant: usize) -> FileSettings {
    let settings = settings(directory);
    match variant {
        0 => settings,
        1 => FileSettings { rotate_bytes: 2_500, compression: Compression::Zstd, ..settings },
        2 => FileSettings { partition: Partition::Subject, max_open_files: 4, ..settings },
        _ => FileSettings { layout: Layout::OneFilePerMessage, ..settings },
    }
}

/// What runs in the process that is killed: some messages again, then new ones. Gives the last one.
async fn live(directory: &Path, variant: usize) -> u64 {
    let records = directory.join("records");
    let sink = reopen(&crash_settings(&records, variant));
    let reported = reported(directory);
    let last = reported + 40;
    for start in (reported.saturating_sub(20) + 1..=last).step_by(5) {
        write_ok(&sink, messages(start..start + 5)).await;
        fs::write(directory.join("reported.new"), (start + 4).to_string()).unwrap();
        fs::rename(directory.join("reported.new"), directory.join("reported")).unwrap();
    }
    assert_eq!(sink.close(Duration::from_secs(10)).await, Ok(()));
    last
}

/// The last message that was reported durable.
fn reported(directory: &Path) -> u64 {
    fs::read_to_string(directory.join("reported")).map_or(0, |text| text.parse().unwrap())
}

#[tokio::test]
async fn a_crash_at_any_point_loses_nothing_and_doubles_nothing() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let directory = PathBuf::from(directory);
        let variant = fs::read_to_string(directory.join("variant")).unwrap().parse().unwrap();
        live(&directory, variant).await;
        return;
    }
    let name = "sinks::file::tests::crashes::a_crash_at_any_point_loses_nothing_and_doubles_nothing";
    let mut crashes = 0;
    for variant in 0..4_usize {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("variant"), variant.to_string()).unwrap();
        for count in [1, 2, 4] {
            for point in POINTS {
                let ended = Command::new(std::env::current_exe().unwrap())
                    .args([name, "--exact"])
                    .env(DIRECTORY, folder.path())
                    .env("JETSINK_FAILPOINT", format!("{point}:{count}"))
                    .output()
                    .unwrap();
                crashes += usize::from(!ended.status.success());
                let reported = reported(folder.path());
                let records = folder.path().join("records");
                let sink = reopen(&crash_settings(&records, variant));
                // Compression may still be at work with both files in place.
                if variant == 1 {
                    assert_eq!(sink.close(Duration::from_secs(10)).await, Ok(()));
                }
                let mut found = sequences(&records);
                found.sort_unstable();
                let count = found.len();
                found.dedup();
                assert_eq!(found.len(), count, "{variant} {point}: twice");
                assert!(
                    (1..=reported).all(|sequence| found.binary_search(&sequence).is_ok()),
                    "{variant} {point}: {reported} were reported, {found:?} are there"
                );
            }
        }
        let last = live(folder.path(), variant).await;
        let mut found = sequences(&folder.path().join("records"));
        found.sort_unstable();
        assert_eq!(found, (1..=last).collect::<Vec<_>>());
    }
    assert!(crashes >= 45, "{crashes}");
}
