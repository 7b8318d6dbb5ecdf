//! Dead letters out of stored messages: recognised, filtered, their parts brought together, in constant memory.

use std::collections::{BTreeMap, VecDeque};

use super::selection::Selection;
use crate::clock::Timestamp;
use crate::dead_letter::{Form, Recovered, Summary, original_headers, part, recover, summarise};
use crate::nats::{NatsError, StreamMessage, StreamPages};

/// Parts whose other half was not seen yet. In a stream they stand close together; what is beyond is told as incomplete.
const HALVES: usize = 1024;

/// One dead letter.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// Its sequence in the dead-letter stream; of two parts that of the first.
    pub(super) sequence: u64,
    /// The sequence of its second part.
    pub(super) second: Option<u64>,
    /// When the dead-letter stream stored it.
    pub(super) stored_at: Timestamp,
    /// What it tells.
    pub(super) summary: Summary,
}

impl Letter {
    /// Whether a part is missing.
    pub(super) fn is_incomplete(&self) -> bool {
        match self.summary.form {
            Form::FirstPart => self.second.is_none(),
            Form::SecondPart => true,
            Form::Json | Form::Original | Form::Ancestor => false,
        }
    }

    /// The reason code; of a letter without one the error type.
    pub(super) fn reason(&self) -> &str {
        self.summary.reason.as_deref().or(self.summary.error_type.as_deref()).unwrap_or("-")
    }

    /// Every stored message it consists of.
    pub(super) fn sequences(&self) -> impl Iterator<Item = u64> {
        [Some(self.sequence), self.second].into_iter().flatten()
    }
}

/// What was seen on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Stored messages looked at.
    pub(super) messages: u64,
    /// Those that are no dead letters.
    pub(super) strangers: u64,
    /// Parts whose other half is not there.
    pub(super) incomplete: u64,
}

impl Tally {
    /// What an operator should know of it.
    pub(super) fn remarks(&self) -> String {
        let mut text = String::new();
        if self.strangers > 0 {
            text.push_str(&format!("{} messages are no dead letters and were skipped\n", self.strangers));
        }
        if self.incomplete > 0 {
            text.push_str(&format!("{} parts of dead letters have no other half\n", self.incomplete));
        }
        text
    }
}

/// What joins two parts.
type Key = (Option<String>, Option<u64>, Option<String>, Option<u64>);

pub(super) fn key(summary: &Summary) -> Key {
    (summary.stream.clone(), summary.stream_sequence, summary.consumer.clone(), summary.data_bytes)
}

/// Upwards through the stream: oldest first.
#[derive(Debug)]
pub(super) struct Upwards<'a> {
    selection: &'a Selection,
    next: Option<u64>,
    up_to: u64,
    waiting: VecDeque<StreamMessage>,
    first_parts: BTreeMap<Key, Letter>,
    pub(super) tally: Tally,
}

/// A letter with the stored message, unless it has two parts.
pub(super) type Found = (Letter, Option<StreamMessage>);

