//! Reads an index frame by frame, so that its size costs no memory.

use std::io::{self, BufRead, BufReader, Read};

use super::fault::FileFailure;
use super::folder::Folder;
use super::index::{Frame, Header, MAGIC, decode_frame};

/// Far above a batch of the most records a sink takes.
const MAX_FRAME_BYTES: u64 = 64 << 20;

/// Reads frames up to the first one that is not complete.
#[derive(Debug)]
pub(super) struct IndexReader<R> {
    input: R,
    /// Where the last complete frame ends.
    end: u64,
    limit: u64,
    body: Vec<u8>,
}

impl<R: BufRead> IndexReader<R> {
    /// Reads the header of an index of `limit` bytes; `None` when there is no complete one.
    pub(super) fn new(input: R, limit: u64) -> io::Result<Option<(Header, Self)>> {
        let mut reader = Self { input, end: 0, limit, body: Vec::new() };
        let mut magic = [0; MAGIC.len()];
        if limit < length(MAGIC.len()) {
            return Ok(None);
        }
        reader.input.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Ok(None);
        }
        reader.end = length(MAGIC.len());
        if !reader.next_body()? {
            return Ok(None);
        }
        Ok(Header::decode(&reader.body).map(|header| (header, reader)))
    }

    /// The next complete frame.
    pub(super) fn next_frame(&mut self) -> io::Result<Option<Frame<'_>>> {
        let before = self.end;
        if !self.next_body()? {
            return Ok(None);
        }
        let frame = decode_frame(&self.body);
        if frame.is_none() {
            self.end = before;
            self.limit = before;
        }
        Ok(frame)
    }

    /// Where the last frame that was given ends.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Takes the next frame into `body`; false, also for ever after, when it is not complete.
    fn next_body(&mut self) -> io::Result<bool> {
        let mut at = self.end;
        let mut size = 0_u64;
        let mut shift = 0;
        loop {
            if at >= self.limit || shift > 28 {
                self.limit = self.end;
                return Ok(false);
            }
            let mut byte = [0];
            self.input.read_exact(&mut byte)?;
            at += 1;
            let [byte] = byte;
            size |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        if size == 0 || size > MAX_FRAME_BYTES || at + 4 + size > self.limit {
            self.limit = self.end;
            return Ok(false);
        }
        let mut crc = [0; 4];
        self.input.read_exact(&mut crc)?;
        self.body.resize(usize::try_from(size).unwrap_or(0), 0);
        self.input.read_exact(&mut self.body)?;
        if crc32fast::hash(&self.body) != u32::from_le_bytes(crc) {
            self.limit = self.end;
            return Ok(false);
        }
        self.end = at + 4 + size;
        Ok(true)
    }
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// An index on disk.
pub(super) type FileIndexReader = IndexReader<BufReader<io::Take<std::fs::File>>>;

/// Opens the index `name`; `None` when it has no complete header.
pub(super) fn open_index(
    state: &Folder,
    name: &str,
) -> Result<Option<(Header, FileIndexReader)>, FileFailure> {
    let file = state.open_to_read(name)?;
    let path = state.path().join(name);
    let size = file.metadata().map_err(|cause| FileFailure::new("inspect", &path, cause))?.len();
    IndexReader::new(BufReader::with_capacity(64 << 10, file.take(size)), size)
        .map_err(|cause| FileFailure::new("read", &path, cause))
}
