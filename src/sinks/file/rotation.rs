//! The end of segments: by size, by age, by the end of the daemon; and the end of what is remembered of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::compress::Closed;
use super::fault::FileFailure;
use super::segment::{Segment, final_name, open_name};
use super::segments::{SegmentStore, reopen};
use super::settings::Compression;
use crate::disposition::Fault;

impl SegmentStore {
    /// Closes the segments whose size or age asks for it. A failure is logged: what is in them is durable.
    pub(super) fn rotate(&mut self) {
        let now = Instant::now();
        let is_due =
            |segment: &Segment| segment.data_end >= self.settings.rotate_bytes || segment.due_at <= now;
        let due: Vec<_> = self
            .segments
            .values()
            .filter(|segment| is_due(segment))
            .map(|segment| Arc::clone(&segment.partition))
            .collect();
        for partition in due {
            if let Some(mut segment) = self.segments.remove(&partition) {
                self.close_segment(&mut segment);
            }
        }
    }

    /// Ends a segment: close frame, final name, compression.
    pub(super) fn close_segment(&mut self, segment: &mut Segment) {
        self.memory.close_segment(segment.key);
        if let Err(failure) = self.finish_segment(segment) {
            tracing::warn!(%failure, segment = segment.stem, "a segment keeps its open name until the next start");
            return;
        }
        self.offer_compression(segment.stem.clone(), Arc::clone(&segment.partition));
    }

    fn finish_segment(&self, segment: &mut Segment) -> Result<(), FileFailure> {
        let folder = self.folder_of(&segment.partition)?;
        if segment.files.is_none() {
            segment.files = reopen(segment, &folder, &self.state)?;
        }
        segment.write_close(&self.state)?;
        segment.files = None;
        #[cfg(feature = "failpoints")]
        crate::failpoint::hit("file.before_rename");
        folder.rename(&open_name(&segment.stem), &folder, &final_name(&segment.stem))?;
        folder.sync()
    }

    pub(super) fn offer_compression(&self, stem: String, partition: Arc<str>) {
        if self.settings.compression != Compression::None {
            self.compressor.add(Closed { partition, stem });
        }
    }

    /// Learns the ack floor, and forgets what it passed `dedup_horizon` ago.
    pub(super) fn note_ack_floor(&mut self, floor: u64) {
        self.rotate();
        let now = Instant::now();
        self.memory.note_ack_floor(floor, now);
        let mut expired = self.memory.expired(self.settings.dedup_horizon, now);
        expired
            .retain(|key| self.memory.segment(*key).is_some_and(|facts| !self.compressor.holds(&facts.stem)));
        if expired.is_empty() {
            return;
        }
        if let Err(failure) = self.memory.forget(&expired, &self.state) {
            tracing::warn!(%failure, "old indexes are kept for now");
        }
    }

    /// Closes all segments and waits for their compression, until the deadline.
    pub(super) fn close(&mut self, deadline: Duration) -> Result<(), Fault> {
        let until = Instant::now() + deadline;
        let mut left = 0_usize;
        for (_, mut segment) in std::mem::take(&mut self.segments) {
            if Instant::now() < until {
                self.close_segment(&mut segment);
            } else {
                left += 1;
            }
        }
        self.settle().map_err(|failure| failure.fault())?;
        let compressed = self.compressor.finish(until.saturating_duration_since(Instant::now()));
        if left == 0 && compressed {
            Ok(())
        } else {
            Err(Fault::transient(format!(
                "{left} segments stay open, or compression is not done; the next start goes on"
            )))
        }
    }
}