impl<'a> Upwards<'a> {
    pub(super) fn new(selection: &'a Selection, (first, last): (u64, u64)) -> Self {
        Self {
            selection,
            next: (first <= last).then_some(first),
            up_to: last,
            waiting: VecDeque::new(),
            first_parts: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    /// The next letter that fits; `None` at the end.
    pub(super) async fn next(&mut self, pages: &mut StreamPages) -> Result<Option<Found>, NatsError> {
        loop {
            let Some(message) = self.waiting.pop_front() else {
                let Some(from) = self.next else {
                    self.tally.incomplete += count(self.first_parts.len());
                    self.first_parts.clear();
                    return Ok(None);
                };
                let page = pages.read(from, self.up_to, usize::MAX).await?;
                self.next = page.next;
                self.waiting.extend(page.messages);
                continue;
            };
            if let Some(found) = self.take(pages, message).await? {
                return Ok(Some(found));
            }
        }
    }

    async fn take(
        &mut self,
        pages: &mut StreamPages,
        message: StreamMessage,
    ) -> Result<Option<Found>, NatsError> {
        self.tally.messages += 1;
        let Some(summary) = summarise(&message.headers, &message.body) else {
            self.tally.strangers += 1;
            return Ok(None);
        };
        let letter =
            Letter { sequence: message.sequence, second: None, stored_at: message.stored_at, summary };
        match letter.summary.form {
            Form::FirstPart => {
                self.keep(letter);
                Ok(None)
            }
            Form::SecondPart => {
                let Some(first) = self.first_parts.remove(&key(&letter.summary)) else {
                    self.tally.incomplete += 1;
                    return Ok(None);
                };
                let letter = Letter { second: Some(message.sequence), ..first };
                let fits = self.selection.fits(&letter.summary, letter.stored_at)
                    && joined_headers_fit(self.selection, pages, &letter).await?;
                Ok(fits.then_some((letter, None)))
            }
            Form::Json | Form::Original | Form::Ancestor => {
                let fits = self.selection.fits(&letter.summary, letter.stored_at)
                    && headers_fit(self.selection, &message);
                Ok(fits.then_some((letter, Some(message))))
            }
        }
    }

    fn keep(&mut self, letter: Letter) {
        if self.first_parts.insert(key(&letter.summary), letter).is_some() {
            // A repeat of the first part: the earlier one has no second.
            self.tally.incomplete += 1;
        }
        if self.first_parts.len() > HALVES {
            let oldest = self.first_parts.iter().min_by_key(|(_, letter)| letter.sequence);
            let oldest = oldest.map(|(key, _)| key.clone());
            if oldest.and_then(|key| self.first_parts.remove(&key)).is_some() {
                self.tally.incomplete += 1;
            }
        }
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Whether the original's headers fit, of a letter in one message.
pub(super) fn headers_fit(selection: &Selection, message: &StreamMessage) -> bool {
    if !selection.needs_headers() {
        return true;
    }
    let headers = original_headers(&message.headers, &message.body).ok().flatten();
    selection.fits_headers(headers.as_ref())
}

/// The same for a letter in two: both are read once more.
pub(super) async fn joined_headers_fit(
    selection: &Selection,
    pages: &mut StreamPages,
    letter: &Letter,
) -> Result<bool, NatsError> {
    if !selection.needs_headers() {
        return Ok(true);
    }
    let recovered = recovered(pages, letter, None).await?;
    Ok(selection.fits_headers(recovered.ok().and_then(|recovered| recovered.headers).as_ref()))
}

/// The original as far as the letter carries it; the text says why not.
pub(super) async fn recovered(
    pages: &mut StreamPages,
    letter: &Letter,
    message: Option<&StreamMessage>,
) -> Result<Result<Recovered, String>, NatsError> {
    if letter.is_incomplete() {
        return Ok(Err("the other of its two parts is not in the stream".into()));
    }
    let mut parts = Vec::new();
    match message {
        Some(message) => parts.push(part(&message.headers, &message.body)),
        None => {
            for sequence in letter.sequences() {
                match pages.get(sequence).await? {
                    Some(message) => parts.push(part(&message.headers, &message.body)),
                    None => return Ok(Err(format!("message {sequence} is not in the stream any more"))),
                }
            }
        }
    }
    let unread = letter.summary.headers_unread;
    let readable =
        |original: Recovered| Recovered { headers: original.headers.filter(|_| !unread), ..original };
    Ok(recover(&parts).map(readable).map_err(|error| error.to_string()))
}

/// The letter at a sequence, whichever of its parts that is; the other one is looked for nearby.
pub(super) async fn at(pages: &mut StreamPages, sequence: u64) -> Result<At, NatsError> {
    let Some(message) = pages.get(sequence).await? else { return Ok(At::Nothing) };
    let Some(summary) = summarise(&message.headers, &message.body) else {
        return Ok(At::Stranger(Box::new(message)));
    };
    let letter = Letter { sequence, second: None, stored_at: message.stored_at, summary };
    let everything = Selection::default();
    let bounds = match letter.summary.form {
        Form::Json | Form::Original | Form::Ancestor => {
            return Ok(At::Letter(Box::new((letter, Some(message)))));
        }
        Form::FirstPart => (sequence, sequence.saturating_add(NEARBY)),
        Form::SecondPart => (sequence.saturating_sub(NEARBY).max(1), sequence),
    };
    let mut upwards = Upwards::new(&everything, bounds);
    while let Some((found, _)) = upwards.next(pages).await? {
        if found.sequences().any(|own| own == sequence) {
            return Ok(At::Letter(Box::new((found, None))));
        }
    }
    Ok(At::Letter(Box::new((letter, None))))
}

/// Sequences within which the other part is looked for.
const NEARBY: u64 = 4096;

/// What stands at a sequence.
#[derive(Debug)]
pub(super) enum At {
    Nothing,
    Stranger(Box<StreamMessage>),
    Letter(Box<Found>),
}
