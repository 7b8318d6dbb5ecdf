//! The file sink: NDJSON segments with a memory of what they hold, and one file per message.
//!
//! [`FileSink`] encodes a batch, awaits its turn, takes the one writer of the directory and lets it work on the blocking
//! pool. Whoever waits for a write may go away in the middle; the write ends all the same and is remembered, so the records
//! that come again are known.
//!
//! # Invariants
//! - A record is reported only when its data, its frame in the index and the names of both are synced (design §7).
//! - After a failed write or sync a file is cut to what was proven and never written again; nothing of the batch is
//!   remembered.
//! - No path component comes from a message unescaped, and no symbolic link below the directory is followed.

mod compress;
mod crew;
mod encode;
mod error;
mod fault;
mod folder;
mod index;
mod index_reader;
mod lock;
mod memory;
mod messages;
mod name;
mod outcome;
mod repair;
mod rotation;
mod segment;
mod segments;
mod settings;
mod store;
mod trouble;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};

pub use error::FileSinkError;
pub use fault::FileFailure;
pub use settings::{Compression, FileSettings, Layout, Partition, Record};

use crate::clock::{Clock, SystemClock};
use crate::delivery::{BoxFuture, Guarantee, Sink, SinkLimits, Turn, WriteBatch, WriteReport};
use crate::disposition::Fault;
use crate::envelope::Identity;
use encode::BatchEncoder;
use outcome::Outcome;
use store::Store;

/// Writes records to files. One directory has one writer.
#[derive(Debug)]
pub struct FileSink {
    settings: FileSettings,
    store: Arc<Mutex<Store>>,
}

impl FileSink {
    /// Takes the lock of the directory, repairs what an earlier life left, syncs what is relied on, and loads the memory.
    /// Blocks: it reads every index.
    ///
    /// # Errors
    /// See [`FileSinkError`]; with [`FileSinkError::Locked`] trying again later makes sense.
    pub fn open(settings: FileSettings, stream: &str, consumer: &str) -> Result<Self, FileSinkError> {
        Self::open_with_clock(settings, stream, consumer, Arc::new(SystemClock))
    }

    /// As [`FileSink::open`], with another wall clock, which only the age of segments depends on.
    ///
    /// # Errors
    /// As [`FileSink::open`].
    pub fn open_with_clock(
        settings: FileSettings,
        stream: &str,
        consumer: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, FileSinkError> {
        let store = Store::open(&settings, stream, consumer, clock)?;
        Ok(Self { settings, store: Arc::new(Mutex::new(store)) })
    }

    /// Lets the one writer work on the blocking pool. `None` if it broke; then nothing is known.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> T + Send + 'static,
        afterwards: impl FnOnce(&mut Store) + Send + 'static,
    ) -> Option<T> {
        let mut store = Arc::clone(&self.store).lock_owned().await;
        let (sender, receiver) = oneshot::channel();
        let _working = tokio::task::spawn_blocking(move || {
            // Nobody may be waiting any more; the work counts all the same.
            drop(sender.send(work(&mut store)));
            afterwards(&mut store);
        });
        receiver.await.ok()
    }
}

impl Sink for FileSink {
    fn name(&self) -> &'static str {
        "file"
    }

    fn limits(&self) -> SinkLimits {
        SinkLimits { max_records: 10_000, max_bytes: 256 << 20 }
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::EffectivelyOnce
    }

    fn write<'a>(&'a self, batch: &'a WriteBatch, turn: Turn) -> BoxFuture<'a, WriteReport> {
        Box::pin(async move {
            let mut encoded = BatchEncoder::new(&self.settings).encode(batch).await;
            let refused = std::mem::take(&mut encoded.refused);
            let copies = std::mem::take(&mut encoded.copies);
            turn.wait().await;
            let outcome = if encoded.parts.is_empty() {
                Some(Outcome::default())
            } else {
                self.with_store(|store| store.commit(encoded), Store::rotate).await
            };
            let mut report = WriteReport::new(batch);
            let Some(mut outcome) = outcome else {
                return WriteReport::all(batch, &Fault::transient("the file sink's writer broke off"));
            };
            for (record, refusal) in refused {
                outcome.failed.push((record, Fault::Refused(refusal)));
            }
            outcome.share(&copies);
            outcome.committed.iter().for_each(|record| report.commit(*record));
            for (record, fault) in outcome.failed {
                report.fail(record, fault);
            }
            report
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            match self.with_store(Store::probe, |_| ()).await {
                Some(result) => result,
                None => Err(Fault::transient("the file sink's writer broke off")),
            }
        })
    }

    fn remembers(&self, identity: Identity) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            self.with_store(move |store| store.remembers(identity), |_| ()).await.unwrap_or(false)
        })
    }

    fn note_ack_floor(&self, sequence: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _done = self.with_store(move |store| store.note_ack_floor(sequence), |_| ()).await;
        })
    }

    fn close(&self, deadline: Duration) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            match self.with_store(move |store| store.close(deadline), |_| ()).await {
                Some(result) => result,
                None => Err(Fault::transient("the file sink's writer broke off")),
            }
        })
    }
}
