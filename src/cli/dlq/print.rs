//! Dead letters as lines: a table for people, JSON for programs.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::letters::Letter;
use crate::clock::Timestamp;
use crate::dead_letter::Form;

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns, for people
    Table,
    /// One JSON object a line
    Json,
}

/// The head of the table.
pub(super) const HEAD: &str = "     SEQ  REJECTED (UTC)       STAGE         REASON                    BYTES  ORIGINAL              SUBJECT\n";

/// One line of the table.
pub(super) fn row(letter: &Letter) -> String {
    let summary = &letter.summary;
    let at = summary.failed_at.unwrap_or(letter.stored_at);
    let stage = summary.stage.as_deref().unwrap_or("-");
    let bytes = summary.body_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let original = match (&summary.stream, summary.stream_sequence) {
        (Some(stream), Some(sequence)) => format!("{stream}/{sequence}"),
        _ => "-".to_owned(),
    };
    let mut line = format!(
        "{:>8}  {}  {:<12}  {:<22}  {:>8}  {:<20}  {}",
        letter.sequence,
        seconds(at),
        visible(stage),
        visible(letter.reason()),
        bytes,
        visible(&original),
        visible(&summary.subject),
    );
    if letter.is_incomplete() {
        line.push_str("  (its other part is missing)");
    } else if summary.body_unavailable.is_some() {
        line.push_str("  (without its body)");
    }
    line.push('\n');
    line
}

/// The time to the second.
pub(super) fn seconds(at: Timestamp) -> String {
    let mut text = at.rfc3339();
    text.truncate(19);
    text.push('Z');
    text
}

/// One JSON object; what the letter does not tell is null.
pub(super) fn object(letter: &Letter) -> Map<String, Value> {
    let summary = &letter.summary;
    let time = |at: Option<Timestamp>| at.map(Timestamp::rfc3339);
    let form = match summary.form {
        Form::Json => "json",
        Form::Original => "original",
        Form::FirstPart | Form::SecondPart => "parts",
        Form::Ancestor => "nats-sinks",
    };
    let object = json!({
        "sequence": letter.sequence,
        "second_part_sequence": letter.second,
        "incomplete": letter.is_incomplete(),
        "dead_letter_stored_at": letter.stored_at.rfc3339(),
        "form": form,
        "stage": summary.stage,
        "reason": summary.reason,
        "error_type": summary.error_type,
        "error": summary.error,
        "failed_at": time(summary.failed_at),
        "stream": summary.stream,
        "stream_sequence": summary.stream_sequence,
        "consumer": summary.consumer,
        "subject": summary.subject,
        "timestamp": time(summary.stored_at),
        "message_id": summary.message_id,
        "idempotency_key": summary.idempotency_key,
        "sink": summary.sink,
        "delivery_count": summary.delivery_count,
        "payload_bytes": summary.body_bytes,
        "payload_unavailable_reason": summary.body_unavailable,
    });
    match object {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// The text without anything that a terminal would obey.
pub(super) fn visible(text: &str) -> String {
    if !text.chars().any(is_dangerous) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut out, character| {
        if is_dangerous(character) {
            // Writing into a string cannot fail.
            let _written = write!(out, "{}", character.escape_unicode());
        } else {
            out.push(character);
        }
        out
    })
}

/// Control characters, and those that turn the direction of the text.
fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        assert_eq!(visible("a\u{1b}[2Jb\u{202e}"), "a\\u{1b}[2Jb\\u{202e}");
        assert_eq!(visible("größe"), "größe");
    }

    #[test]
    fn times_end_at_the_second() {
        assert_eq!(seconds(Timestamp(1_796_078_187_322_511_484)), "2026-11-30T22:36:27Z");
    }
}
