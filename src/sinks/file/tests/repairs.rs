//! Crashes: whatever is left on disk, a start gives exactly the complete batches.

use std::os::unix::fs::FileExt as _;

use proptest::prelude::{Just, Strategy, any, prop_assert_eq, proptest};
use proptest::test_runner::Config;

use super::*;

/// A directory copied before anybody repairs it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(|_| ()).unwrap() }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The sizes of data and index after each batch of a segment: batches of 3, 1 and 4 messages.
struct Scene {
    folder: TempDir,
    data: PathBuf,
    index: PathBuf,
    ends: Vec<(u64, u64, u64)>,
}

fn scene() -> Scene {
    let folder = TempDir::new().unwrap();
    let sink = open(&settings(folder.path()));
    let mut ends = vec![(0, 0, 0)];
    let mut last = 0;
    for batch in [1..=3, 4..=4, 5..=8] {
        last = *batch.end();
        runtime().block_on(write_ok(&sink, messages(batch)));
        let data = fs::metadata(open_segment(folder.path())).unwrap().len();
        let index = fs::metadata(&indexes(folder.path())[0]).unwrap().len();
        ends.push((data, index, last));
    }
    assert_eq!(last, 8);
    let data = open_segment(folder.path()).strip_prefix(folder.path()).unwrap().to_path_buf();
    let index = indexes(folder.path())[0].strip_prefix(folder.path()).unwrap().to_path_buf();
    drop(sink);
    Scene { folder, data, index, ends }
}

/// Starts on a damaged copy of the scene, checks what is left, and that the rest can be written again.
fn check(scene: &Scene, damage: impl Fn(&fs::File, &fs::File), complete: u64) {
    let folder = TempDir::new().unwrap();
    copy(scene.folder.path(), folder.path());
    let file = |name: &Path| fs::OpenOptions::new().write(true).open(folder.path().join(name)).unwrap();
    damage(&file(&scene.data), &file(&scene.index));
    let settings = settings(folder.path());
    let sink = open(&settings);
    assert_eq!(sequences(folder.path()), (1..=complete).collect::<Vec<_>>());
    runtime().block_on(write_ok(&sink, messages(1..=9)));
    assert_eq!(sequences(folder.path()), (1..=9).collect::<Vec<_>>());
    drop(sink);
    let sink = reopen(&settings);
    runtime().block_on(write_ok(&sink, messages(1..=10)));
    assert_eq!(sequences(folder.path()), (1..=10).collect::<Vec<_>>());
}

#[test]
fn every_cut_of_data_or_index_leaves_the_complete_batches() {
    let scene = scene();
    let (data_end, index_end, _) = *scene.ends.last().unwrap();
    let complete = |data: u64, index: u64| {
        scene.ends.iter().filter(|end| end.0 <= data && end.1 <= index).map(|end| end.2).max().unwrap()
    };
    for cut in (0..=data_end).step_by(7) {
        check(&scene, |data, _| data.set_len(cut).unwrap(), complete(cut, index_end));
    }
    for cut in 0..=index_end {
        check(&scene, |_, index| index.set_len(cut).unwrap(), complete(data_end, cut));
    }
}

#[test]
fn a_torn_tail_is_cut_whatever_it_is() {
    let scene = scene();
    let tails: [&[u8]; 5] = [
        b"{\"a\":1,\"b\":",
        "{\"a\":\"\u{e9}".as_bytes().split_last().unwrap().1,
        b"{\"a\":1}",
        b"\n",
        &[0; 5000],
    ];
    for tail in tails {
        let end = scene.ends.last().unwrap();
        check(&scene, |data, _| data.write_all_at(tail, end.0).unwrap(), 8);
        check(&scene, |_, index| index.write_all_at(tail, end.1).unwrap(), 8);
    }
}

