//! The track: a server with the messages on it, and one run of one contestant.

use std::fmt;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use async_nats::ConnectOptions;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, interval};

use crate::bare;
use crate::harness::{Client, Daemon, Server, ServerKind, ServerPlan, Settings};

const PAYLOAD_BYTES: usize = 512;
/// Publishes between two confirmations: far less than the server queues.
const PUBLISH_CHUNK: u64 = 2_000;
/// Unacknowledged messages that the durable allows: more than any contestant has in hand.
const MAX_ACK_PENDING: u64 = 10_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A run that is not over by then has failed.
const DEADLINE: Duration = Duration::from_secs(600);

/// Who carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Bare,
    Payload,
    Full,
}

impl Contestant {
    pub(crate) const ALL: &'static [Self] = &[Self::Bare, Self::Payload, Self::Full];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Payload => "payload",
            Self::Full => "full",
        }
    }
}

/// What one run gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) messages_per_second: f64,
    pub(crate) peak_rss_kib: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.0} messages/s, {} KiB peak RSS", self.messages_per_second, self.peak_rss_kib)
    }
}

/// A server with the messages on it.
#[derive(Debug)]
pub(crate) struct Track {
    server: Server,
    client: Client,
    messages: u64,
}

impl Track {
    pub(crate) async fn prepare(messages: u64) -> Self {
        let plan = ServerPlan { kind: ServerKind::New, extra: String::new() };
        let server = Server::start(&plan).await;
        let client = Client::connect(&server, ConnectOptions::new()).await;
        client
            .create_stream(&json!({ "name": "BENCH", "subjects": ["bench.>"], "retention": "limits",
                                    "storage": "file", "num_replicas": 1, "discard": "old" }))
            .await;
        let track = Self { server, client, messages };
        track.publish().await;
        track
    }

    async fn publish(&self) {
        let core = self.client.core();
        for start in (0..self.messages).step_by(usize::try_from(PUBLISH_CHUNK).unwrap()) {
            let end = self.messages.min(start + PUBLISH_CHUNK);
            let sent = (start..end - 1).map(|number| core.publish("bench.orders", payload(number).into()));
            join_all(sent).await.into_iter().for_each(Result::unwrap);
            self.client.publish("bench.orders", payload(end - 1)).await;
        }
        let stored = &self.client.stream_info("BENCH").await["state"]["messages"];
        assert_eq!(stored.as_u64(), Some(self.messages), "published messages");
    }

    /// One contestant carries everything from stream sequence `first` on.
    pub(crate) async fn carry(&self, contestant: Contestant, first: u64) -> Figures {
        let durable = contestant.name();
        self.client
            .create_consumer(
                "BENCH",
                &json!({ "durable_name": durable, "ack_policy": "explicit", "deliver_policy": "by_start_sequence",
                         "opt_start_seq": first, "replay_policy": "instant", "max_ack_pending": MAX_ACK_PENDING }),
            )
            .await;
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let figures = if contestant == Contestant::Bare {
            let child = Bare(bare::spawn(&self.server.url(), durable, &folder.path().join("lines")));
            self.watch(durable, child.0.id()).await
        } else {
            let mut daemon = Daemon::start(&self.settings(contestant, folder.path()), &[]);
            let figures = self.watch(durable, daemon.id()).await;
            assert_eq!(daemon.ended(), None, "the daemon works to the end:\n{}", daemon.log());
            daemon.stop().await;
            figures
        };
        self.client.api(&format!("CONSUMER.DELETE.BENCH.{durable}"), &Value::Null).await;
        figures
    }

    fn settings(&self, contestant: Contestant, folder: &Path) -> Settings {
        let mut settings = Settings::default();
        settings
            .set("nats.servers", vec![self.server.url()])
            .set("consumer.stream", "BENCH")
            .set("consumer.durable", contestant.name())
            .set("sink.type", "file")
            .set("sink.file.directory", folder.join("sink").to_str().unwrap())
            .set("sink.file.record", contestant.name());
        settings
    }

    /// Watches the durable: the clock runs from its first delivery until everything is settled.
    async fn watch(&self, durable: &str, process: u32) -> Figures {
        let mut tick = interval(LOOK_EVERY);
        let deadline = Instant::now() + DEADLINE;
        let mut began = None;
        loop {
            tick.tick().await;
            let info = self.client.consumer_info("BENCH", durable).await;
            let count = |field: &Value| field.as_u64().unwrap();
            let delivered = count(&info["delivered"]["consumer_seq"]);
            let left = count(&info["num_pending"]) + count(&info["num_ack_pending"]);
            match began {
                None if delivered > 0 => began = Some((Instant::now(), left)),
                Some((at, carried)) if left == 0 => {
                    let messages = f64::from(u32::try_from(carried).unwrap());
                    let messages_per_second = messages / at.elapsed().as_secs_f64();
                    return Figures { messages_per_second, peak_rss_kib: peak_rss_kib(process) };
                }
                None | Some(_) => {}
            }
            assert!(Instant::now() < deadline, "{durable}: not done in {DEADLINE:?}: {info}");
        }
    }
}

/// The bare loop's process; ended with its owner.
#[derive(Debug)]
struct Bare(Child);

impl Drop for Bare {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A JSON message of exactly [`PAYLOAD_BYTES`].
fn payload(number: u64) -> Vec<u8> {
    let mut text = format!(
        "{{\"order\":{number},\"customer\":\"c-{:05}\",\"total\":{}.50,\"lines\":[{{\"sku\":\"A-1\",\"count\":2}},\
         {{\"sku\":\"B-22\",\"count\":1}}],\"paid\":true,\"note\":\"",
        number % 50_000,
        number % 900,
    );
    text.extend(std::iter::repeat_n('x', PAYLOAD_BYTES - text.len() - 2));
    text.push_str("\"}");
    text.into_bytes()
}

/// The highest resident size of a process so far.
fn peak_rss_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
