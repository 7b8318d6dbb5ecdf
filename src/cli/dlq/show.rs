//! `jetsink dlq show SEQ`.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::Args;
use serde_json::Value;

use super::failure::Failure;
use super::letters::{At, Letter, at, recovered};
use super::print::{object, visible};
use super::target::Target;
use crate::dead_letter::Recovered;
use crate::nats::StreamMessage;

/// Bytes of a body that are shown; the raw output has them all.
const SHOWN: usize = 64 << 10;
const DUMPED: usize = 4 << 10;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The sequence of the dead letter in its stream; of two parts either one
    #[arg(value_name = "SEQ")]
    sequence: u64,
    /// Write the body of the original, byte for byte, and nothing else
    #[arg(long)]
    raw: bool,
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut opened = arguments.target.open().await?;
    let stream = opened.pages.stream().to_owned();
    let output = match at(&mut opened.pages, arguments.sequence).await? {
        At::Nothing => {
            let sequence = arguments.sequence;
            return Err(Failure::refused(format!("stream {stream} has no message {sequence}")));
        }
        At::Stranger(message) if arguments.raw => message.body.to_vec(),
        At::Stranger(message) => stranger(&message).into_bytes(),
        At::Letter(found) => {
            let (letter, message) = &*found;
            let original = recovered(&mut opened.pages, letter, message.as_ref()).await?;
            if arguments.raw { raw(letter, original)? } else { pretty(letter, &original).into_bytes() }
        }
    };
    let mut out = std::io::stdout();
    out.write_all(&output)?;
    out.flush()?;
    opened.close().await;
    Ok(())
}

fn raw(letter: &Letter, original: Result<Recovered, String>) -> Result<Vec<u8>, Failure> {
    let original = original.map_err(Failure::Refused)?;
    let body = original.body.ok_or_else(|| {
        let why = letter.summary.body_unavailable.as_deref().unwrap_or("it was not included");
        Failure::refused(format!("the dead letter does not carry the body: {why}"))
    })?;
    Ok(body.to_vec())
}

fn stranger(message: &StreamMessage) -> String {
    let mut text =
        format!("message {} is no dead letter\nsubject  {}\n", message.sequence, visible(&message.subject));
    for (name, value) in message.headers.iter() {
        let _written = writeln!(text, "header   {}: {}", visible(name), value_text(value));
    }
    text.push('\n');
    text.push_str(&body_text(&message.body));
    text
}

fn pretty(letter: &Letter, original: &Result<Recovered, String>) -> String {
    let mut text = String::new();
    for (name, value) in object(letter) {
        let value = match value {
            Value::Null | Value::Bool(false) => continue,
            Value::String(value) => visible(&value),
            value @ (Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                value.to_string()
            }
        };
        let _written = writeln!(text, "{name:<26}  {value}");
    }
    match original {
        Err(why) => {
            let _written = writeln!(text, "\nthe original cannot be read: {why}");
        }
        Ok(original) => {
            match &original.headers {
                None if letter.summary.headers_unread => {
                    text.push_str("\nthe original's headers are bytes that no client reads; the letter has them in base64\n");
                }
                None => text.push_str("\nthe original's headers are not in the letter\n"),
                Some(headers) if headers.is_empty() => text.push_str("\nthe original had no headers\n"),
                Some(headers) => {
                    text.push_str("\nheaders of the original\n");
                    for (name, value) in headers.iter() {
                        let _written = writeln!(text, "  {}: {}", visible(name), value_text(value));
                    }
                }
            }
            match &original.body {
                None => text.push_str("\nthe body is not in the letter\n"),
                Some(body) => text.push_str(&body_text(body)),
            }
        }
    }
    text
}

fn value_text(value: &[u8]) -> String {
    std::str::from_utf8(value).map_or_else(|_| format!("(no text) {}", value.escape_ascii()), visible)
}

/// JSON with line breaks, text as it is, and anything else as a hex dump.
fn body_text(body: &[u8]) -> String {
    if body.is_empty() {
        return "\nthe body is empty\n".to_owned();
    }
    let title = |kind: &str| format!("\nbody: {kind}, {} bytes\n", body.len());
    if body.len() <= SHOWN
        && matches!(body.first(), Some(b'{' | b'['))
        && let Ok(value) = serde_json::from_slice::<Value>(body)
    {
        return format!("{}{}\n", title("JSON"), escaped_lines(&format!("{value:#}")));
    }
    match std::str::from_utf8(body) {
        Ok(text) => {
            let ends = (0..=SHOWN.min(text.len())).rev();
            let end = ends.into_iter().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            let (shown, rest) = text.split_at(end);
            let more = if rest.is_empty() { String::new() } else { more(rest.len()) };
            format!("{}{}\n{more}", title("text"), escaped_lines(shown))
        }
        Err(_) => format!("{}{}", title("binary"), hex_dump(body)),
    }
}

fn more(bytes: usize) -> String {
    format!("… {bytes} bytes more; --raw writes them all\n")
}

fn escaped_lines(text: &str) -> String {
    text.lines()
        .map(|line| line.split('\t').map(visible).collect::<Vec<_>>().join("\t"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn hex_dump(body: &[u8]) -> String {
    let shown = body.get(..DUMPED).unwrap_or(body);
    let mut text = String::new();
    for (line, bytes) in shown.chunks(16).enumerate() {
        let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
            let _written = write!(hex, "{byte:02x} ");
            hex
        });
        let plain: String = bytes
            .iter()
            .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' })
            .collect();
        let _written = writeln!(text, "{:08x}  {hex:<48} {plain}", line * 16);
    }
    if body.len() > shown.len() {
        text.push_str(&more(body.len() - shown.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_shown_by_what_they_are() {
        assert!(body_text(br#"{"b":1.0,"a":[2]}"#).contains("body: JSON, 17 bytes\n{\n  \""));
        assert_eq!(
            body_text("größe\tx\u{1b}[2J\n".as_bytes()),
            "\nbody: text, 16 bytes\ngröße\tx\\u{1b}[2J\n"
        );
        let dump = body_text(b"\x00\xffabc");
        assert!(dump.contains("00000000  00 ff 61 62 63 ") && dump.contains(" ..abc\n"), "{dump}");
        assert_eq!(body_text(b""), "\nthe body is empty\n");
    }

    #[test]
    fn long_bodies_are_cut_and_say_so() {
        let text = "ü".repeat(SHOWN);
        let shown = body_text(text.as_bytes());
        assert!(shown.contains("65536 bytes more; --raw"), "{}", shown.len());
        let dump = body_text(&vec![0xff; DUMPED + 1]);
        assert!(dump.contains("1 bytes more"));
    }
}
