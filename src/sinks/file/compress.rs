//! Compresses closed segments, one after another, in a thread of its own.
//!
//! A compressed file gets its name only when it is complete and synced; only then is the raw one removed. What is not done
//! when the daemon stops is done after the next start.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fault::FileFailure;
use super::folder::Folder;
use super::lock::Lock;
use super::segment::final_name;
use super::settings::Compression;

const CHUNK_BYTES: usize = 256 << 10;
const ZSTD_LEVEL: i32 = 3;

/// A closed segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) partition: Arc<str>,
    pub(super) stem: String,
}

/// The name of a compressed segment.
pub(super) fn compressed_name(stem: &str, compression: Compression) -> Option<String> {
    match compression {
        Compression::None => None,
        Compression::Gzip => Some(format!("{stem}.ndjson.gz")),
        Compression::Zstd => Some(format!("{stem}.ndjson.zst")),
    }
}

/// The thread's queue. Its length is bounded by the number of closed segments, of which it holds the names.
#[derive(Debug)]
pub(super) struct Compressor {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Closed>,
    in_work: Option<Closed>,
    /// Tried again when the next segment comes.
    failed: Vec<Closed>,
    stopped: bool,
}

impl Compressor {
    /// Starts the thread. It keeps the lock of the directory until it has ended.
    pub(super) fn start(
        base: Arc<Folder>,
        state: Arc<Folder>,
        compression: Compression,
        lock: Arc<Lock>,
    ) -> Result<Self, FileFailure> {
        let shared = Arc::new(Shared::default());
        let work = Work { base, state, compression, shared: Arc::clone(&shared) };
        let path = work.state.path().to_path_buf();
        std::thread::Builder::new()
            .name("jetsink-compress".into())
            .spawn(move || {
                work.run();
                drop(lock);
            })
            .map_err(|cause| FileFailure::new("start a thread for", &path, cause))?;
        Ok(Self { shared })
    }

    pub(super) fn add(&self, segment: Closed) {
        let mut queue = self.shared.lock();
        let again = std::mem::take(&mut queue.failed);
        queue.waiting.extend(again);
        queue.waiting.push_back(segment);
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Whether the segment still waits for its compression.
    pub(super) fn holds(&self, stem: &str) -> bool {
        let queue = self.shared.lock();
        queue.waiting.iter().chain(&queue.in_work).chain(&queue.failed).any(|segment| segment.stem == stem)
    }

    /// Waits until nothing is left to do, `deadline` at most; false when something is.
    pub(super) fn finish(&self, deadline: Duration) -> bool {
        let queue = self.shared.lock();
        let busy = |queue: &mut Queue| !queue.waiting.is_empty() || queue.in_work.is_some();
        let waited = self.shared.changed.wait_timeout_while(queue, deadline, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Work {
    base: Arc<Folder>,
    state: Arc<Folder>,
    compression: Compression,
    shared: Arc<Shared>,
}

impl Work {
    fn run(&self) {
        while let Some(segment) = self.next() {
            let done = self.compress(&segment);
            let mut queue = self.shared.lock();
            queue.in_work = None;
            if let Err(failure) = done {
                tracing::warn!(%failure, "a closed segment stays uncompressed until the next one is closed");
                queue.failed.push(segment);
            }
            drop(queue);
            self.shared.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Closed> {
        let mut queue = self.shared.lock();
        loop {
            if queue.stopped {
                return None;
            }
            queue.in_work = queue.waiting.pop_front();
            if queue.in_work.is_some() {
                return queue.in_work.clone();
            }
            queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn compress(&self, segment: &Closed) -> Result<(), FileFailure> {
        let Some(target) = compressed_name(&segment.stem, self.compression) else { return Ok(()) };
        let folder = match segment.partition.as_ref() {
            "" => Arc::clone(&self.base),
            name => Arc::new(self.base.folder(name)?),
        };
        let raw = final_name(&segment.stem);
        if !folder.holds(&raw)? {
            // Its operator took it away.
            return Ok(());
        }
        if !folder.holds(&target)? {
            let temporary = format!("{target}.tmp");
            self.state.remove(&temporary)?;
            let done = self.write(&folder, &raw, &temporary);
            if !matches!(done, Ok(true)) {
                self.state.remove(&temporary)?;
                return done.map(|_| ());
            }
            #[cfg(feature = "failpoints")]
            crate::failpoint::hit("file.before_rename");
            self.state.rename(&temporary, &folder, &target)?;
            folder.sync()?;
        }
        folder.remove(&raw)?;
        folder.sync()
    }

    /// Writes the compressed copy and syncs it; false when it was stopped.
    fn write(&self, folder: &Folder, raw: &str, temporary: &str) -> Result<bool, FileFailure> {
        let input = folder.open_to_read(raw)?;
        let output = self.state.create(temporary)?;
        let failure = |cause| FileFailure::new("compress", &folder.path().join(raw), cause);
        let done = match self.compression {
            Compression::None => Ok(false),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(&output, flate2::Compression::default());
                match self.copy(&input, &mut encoder) {
                    Ok(true) => encoder.finish().map(|_| true),
                    other => other,
                }
            }
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(&output, ZSTD_LEVEL).map_err(failure)?;
                match self.copy(&input, &mut encoder) {
                    Ok(true) => encoder.finish().map(|_| true),
                    other => other,
                }
            }
        };
        let done = done.map_err(failure)?;
        if done {
            output.sync_all().map_err(failure)?;
        }
        Ok(done)
    }

    fn copy(&self, mut input: &std::fs::File, output: &mut impl Write) -> io::Result<bool> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            if self.shared.lock().stopped {
                return Ok(false);
            }
            let read = input.read(&mut chunk)?;
            if read == 0 {
                return Ok(true);
            }
            output.write_all(chunk.get(..read).unwrap_or_default())?;
        }
    }
}
