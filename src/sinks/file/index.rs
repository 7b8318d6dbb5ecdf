//! The index of a segment: what the segment holds, batch by batch.
//!
//! ```text
//! index  := "JSINDEX1" frame(header) frame(batch)* frame(close)?
//! frame  := length:varint crc32:u32le body[length]
//! header := created_at:zigzag partition:text cuts:varint (stem:text created_at:zigzag data_end:varint index_end:varint)*
//! batch  := data_length:varint data_crc32:u32le lowest:varint span:varint count:varint
//!           (sequence:zigzag stored_at:zigzag)*        each as the difference from the one before
//! close  := 0
//! ```
//!
//! A frame that is not complete ends the index: a batch counts only if its frame and its data both are. The close frame
//! says that every batch before it was synced, so a segment that is missing afterwards was moved away by its operator.

use crate::clock::Timestamp;
use crate::envelope::Identity;

pub(super) const MAGIC: &[u8; 8] = b"JSINDEX1";

/// The first frame of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// When the segment was begun.
    pub(super) created_at: Timestamp,
    /// The folder of the segment; empty for the base directory.
    pub(super) partition: String,
    /// Segments whose last batch failed to sync and was written anew: from here on they end where they were proven.
    pub(super) cuts: Vec<Cut>,
}

/// Where a segment was cut after a failed write. Start-up repeats the cut, since it may not have reached the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) stem: String,
    /// When the segment that is meant was begun: a name alone might come back.
    pub(super) created_at: Timestamp,
    pub(super) data_end: u64,
    pub(super) index_end: u64,
}

/// What a batch frame says before its identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchFacts {
    pub(super) data_length: u64,
    pub(super) data_crc: u32,
    pub(super) lowest: u64,
    pub(super) highest: u64,
    pub(super) count: u64,
}

/// A frame behind the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Batch(BatchFacts, Identities<'a>),
    Close,
}

/// The identities of a batch, still encoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identities<'a> {
    rest: Decoder<'a>,
    left: u64,
    previous: Identity,
}

impl Header {
    /// Appends the magic number and the header frame.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        let mut body = Vec::new();
        push_zigzag(self.created_at.0, &mut body);
        push_text(&self.partition, &mut body);
        push_varint(length(self.cuts.len()), &mut body);
        for cut in &self.cuts {
            push_text(&cut.stem, &mut body);
            push_zigzag(cut.created_at.0, &mut body);
            push_varint(cut.data_end, &mut body);
            push_varint(cut.index_end, &mut body);
        }
        push_frame(&body, out);
    }

    pub(super) fn decode(body: &[u8]) -> Option<Self> {
        let mut decoder = Decoder(body);
        let created_at = Timestamp(decoder.zigzag()?);
        let partition = decoder.text()?;
        let count = decoder.varint()?;
        let mut cuts = Vec::new();
        for _ in 0..count {
            cuts.push(Cut {
                stem: decoder.text()?,
                created_at: Timestamp(decoder.zigzag()?),
                data_end: decoder.varint()?,
                index_end: decoder.varint()?,
            });
        }
        Some(Self { created_at, partition, cuts })
    }
}

/// Appends the frame of a batch of `data_length` > 0 bytes.
pub(super) fn encode_batch(data_length: u64, data_crc: u32, identities: &[Identity], out: &mut Vec<u8>) {
    let lowest = identities.iter().map(|identity| identity.sequence).min().unwrap_or(0);
    let highest = identities.iter().map(|identity| identity.sequence).max().unwrap_or(0);
    let mut body = Vec::with_capacity(32 + identities.len() * 6);
    push_varint(data_length, &mut body);
    body.extend_from_slice(&data_crc.to_le_bytes());
    push_varint(lowest, &mut body);
    push_varint(highest - lowest, &mut body);
    push_varint(length(identities.len()), &mut body);
    let mut previous = Identity { sequence: lowest, stored_at: Timestamp(0) };
    for identity in identities {
        push_zigzag(identity.sequence.wrapping_sub(previous.sequence).cast_signed(), &mut body);
        push_zigzag(identity.stored_at.0.wrapping_sub(previous.stored_at.0), &mut body);
        previous = *identity;
    }
    push_frame(&body, out);
}

/// Appends the frame that ends an index.
pub(super) fn encode_close(out: &mut Vec<u8>) {
    push_frame(&[0], out);
}

