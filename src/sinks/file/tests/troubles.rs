//! Disks that are full or gone, and files that are taken away. Real ones, where the machine lets us.

use std::process::Command;

use super::*;

/// A file system of a fixed size; gone when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None` where this process may not mount.
    fn new(size: &str) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }

    fn remount(&self, options: &str) {
        let status =
            Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(self.0.path()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn large(sequences: std::ops::Range<u64>) -> Vec<Envelope> {
    let mut batch = messages(sequences);
    for envelope in &mut batch {
        envelope.payload =
            format!("{{\"n\":{},\"x\":\"{}\"}}", envelope.stream_sequence, "x".repeat(1000)).into();
    }
    batch
}

fn is_down(failed: &[(u64, Fault)], text: &str) -> bool {
    !failed.is_empty()
        && failed
            .iter()
            .all(|(_, fault)| matches!(fault, Fault::SinkDown { detail } if detail.contains(text)))
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_shows_no_half_record() {
    let Some(disk) = SmallDisk::new("64k") else {
        eprintln!("not permitted to mount a small file system: the simulated troubles stand for it");
        return;
    };
    for layout in [Layout::Segments, Layout::OneFilePerMessage] {
        disk.remount("size=64k");
        let directory = disk.0.path().join(format!("{layout:?}"));
        let settings = FileSettings { layout, ..settings(&directory) };
        let sink = open(&settings);
        let step = if layout == Layout::Segments { 20 } else { 4 };
        let mut start = 0;
        let down = loop {
            let failed = write_now(&sink, large(start..start + step)).await;
            if !failed.is_empty() {
                break failed;
            }
            start += step;
        };
        assert!(start > 0 && start < 200);
        assert!(is_down(&down, "No space left"), "{down:?}");
        assert_eq!(down.len(), usize::try_from(step).unwrap());
        for _ in 0..3 {
            assert!(matches!(sink.probe().await, Err(Fault::SinkDown { .. })));
            assert!(is_down(&write_now(&sink, large(start..start + step)).await, "No space left"));
            assert_eq!(sequences(&directory), (0..start).collect::<Vec<_>>());
        }
        disk.remount("size=4m");
        assert_eq!(sink.probe().await, Ok(()));
        write_ok(&sink, large(start..200)).await;
        assert_eq!(sequences(&directory), (0..200).collect::<Vec<_>>());
        assert_eq!(sink.close(Duration::from_secs(10)).await, Ok(()));
        drop(sink);
        let sink = reopen(&settings);
        write_ok(&sink, large(0..201)).await;
        assert_eq!(sequences(&directory), (0..201).collect::<Vec<_>>());
        drop(sink);
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[tokio::test]
async fn a_directory_that_is_replaced_is_no_place_to_write_to() {
    let outer = TempDir::new().unwrap();
    let directory = outer.path().join("records");
    for layout in [Layout::Segments, Layout::OneFilePerMessage] {
        let sink = open(&FileSettings { layout, ..settings(&directory) });
        write_ok(&sink, messages(1..=3)).await;
        let moved = outer.path().join("moved");
        fs::rename(&directory, &moved).unwrap();
        assert!(is_down(&write_now(&sink, messages(4..=5)).await, "records"));
        fs::create_dir(&directory).unwrap();
        assert!(is_down(&write_now(&sink, messages(4..=5)).await, "records"));
        assert!(matches!(sink.probe().await, Err(Fault::SinkDown { .. })));
        fs::remove_dir(&directory).unwrap();
        fs::rename(&moved, &directory).unwrap();
        assert_eq!(sink.probe().await, Ok(()));
        write_ok(&sink, messages(1..=5)).await;
        assert_eq!(sequences(&directory), [1, 2, 3, 4, 5]);
        drop(sink);
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[tokio::test]
async fn a_removed_open_segment_costs_what_was_in_it_and_nothing_more() {
    let folder = TempDir::new().unwrap();
    let sink = open(&settings(folder.path()));
    write_ok(&sink, messages(1..=3)).await;
    fs::remove_file(open_segment(folder.path())).unwrap();
    assert!(is_down(&write_now(&sink, messages(4..=6)).await, "keep"));
    assert_eq!(sink.probe().await, Ok(()));
    write_ok(&sink, messages(4..=6)).await;
    assert_eq!(sequences(folder.path()), [4, 5, 6]);
}

#[tokio::test]
async fn a_removed_partition_folder_is_made_again() {
    let folder = TempDir::new().unwrap();
    let sink =
        open(&FileSettings { partition: Partition::Subject, max_open_files: 2, ..settings(folder.path()) });
    write_ok(&sink, messages(0..=5)).await;
    fs::remove_dir_all(folder.path().join("orders.0")).unwrap();
    let again = write_now(&sink, messages(6..=11)).await;
    if !again.is_empty() {
        assert_eq!(sink.probe().await, Ok(()));
        write_ok(&sink, messages(6..=11)).await;
    }
    let mut found = sequences(folder.path());
    found.sort_unstable();
    assert_eq!(found, [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
}

#[tokio::test]
async fn a_read_only_disk_is_down_for_everybody() {
    let Some(disk) = SmallDisk::new("1m") else {
        eprintln!("not permitted to mount a small file system: the simulated troubles stand for it");
        return;
    };
    let settings = settings(disk.0.path());
    let sink = open(&settings);
    write_ok(&sink, messages(1..=3)).await;
    assert_eq!(sink.close(Duration::from_secs(10)).await, Ok(()));
    disk.remount("ro");
    assert!(is_down(&write_now(&sink, messages(4..=6)).await, "Read-only"));
    assert!(matches!(sink.probe().await, Err(Fault::SinkDown { .. })));
    disk.remount("rw");
    assert_eq!(sink.probe().await, Ok(()));
    write_ok(&sink, messages(4..=6)).await;
    assert_eq!(sequences(disk.0.path()), [1, 2, 3, 4, 5, 6]);
    drop(sink);
}

const LIMITED: &str = "JETSINK_TEST_LIMITED";

/// Runs this test again in a process with a limit, as the shell sets it, and gives whether it passed.
fn passes_with(limit: &str, test: &str, directory: &Path) -> bool {
    Command::new("sh")
        .arg("-c")
        .arg(format!("trap '' XFSZ; ulimit {limit} && exec \"$1\" \"$2\" --exact"))
        .arg("sh")
        .arg(std::env::current_exe().unwrap())
        .arg(format!("sinks::file::tests::troubles::{test}"))
        .env(LIMITED, directory)
        .status()
        .unwrap()
        .success()
}

fn tenants(count: u64) -> Vec<Envelope> {
    let mut batch = messages(0..count);
    batch.iter_mut().for_each(|envelope| envelope.subject = format!("tenant.{}", envelope.stream_sequence));
    batch
}

#[tokio::test]
async fn a_thousand_tenants_need_few_files() {
    if let Some(directory) = std::env::var_os(LIMITED) {
        let settings = FileSettings { partition: Partition::Subject, ..settings(Path::new(&directory)) };
        return write_ok(&open(&settings), tenants(1000)).await;
    }
    let folder = TempDir::new().unwrap();
    assert!(passes_with("-n 128", "a_thousand_tenants_need_few_files", folder.path()));
    assert_eq!(sequences(folder.path()).len(), 1000);
}

#[tokio::test]
async fn too_many_open_files_is_a_passing_fault() {
    if let Some(directory) = std::env::var_os(LIMITED) {
        let settings = FileSettings { partition: Partition::Subject, ..settings(Path::new(&directory)) };
        let sink = open(&settings);
        let failed = write_now(&sink, tenants(100)).await;
        assert!(!failed.is_empty() && failed.len() < 100);
        assert!(failed.iter().all(|(_, fault)| matches!(fault, Fault::Transient { .. })), "{failed:?}");
        return;
    }
    let folder = TempDir::new().unwrap();
    assert!(passes_with("-n 40", "too_many_open_files_is_a_passing_fault", folder.path()));
    let sink = reopen(&FileSettings { partition: Partition::Subject, ..settings(folder.path()) });
    write_ok(&sink, tenants(100)).await;
    let mut found = sequences(folder.path());
    found.sort_unstable();
    assert_eq!(found, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_short_write_is_cut_back_and_its_batch_goes_to_a_new_segment() {
    if let Some(directory) = std::env::var_os(LIMITED) {
        let sink = open(&settings(Path::new(&directory)));
        let mut down = 0;
        for start in (0..200).step_by(20) {
            let failed = write_now(&sink, large(start..start + 20)).await;
            if !failed.is_empty() {
                assert!(is_down(&failed, "File too large"), "{failed:?}");
                assert_eq!(sequences(Path::new(&directory)), (0..start).collect::<Vec<_>>());
                down += 1;
                write_ok(&sink, large(start..start + 20)).await;
            }
        }
        assert!(down >= 3);
        return;
    }
    let folder = TempDir::new().unwrap();
    // In blocks of 512 or 1024 bytes: room for two or three batches.
    assert!(passes_with(
        "-f 100",
        "a_short_write_is_cut_back_and_its_batch_goes_to_a_new_segment",
        folder.path()
    ));
    let sink = reopen(&settings(folder.path()));
    write_ok(&sink, large(0..201)).await;
    assert_eq!(sequences(folder.path()), (0..201).collect::<Vec<_>>());
}
