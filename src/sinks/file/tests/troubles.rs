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
