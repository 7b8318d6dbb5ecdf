//! A server on which tests make the states that findings are about.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::harness::{Client, Ran, Server, ServerKind, ServerPlan, Settings};

/// What the check promises, everything forbidden included.
const ENDS: Duration = Duration::from_secs(10);

/// A server, a client that may do everything, and a folder.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) server: Server,
    pub(super) client: Client,
    directory: TempDir,
}

/// What `check --connect` said.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) code: Option<i32>,
    findings: Vec<Value>,
}

impl Checked {
    /// The text of the first finding with this code and level; fails the test when there is none.
    #[track_caller]
    pub(super) fn says(&self, code: &str, level: &str, words: &[&str]) {
        let fits = |finding: &&Value| {
            let text = format!("{} {}", finding["seen"], finding["remedy"]);
            finding["code"] == code
                && finding["level"] == level
                && words.iter().all(|word| text.contains(word))
        };
        assert!(
            self.findings.iter().any(|finding| fits(&finding)),
            "no {level} {code} with {words:?} in {self:#?}"
        );
    }

    /// How many findings have this code.
    pub(super) fn count(&self, code: &str) -> usize {
        self.findings.iter().filter(|finding| finding["code"] == code).count()
    }

    /// No finding has this code.
    #[track_caller]
    pub(super) fn is_silent_about(&self, code: &str) {
        assert!(self.findings.iter().all(|finding| finding["code"] != code), "{code} in {self:#?}");
    }

    /// Only facts, and exit code 0.
    #[track_caller]
    pub(super) fn is_healthy(&self) {
        let facts = self.findings.iter().all(|finding| finding["level"] == "info");
        assert!(facts && self.code == Some(0), "{self:#?}");
    }
}

impl Bench {
    pub(super) async fn start(kind: ServerKind) -> Self {
        let server = Server::start(&ServerPlan { kind, ..ServerPlan::default() }).await;
        let client = Client::connect(&server, ConnectOptions::new()).await;
        let bench = Self { server, client, directory: tempfile::tempdir().unwrap() };
        let dead_letters =
            json!({ "name": "DLQ", "subjects": ["dlq.>"], "storage": "file", "discard": "new" });
        bench.client.create_stream(&dead_letters).await;
        bench
    }

    /// Where the file sink writes.
    pub(super) fn sink(&self) -> PathBuf {
        self.directory.path().join("sink")
    }

    /// A folder for whatever else a test needs.
    pub(super) fn folder(&self) -> &Path {
        self.directory.path()
    }

    /// A stream that captures `<name in lower case>.>`, with these fields changed.
    pub(super) async fn stream(&self, name: &str, change: Value) {
        let mut config = json!({ "name": name, "subjects": [format!("{}.>", name.to_lowercase())],
                                 "retention": "limits", "storage": "file" });
        config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        self.client.create_stream(&config).await;
    }

    /// A healthy durable of the daemon, with these fields changed.
    pub(super) async fn durable(&self, stream: &str, name: &str, change: Value) {
        let mut config = json!({ "durable_name": name, "ack_policy": "explicit", "deliver_policy": "all",
                                 "ack_wait": 10_000_000_000_u64, "max_deliver": -1 });
        config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        self.client.create_consumer(stream, &config).await;
    }

    /// The daemon's settings for durable `w` of a stream.
    pub(super) fn settings(&self, stream: &str) -> Settings {
        let mut settings = Settings::default();
        settings
            .set("nats.servers", vec![self.server.url()])
            .set("consumer.stream", stream)
            .set("consumer.durable", "w")
            .set("delivery.batch_size", 10)
            .set("delivery.batch_bytes", "1MiB")
            .set("dead_letter.subject", "dlq.w")
            .set("sink.type", "file")
            .set("sink.file.directory", self.sink().display().to_string());
        settings
    }

    /// Runs `jetsink` with a configuration file.
    pub(super) async fn run(&self, settings: &Settings, words: &[&str]) -> Ran {
        let file = tempfile::Builder::new().suffix(".toml").tempfile_in(self.directory.path()).unwrap();
        fs::write(file.path(), settings.text()).unwrap();
        let running = Command::new(env!("CARGO_BIN_EXE_jetsink"))
            .args(words)
            .arg("-c")
            .arg(file.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(ENDS * 3, running).await.expect("the command does not end").unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Ran { code: output.status.code(), out: output.stdout, err }
    }

    /// `jetsink check --connect`, which must end soon and leave everything as it was.
    pub(super) async fn check(&self, settings: &Settings) -> Checked {
        let began = Instant::now();
        let ran = self.run(settings, &["check", "--connect", "--format", "json"]).await;
        assert!(began.elapsed() < ENDS, "it took {:?}", began.elapsed());
        let answer: Value = serde_json::from_slice(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
        Checked { code: ran.code, findings: answer["findings"].as_array().unwrap().clone() }
    }

    /// Pulls until nothing is there, one message at a time, and settles each like this; gives their count.
    pub(super) async fn pull(&self, stream: &str, durable: &str, settlement: Option<&'static str>) -> usize {
        let core = self.client.core();
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}");
        let inbox = core.new_inbox();
        let mut answers = core.subscribe(inbox.clone()).await.unwrap();
        let mut count = 0;
        loop {
            let body = json!({ "batch": 1, "expires": 200_000_000 }).to_string();
            core.publish_with_reply(subject.clone(), inbox.clone(), body.into()).await.unwrap();
            let answer = timeout(ENDS, answers.next()).await.expect("a pull is answered").unwrap();
            if answer.status.is_some() {
                return count;
            }
            count += 1;
            if let (Some(settlement), Some(reply)) = (settlement, answer.reply) {
                core.request(reply, settlement.into()).await.unwrap();
            }
        }
    }
}