proptest! {
    #![proptest_config(Config { cases: 60, ..Config::default() })]
    /// The page cache is lost in the middle of the last batch: of what was not synced, any bytes may be zero, and the
    /// files may have any size up to the new one.
    #[test]
    fn a_lost_page_cache_takes_the_unsynced_batch_only(
        sizes in (0u64..=1000, 0u64..=1000), holes in proptest::collection::vec((any::<bool>(), 0u64..1000, 1usize..64), 0..4),
        lost in proptest::sample::select(vec![0usize, 1, 2]).prop_flat_map(Just),
    ) {
        let scene = scene();
        let [.., (data_synced, index_synced, before), (data_end, index_end, after)] = scene.ends[..] else { unreachable!() };
        let share = |from: u64, to: u64, thousandth: u64| from + (to - from) * thousandth / 1000;
        let size = match lost {
            0 => (data_end, index_end),
            1 => (share(data_synced, data_end, sizes.0), index_end),
            _ => (share(data_synced, data_end, sizes.0), share(index_synced, index_end, sizes.1)),
        };
        let folder = TempDir::new().unwrap();
        copy(scene.folder.path(), folder.path());
        let path = |name: &Path| folder.path().join(name);
        let mut intact = true;
        for (name, size, synced, end, which) in
            [(&scene.data, size.0, data_synced, data_end, true), (&scene.index, size.1, index_synced, index_end, false)]
        {
            let before = fs::read(path(name)).unwrap();
            let mut bytes = before.clone();
            bytes.truncate(usize::try_from(size).unwrap());
            for (in_data, at, length) in &holes {
                if *in_data == which {
                    let at = usize::try_from(share(synced, end, *at)).unwrap();
                    bytes.iter_mut().skip(at).take(*length).for_each(|byte| *byte = 0);
                }
            }
            intact &= bytes == before;
            fs::write(path(name), bytes).unwrap();
        }
        let sink = open(&settings(folder.path()));
        let expected = if intact { after } else { before };
        prop_assert_eq!(sequences(folder.path()), (1..=expected).collect::<Vec<_>>());
        runtime().block_on(write_ok(&sink, messages(1..=8)));
        prop_assert_eq!(sequences(folder.path()), (1..=8).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_batch_that_was_cut_after_a_failed_sync_does_not_come_back() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path());
    let sink = open(&settings);
    write_ok(&sink, messages(1..=3)).await;
    let (segment, index) = (open_segment(folder.path()), indexes(folder.path())[0].clone());
    write_ok(&sink, messages(4..=6)).await;
    let whole = (fs::read(&segment).unwrap(), fs::read(&index).unwrap());
    drop(sink);
    // What a failed sync leads to: the segment is cut, its batch stands in the next one. The cut itself never reached the
    // disk.
    fs::write(&segment, &whole.0[..whole.0.len() / 2]).unwrap();
    let sink = reopen(&settings);
    let (files, cut) = {
        let mut store = sink.store.lock().await;
        let Store::Segments(store) = &mut *store else { panic!("segments") };
        let partition: Arc<str> = "".into();
        let segment = store.segments.get_mut(&partition).unwrap();
        segment.files = super::super::segments::reopen(segment, &store.base, &store.state).unwrap();
        let files = segment.files.clone().unwrap();
        let cut = segment.as_cut();
        store.damage(&partition);
        (files, cut)
    };
    assert_eq!(files.data.metadata().unwrap().len(), cut.data_end);
    write_ok(&sink, messages(4..=6)).await;
    assert_eq!(sequences(folder.path()), [1, 2, 3, 4, 5, 6]);
    drop(sink);
    let closed = segment.with_extension("");
    fs::write(&closed, &whole.0).unwrap();
    fs::write(&index, &whole.1).unwrap();
    let sink = reopen(&settings);
    assert_eq!(sequences(folder.path()), [1, 2, 3, 4, 5, 6]);
    write_ok(&sink, messages(1..=6)).await;
    assert_eq!(sequences(folder.path()), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_closed_segment_may_be_moved_away_and_its_messages_stay_known() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path());
    let sink = open(&settings);
    write_ok(&sink, messages(1..=3)).await;
    assert_eq!(sink.close(Duration::from_secs(10)).await, Ok(()));
    drop(sink);
    for name in contents(folder.path()).into_keys() {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let sink = reopen(&settings);
    write_ok(&sink, messages(2..=4)).await;
    assert_eq!(sequences(folder.path()), [4]);
}

#[tokio::test]
async fn without_its_memory_a_directory_keeps_every_whole_line() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path());
    let sink = open(&settings);
    write_ok(&sink, messages(1..=3)).await;
    drop(sink);
    drop(reopen(&settings));
    let segment = open_segment(folder.path());
    let length = fs::metadata(&segment).unwrap().len();
    fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(length - 4).unwrap();
    fs::remove_dir_all(folder.path().join(".jetsink")).unwrap();
    let _sink = open(&settings);
    assert_eq!(sequences(folder.path()), [1, 2]);
    assert!(contents(folder.path()).into_keys().all(|name| name.ends_with(".ndjson")));
}

#[tokio::test]
async fn a_segment_whose_name_alone_became_durable_was_never_reported() {
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path());
    let sink = open(&settings);
    write_ok(&sink, messages(1..=3)).await;
    drop(sink);
    drop(reopen(&settings));
    // The data's name is lost, the index is whole; then the other way round.
    let data = fs::read(open_segment(folder.path())).unwrap();
    let (segment, index) = (open_segment(folder.path()), indexes(folder.path())[0].clone());
    fs::remove_file(&segment).unwrap();
    let sink = reopen(&settings);
    write_ok(&sink, messages(1..=3)).await;
    assert_eq!(sequences(folder.path()), [1, 2, 3]);
    drop(sink);
    fs::remove_file(&index).unwrap();
    let sink = reopen(&settings);
    write_ok(&sink, messages(1..=3)).await;
    assert_eq!(sequences(folder.path()), [1, 2, 3]);
    let orphan = folder.path().join(".jetsink/orphans").join(segment.file_name().unwrap());
    assert_eq!(fs::read(orphan).unwrap(), data);
}
