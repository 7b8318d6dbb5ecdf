//! The jetsink binary as a command that ends by itself, and dead letters made to measure.

use std::process::{Output, Stdio};
use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use futures_util::StreamExt as _;
use jetsink::clock::Timestamp;
use jetsink::dead_letter::{Format, Letter, Part, RecordSettings, SizeBudget, render};
use jetsink::delivery::Rejection;
use jetsink::envelope::Envelope;
use jetsink::reason::{ErrorType, ReasonCode, Stage};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Client, Server};

const ENDS: Duration = Duration::from_secs(120);
/// When every letter of [`letter`] was rejected: a minute after another for each of its sequences.
const REJECTED: Timestamp = Timestamp(1_796_078_187_000_000_000);

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    /// What it wrote to standard output.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Each line as JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// It must have ended well.
    pub(crate) fn fine(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.text(), self.err);
        self
    }
}

/// Starts `jetsink dlq …` on a server, its output piped, killed when dropped.
pub(crate) fn start_dlq(server: &Server, arguments: &[&str]) -> Child {
    let mut words = arguments.to_vec();
    let url = server.url();
    if !words.contains(&"-c") {
        words.extend(["--server", &url]);
    }
    Command::new(env!("CARGO_BIN_EXE_jetsink"))
        .arg("dlq")
        .args(words)
        .env_remove("NATS_URL")
        .env_remove("NATS_CONTEXT")
        .env("NATS_PASSWORD", "secret")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Runs `jetsink dlq …` to its end.
pub(crate) async fn dlq(server: &Server, arguments: &[&str]) -> Ran {
    let running = start_dlq(server, arguments).wait_with_output();
    let output: Output = timeout(ENDS, running).await.expect("the command does not end").unwrap();
    Ran {
        code: output.status.code(),
        out: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The parts of a dead letter as the daemon would publish them.
pub(crate) fn letter(
    envelope: &Envelope,
    (stage, reason): (Stage, ReasonCode),
    format: Format,
    max_payload: usize,
) -> Vec<Part> {
    let rejection =
        Rejection { stage, reason, error_type: ErrorType::PolicyViolation, detail: "made by a test".into() };
    let failed_at = REJECTED.plus(Duration::from_secs(60) * u32::try_from(envelope.stream_sequence).unwrap());
    let letter = Letter { envelope, rejection: &rejection, failed_at, sink: None };
    let settings = RecordSettings { format, ..RecordSettings::default() };
    render(&letter, &settings, SizeBudget { max_payload, source_keeps_body: false }).unwrap()
}

/// Headers as the client sends them.
pub(crate) fn header_map(lines: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap());
    }
    headers
}

impl Client {
    /// Stores the parts under a subject, confirmed, many under way at once; gives their sequences.
    pub(crate) async fn store_parts(&self, subject: &str, parts: Vec<Part>) -> Vec<u64> {
        let inbox = self.core().new_inbox();
        let mut answers = self.core().subscribe(inbox.clone()).await.unwrap();
        let mut sequences = Vec::with_capacity(parts.len());
        for chunk in parts.chunks(500) {
            for part in chunk {
                let headers = header_map(&part.headers);
                let (subject, inbox) = (subject.to_owned(), inbox.clone());
                let sent =
                    self.core().publish_with_reply_and_headers(subject, inbox, headers, part.body.clone());
                sent.await.unwrap();
            }
            for _ in chunk {
                let answer = timeout(ENDS, answers.next()).await.expect("no confirmation in time").unwrap();
                let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
                assert_ne!(answer["duplicate"], true, "two letters with one id");
                sequences.push(answer["seq"].as_u64().unwrap_or_else(|| panic!("not stored: {answer}")));
            }
        }
        sequences
    }
}
