//! The letters that a command works on: named by sequence, or selected by flags, oldest first.

use std::collections::VecDeque;

use super::failure::Failure;
use super::letters::{At, Found, Tally, Upwards, at};
use super::selection::Selection;
use crate::nats::StreamPages;

/// Where the letters come from.
#[derive(Debug)]
pub(super) enum Source<'a> {
    /// Named one by one.
    Named { left: VecDeque<u64>, total: u64 },
    /// Selected.
    Selected { upwards: Box<Upwards<'a>>, total: u64 },
}

impl<'a> Source<'a> {
    /// `bounds` and `total` of the stream as it is now: what comes later is not looked at.
    pub(super) fn new(
        sequences: &[u64],
        selection: &'a Selection,
        bounds: (u64, u64),
        total: u64,
    ) -> Result<Self, Failure> {
        selection.refuse_with(sequences)?;
        if sequences.is_empty() {
            let upwards = Box::new(Upwards::new(selection, bounds));
            return Ok(Self::Selected { upwards, total });
        }
        let mut left: Vec<u64> = sequences.to_vec();
        left.sort_unstable();
        left.dedup();
        let total = u64::try_from(left.len()).unwrap_or(u64::MAX);
        Ok(Self::Named { left: left.into(), total })
    }

    /// The next letter; a named sequence that holds none is an error, since somebody expects it.
    pub(super) async fn next(&mut self, pages: &mut StreamPages) -> Result<Option<Found>, Failure> {
        match self {
            Self::Selected { upwards, .. } => Ok(upwards.next(pages).await?),
            Self::Named { left, .. } => {
                let Some(sequence) = left.pop_front() else { return Ok(None) };
                match at(pages, sequence).await? {
                    At::Letter(found) => {
                        // Both parts of one letter may have been named.
                        let second = found.0.second;
                        left.retain(|other| Some(*other) != second);
                        Ok(Some(*found))
                    }
                    At::Nothing => Err(Failure::refused(format!("there is no message {sequence}"))),
                    At::Stranger(_) => Err(Failure::refused(format!("message {sequence} is no dead letter"))),
                }
            }
        }
    }

    /// How far it is, and of how much.
    pub(super) fn progress(&self) -> (u64, u64) {
        match self {
            Self::Named { left, total } => {
                (total.saturating_sub(u64::try_from(left.len()).unwrap_or(0)), *total)
            }
            Self::Selected { upwards, total } => (upwards.tally.messages, *total),
        }
    }

    /// What was seen on the way.
    pub(super) fn tally(&self) -> Tally {
        match self {
            Self::Named { .. } => Tally::default(),
            Self::Selected { upwards, .. } => upwards.tally,
        }
    }

    /// Counts the letters by walking through them.
    pub(super) async fn count(mut self, pages: &mut StreamPages, limit: u64) -> Result<u64, Failure> {
        if let Self::Named { total, .. } = &self {
            return Ok((*total).min(limit));
        }
        let mut count = 0;
        while count < limit && self.next(pages).await?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}