pub(super) fn decode_frame(body: &[u8]) -> Option<Frame<'_>> {
    let mut decoder = Decoder(body);
    let data_length = decoder.varint()?;
    if data_length == 0 {
        return Some(Frame::Close);
    }
    let data_crc = decoder.u32()?;
    let lowest = decoder.varint()?;
    let highest = lowest.checked_add(decoder.varint()?)?;
    let count = decoder.varint()?;
    let facts = BatchFacts { data_length, data_crc, lowest, highest, count };
    let previous = Identity { sequence: lowest, stored_at: Timestamp(0) };
    Some(Frame::Batch(facts, Identities { rest: decoder, left: count, previous }))
}

impl Iterator for Identities<'_> {
    type Item = Identity;

    fn next(&mut self) -> Option<Identity> {
        self.left = self.left.checked_sub(1)?;
        let sequence = self.previous.sequence.wrapping_add(self.rest.zigzag()?.cast_unsigned());
        let stored_at = Timestamp(self.previous.stored_at.0.wrapping_add(self.rest.zigzag()?));
        self.previous = Identity { sequence, stored_at };
        Some(self.previous)
    }
}

fn push_frame(body: &[u8], out: &mut Vec<u8>) {
    push_varint(length(body.len()), out);
    out.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    out.extend_from_slice(body);
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7F).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

fn push_zigzag(value: i64, out: &mut Vec<u8>) {
    push_varint(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    push_varint(length(text.len()), out);
    out.extend_from_slice(text.as_bytes());
}

/// Takes values from the front; `None` when they are not all there.
#[derive(Debug, PartialEq, Eq)]
struct Decoder<'a>(&'a [u8]);

impl Decoder<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::sinks::file::index_reader::IndexReader;

    #[test]
    fn a_batch_in_order_costs_a_few_bytes_a_message() {
        let identities: Vec<_> = (0..500)
            .map(|n| Identity {
                sequence: 1_000_000 + n,
                stored_at: Timestamp(1_796_078_187_322_511_484 + i64::try_from(n).unwrap() * 51_234),
            })
            .collect();
        let mut out = Vec::new();
        encode_batch(1 << 18, 7, &identities, &mut out);
        assert!(out.len() < 500 * 4 + 40, "{}", out.len());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_a_torn_frame_ends_it(
            created_at in any::<i64>(), partition in ".*",
            batches in proptest::collection::vec((1u64.., any::<u32>(), proptest::collection::vec((any::<u64>(), any::<i64>()), 1..20)), 0..5),
            closed in any::<bool>(), cut in 0usize..40,
        ) {
            let header = Header {
                created_at: Timestamp(created_at), partition,
                cuts: vec![Cut { stem: "A-1".into(), created_at: Timestamp(3), data_end: 4, index_end: 5 }],
            };
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            let header_end = bytes.len();
            let mut ends = Vec::new();
            let batches: Vec<_> = batches.into_iter().map(|(length, crc, identities)| {
                let identities: Vec<_> = identities.into_iter()
                    .map(|(sequence, at)| Identity { sequence, stored_at: Timestamp(at) }).collect();
                encode_batch(length, crc, &identities, &mut bytes);
                ends.push(bytes.len());
                (length, crc, identities)
            }).collect();
            if closed {
                encode_close(&mut bytes);
                ends.push(bytes.len());
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            let read = IndexReader::new(bytes.as_slice(), u64::try_from(bytes.len()).unwrap()).unwrap();
            prop_assert_eq!(read.is_some(), bytes.len() >= header_end);
            if let Some((read_header, mut reader)) = read {
                prop_assert_eq!(read_header, header);
                let complete = ends.iter().filter(|end| **end <= bytes.len()).count();
                for position in 0..complete {
                    let frame = reader.next_frame().unwrap();
                    match (frame, batches.get(position)) {
                        (Some(Frame::Batch(facts, identities)), Some((length, crc, expected))) => {
                            prop_assert_eq!((facts.data_length, facts.data_crc), (*length, *crc));
                            prop_assert_eq!(&identities.collect::<Vec<_>>(), expected);
                        }
                        (Some(Frame::Close), None) => {}
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                prop_assert_eq!(reader.next_frame().unwrap(), None);
            }
        }
    }
}
