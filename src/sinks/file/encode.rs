//! A batch as bytes, spread over its partitions. Nothing here touches the disk, so it is done before the batch's turn.

use std::collections::HashMap;
use std::sync::Arc;

use super::name::{MAX_NAME_BYTES, escape};
use super::settings::{FileSettings, Layout, Partition};
use crate::delivery::WriteBatch;
use crate::disposition::Refusal;
use crate::envelope::{Envelope, Identity};
use crate::reason::ReasonCode;
use crate::sinks::record::RecordEncoder;
use crate::sinks::time_text::TimeText;

/// Other tasks get a chance after so many bytes.
const BYTES_PER_TURN: usize = 256 << 10;

/// A guess at what a full record needs beyond subject, headers and payload.
const BYTES_PER_RECORD: usize = 256;

/// The records of one partition.
#[derive(Debug)]
pub(super) struct Part {
    /// The name of its folder; empty for the base directory.
    pub(super) partition: Arc<str>,
    pub(super) data: Vec<u8>,
    pub(super) lines: Vec<Line>,
}

/// Where a record stands in the data of its part: from the end of the line before it to its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Its place in the batch.
    pub(super) record: usize,
    pub(super) identity: Identity,
    pub(super) end: usize,
}

/// A batch ready to be written.
#[derive(Debug, Default)]
pub(super) struct EncodedBatch {
    pub(super) parts: Vec<Part>,
    pub(super) refused: Vec<(usize, Refusal)>,
    /// Second copies of a message within the batch, each with the place of the first: they share its outcome.
    pub(super) copies: Vec<(usize, usize)>,
}

impl Part {
    /// Leaves out the lines whose identity is committed already, and names them.
    pub(super) fn take_out(&mut self, is_committed: impl Fn(Identity) -> bool) -> Vec<usize> {
        if !self.lines.iter().any(|line| is_committed(line.identity)) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        let mut kept = Self { partition: Arc::clone(&self.partition), data: Vec::new(), lines: Vec::new() };
        let mut start = 0;
        for line in &self.lines {
            if is_committed(line.identity) {
                taken.push(line.record);
            } else {
                kept.data.extend_from_slice(self.data.get(start..line.end).unwrap_or_default());
                kept.lines.push(Line { end: kept.data.len(), ..*line });
            }
            start = line.end;
        }
        *self = kept;
        taken
    }
}

/// Encodes batches.
#[derive(Debug)]
pub(super) struct BatchEncoder<'a> {
    settings: &'a FileSettings,
    encoder: RecordEncoder,
    times: TimeText,
    batch: EncodedBatch,
    /// Places of the parts by what they are partitioned by: a subject or a day.
    places: HashMap<String, usize>,
    /// Room to begin with for the data of a part.
    reserve: usize,
}

impl<'a> BatchEncoder<'a> {
    pub(super) fn new(settings: &'a FileSettings) -> Self {
        Self {
            settings,
            encoder: RecordEncoder::new(settings.record, settings.payload_mode),
            times: TimeText::default(),
            batch: EncodedBatch::default(),
            places: HashMap::new(),
            reserve: 0,
        }
    }

    pub(super) async fn encode(mut self, batch: &WriteBatch) -> EncodedBatch {
        let firsts = first_places(batch);
        if self.settings.partition == Partition::None {
            self.reserve = batch.weight().saturating_add(batch.len().saturating_mul(BYTES_PER_RECORD));
        }
        let mut since = 0;
        for (record, envelope) in batch.envelopes().enumerate() {
            let first = firsts.get(&envelope.identity()).copied().unwrap_or(record);
            if first == record {
                if let Err(refusal) = self.encode_one(record, envelope) {
                    self.batch.refused.push((record, refusal));
                }
                since += envelope.weight();
            } else {
                self.batch.copies.push((record, first));
            }
            if since >= BYTES_PER_TURN {
                since = 0;
                tokio::task::yield_now().await;
            }
        }
        self.batch.parts.retain(|part| !part.lines.is_empty());
        self.batch
    }

    fn encode_one(&mut self, record: usize, envelope: &Envelope) -> Result<(), Refusal> {
        let place = self.place(envelope)?;
        let Some(part) = self.batch.parts.get_mut(place) else { return Ok(()) };
        match self.settings.layout {
            Layout::Segments => self.encoder.write_line(envelope, &mut part.data)?,
            Layout::OneFilePerMessage => self.encoder.write_alone(envelope, &mut part.data)?,
        }
        part.lines.push(Line { record, identity: envelope.identity(), end: part.data.len() });
        Ok(())
    }

    fn place(&mut self, envelope: &Envelope) -> Result<usize, Refusal> {
        let by = match self.settings.partition {
            Partition::None => "",
            Partition::Subject => envelope.subject.as_str(),
            Partition::Day => self.times.date(envelope.stored_at),
        };
        if let Some(place) = self.places.get(by) {
            return Ok(*place);
        }
        let partition = if self.settings.partition == Partition::None { String::new() } else { escape(by) };
        if partition.len() > MAX_NAME_BYTES {
            return Err(Refusal {
                reason: ReasonCode::NameTooLong,
                detail: format!(
                    "the folder of this subject would need a name of {} bytes; {MAX_NAME_BYTES} are possible",
                    partition.len()
                ),
            });
        }
        let place = self.batch.parts.len();
        let data = Vec::with_capacity(self.reserve);
        self.batch.parts.push(Part { partition: partition.into(), data, lines: Vec::new() });
        self.places.insert(by.into(), place);
        Ok(place)
    }
}

/// The first places of identities, empty in the common case that sequences only rise and no identity can come twice.
fn first_places(batch: &WriteBatch) -> HashMap<Identity, usize> {
    let mut firsts = HashMap::new();
    let rising =
        batch.envelopes().map(|envelope| envelope.stream_sequence).is_sorted_by(|one, next| one < next);
    if !rising {
        for (record, envelope) in batch.envelopes().enumerate() {
            firsts.entry(envelope.identity()).or_insert(record);
        }
    }
    firsts
}
