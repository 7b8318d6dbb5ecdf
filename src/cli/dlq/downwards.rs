//! Downwards through the stream: newest first.
//!
//! Servers read upwards only. So a window is read upwards, its letters are kept (not their bodies), and told backwards; then
//! comes the window below. Windows follow the stream: they grow over gaps and shrink where many letters fit.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::failure::Failure;
use super::letters::{Letter, Tally, headers_fit, joined_headers_fit, key};
use super::selection::Selection;
use crate::dead_letter::{Form, summarise};
use crate::nats::StreamPages;

/// Letters that one window may hold.
const KEPT: usize = 2000;
/// Messages that a window should hold.
const WANTED: u64 = 500;
/// Second parts that wait for their first.
const HALVES: usize = 1024;

type Seconds = BTreeMap<(Option<String>, Option<u64>, Option<String>, Option<u64>), u64>;

/// Tells every letter that fits, newest first, until `tell` breaks.
pub(super) async fn newest_first(
    pages: &mut StreamPages,
    selection: &Selection,
    (first, last): (u64, u64),
    mut tell: impl FnMut(&Letter) -> Result<ControlFlow<()>, Failure>,
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let mut seconds = Seconds::new();
    let mut high = last;
    let mut width = WANTED;
    while high >= first && high > 0 {
        let low = first.max((high + 1).saturating_sub(width));
        let Some(window) = read(pages, selection, (low, high)).await? else {
            width = (width / 2).max(1);
            continue;
        };
        tally.messages += window.messages;
        tally.strangers += window.strangers;
        for (key, sequence) in window.seconds {
            if seconds.insert(key, sequence).is_some() {
                tally.incomplete += 1;
            }
        }
        for mut letter in window.letters.into_iter().rev() {
            if letter.summary.form == Form::FirstPart {
                letter.second = seconds.remove(&key(&letter.summary));
                tally.incomplete += u64::from(letter.second.is_none());
                if letter.second.is_some() && !joined_headers_fit(selection, pages, &letter).await? {
                    continue;
                }
            }
            if selection.fits(&letter.summary, letter.stored_at) && tell(&letter)?.is_break() {
                return Ok(tally);
            }
        }
        while seconds.len() > HALVES {
            seconds.pop_last();
            tally.incomplete += 1;
        }
        width = next_width(width, window.messages);
        high = low - u64::from(low > 0);
        if low == 0 {
            break;
        }
    }
    tally.incomplete += u64::try_from(seconds.len()).unwrap_or(u64::MAX);
    Ok(tally)
}

/// Towards [`WANTED`] messages a window, by a factor of four at the most.
fn next_width(width: u64, messages: u64) -> u64 {
    if messages < WANTED / 4 {
        width.saturating_mul(4)
    } else if messages > WANTED.saturating_mul(2) {
        (width / 2).max(1)
    } else {
        width
    }
}

#[derive(Debug, Default)]
struct Window {
    letters: Vec<Letter>,
    seconds: Seconds,
    messages: u64,
    strangers: u64,
}

/// Reads one window; `None` when it holds more letters than may be kept, unless it is of one message.
async fn read(
    pages: &mut StreamPages,
    selection: &Selection,
    (low, high): (u64, u64),
) -> Result<Option<Window>, Failure> {
    let mut window = Window::default();
    let mut next = Some(low);
    // Asking for more than the window holds reads what lies above it once more.
    let mut limit = usize::try_from(high - low + 1).unwrap_or(usize::MAX);
    while let Some(from) = next {
        let page = pages.read(from, high, limit).await?;
        limit = usize::MAX;
        next = page.next;
        for message in page.messages {
            window.messages += 1;
            let Some(summary) = summarise(&message.headers, &message.body) else {
                window.strangers += 1;
                continue;
            };
            let letter =
                Letter { sequence: message.sequence, second: None, stored_at: message.stored_at, summary };
            match letter.summary.form {
                Form::SecondPart => {
                    window.seconds.insert(key(&letter.summary), letter.sequence);
                }
                Form::FirstPart => window.letters.push(letter),
                Form::Json | Form::Original | Form::Ancestor => {
                    if selection.fits(&letter.summary, letter.stored_at) && headers_fit(selection, &message) {
                        window.letters.push(letter);
                    }
                }
            }
        }
        if window.letters.len() > KEPT && high > low {
            return Ok(None);
        }
    }
    Ok(Some(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_over_gaps_and_shrinks_again() {
        let mut width = WANTED;
        let mut questions = 0;
        while width < 1_000_000_000 {
            width = next_width(width, 0);
            questions += 1;
        }
        assert!(questions < 15);
        assert_eq!(next_width(1000, WANTED), 1000);
        assert_eq!(next_width(4096, 4096), 2048);
        assert_eq!(next_width(1, 1), 4);
    }
}
