//! `jetsink dlq import`: publishes exported dead letters again, each confirmed, none twice within the duplicate window.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Args;

use super::export::Line;
use super::failure::Failure;
use super::progress::{Progress, confirm};
use super::redrive::is_command;
use super::target::{Opened, Target};
use crate::envelope::Headers;
use crate::nats::{Answer, NatsError, Requests, SendError, Ticket};

/// Publishes under way at once.
const UNDER_WAY: usize = 64;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// The exported lines; else standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Publish to this subject instead of the one each was stored under
    #[arg(long, value_name = "SUBJECT")]
    to: Option<String>,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Default)]
struct Outcome {
    imported: u64,
    already_there: u64,
    refused: u64,
}

struct Import<'a> {
    opened: &'a Opened,
    requests: Requests,
    under_way: BTreeMap<Ticket, u64>,
    outcome: Outcome,
    progress: Progress,
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.file.is_none() && !arguments.yes {
        return Err(Failure::refused("lines from standard input need --yes: there is nobody to ask"));
    }
    let opened = arguments.target.open().await?;
    let stream = opened.pages.stream();
    let mut lines: Box<dyn BufRead + Send> = match &arguments.file {
        Some(path) => {
            let name = path.display().to_string();
            confirm(&format!("publish the dead letters of {name} to stream {stream}"), arguments.yes)?;
            Box::new(BufReader::new(File::open(path).map_err(|error| Failure::File(name, error))?))
        }
        None => Box::new(BufReader::new(std::io::stdin())),
    };
    let requests = Requests::open(&opened.connection).await?;
    let mut import = Import {
        opened: &opened,
        requests,
        under_way: BTreeMap::new(),
        outcome: Outcome::default(),
        progress: Progress::new(),
    };
    let ended = import.all(&mut *lines, arguments.to.as_deref()).await;
    let finished = import.finish().await;
    let Outcome { imported, already_there, refused } = import.outcome;
    import.progress.clear();
    let text = format!(
        "imported {imported} messages ({already_there} of them were there already), refused {refused}\n"
    );
    std::io::stdout().lock().write_all(text.as_bytes())?;
    opened.close().await;
    ended.and(finished)?;
    if refused > 0 { Err(Failure::Partly) } else { Ok(()) }
}

impl Import<'_> {
    async fn all(&mut self, lines: &mut (dyn BufRead + Send), to: Option<&str>) -> Result<(), Failure> {
        let mut text = String::new();
        for number in 1u64.. {
            text.clear();
            if lines.read_line(&mut text)? == 0 {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            let wrong =
                |why: &str| Failure::refused(format!("line {number}: {why}; nothing after it was imported"));
            let line: Line =
                serde_json::from_str(&text).map_err(|_| wrong("it is no exported dead letter"))?;
            let (subject, headers, body) = message(&line, self.opened.pages.stream()).map_err(wrong)?;
            let subject = to.unwrap_or(&subject);
            while self.under_way.len() >= UNDER_WAY {
                self.take_answer().await?;
            }
            match self.requests.publish(subject, &headers, body).await {
                Ok(ticket) => {
                    self.under_way.insert(ticket, number);
                }
                Err(SendError::Dead) => {
                    return Err(NatsError::Connect("the connection is dead".into()).into());
                }
                Err(error @ (SendError::TooLarge | SendError::Header(_))) => {
                    self.refuse(number, &error.to_string());
                }
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        while !self.under_way.is_empty() {
            self.take_answer().await?;
        }
        Ok(())
    }

    async fn take_answer(&mut self) -> Result<(), Failure> {
        let answer = match self.requests.next(self.opened.request_timeout).await {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                self.under_way.clear();
                return Ok(());
            }
            Err(error) => {
                self.under_way.clear();
                return Err(error.into());
            }
        };
        let number = self.under_way.remove(&answer.0).unwrap_or_default();
        match answer.1 {
            Answer::Published(Ok(stored)) if stored.duplicate => {
                // Its id was seen within the window, yet the message may have been deleted since.
                match self.opened.pages.get_from(&stored.stream, stored.sequence).await? {
                    Some(_) => {
                        self.outcome.imported += 1;
                        self.outcome.already_there += 1;
                    }
                    None => self.refuse(
                        number,
                        "it was imported and deleted within the stream's duplicate window: import it again later",
                    ),
                }
            }
            Answer::Published(Ok(_)) => self.outcome.imported += 1,
            Answer::Published(Err(refused)) => self.refuse(number, &refused.to_string()),
            Answer::Deleted(_) | Answer::Read(_) => {}
        }
        self.progress.show(self.outcome.imported, self.outcome.imported);
        Ok(())
    }

    fn refuse(&mut self, number: u64, why: &str) {
        self.outcome.refused += 1;
        self.progress.line(&format!("line {number}: refused: {why}"));
    }
}

/// What to publish. Of the headers that servers obey only two are said: the stream that has to take it, and an id of its own,
/// since the window of the stream may still know the one that the daemon gave it.
fn message(line: &Line, stream: &str) -> Result<(String, Headers, Bytes), &'static str> {
    let decode = |text: &str| STANDARD.decode(text).map_err(|_| "headers or body are no base64");
    let body = Bytes::from(decode(&line.body_base64)?);
    let block = decode(&line.headers_base64)?;
    let block = std::str::from_utf8(&block).map_err(|_| "the headers are no text")?;
    let mut headers = Headers::new();
    for (name, value) in block.lines().skip(1).filter_map(|line| line.split_once(':')) {
        if !is_command(name) {
            headers.append(name, value.trim().to_owned());
        }
    }
    let id = format!("jetsink.import.{}.{}.{}", line.stream, line.sequence, line.stored_at);
    headers.append("Nats-Msg-Id", id);
    headers.append("Nats-Expected-Stream", stream.to_owned());
    if line.subject.is_empty() || line.subject.chars().any(|sign| sign.is_whitespace() || sign.is_control()) {
        return Err("the subject cannot be published to");
    }
    Ok((line.subject.clone(), headers, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_message_without_foreign_commands() {
        let block = "NATS/1.0\r\nNats-Msg-Id: jetsink.dlq.S.w.1.2\r\nNats-Sinks-Error-Type: X\r\nJetsink-Reason: y\r\n\
                     Nats-Expected-Stream: OTHER\r\n\r\n";
        let line = Line {
            stream: "DLQ".into(),
            sequence: 7,
            stored_at: "2026-11-30T22:36:27.322511484Z".into(),
            subject: "dlq.src".into(),
            headers_base64: STANDARD.encode(block),
            body_base64: STANDARD.encode("body"),
        };
        let (subject, headers, body) = message(&line, "NEW").unwrap();
        let lines: Vec<_> = headers.iter().map(|(name, value)| (name, value.as_ref())).collect();
        let id = b"jetsink.import.DLQ.7.2026-11-30T22:36:27.322511484Z";
        let expected: [(&str, &[u8]); 4] = [
            ("Nats-Sinks-Error-Type", b"X"),
            ("Jetsink-Reason", b"y"),
            ("Nats-Msg-Id", id),
            ("Nats-Expected-Stream", b"NEW"),
        ];
        assert_eq!(lines, expected);
        assert_eq!((subject.as_str(), body.as_ref()), ("dlq.src", &b"body"[..]));
        let broken = Line { body_base64: "?".into(), ..line };
        assert!(message(&broken, "NEW").is_err());
    }
}
