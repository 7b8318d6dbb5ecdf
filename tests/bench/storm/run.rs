//! A server with the storm on it, and one run of either side.

use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use async_nats::ConnectOptions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, interval};

use crate::bare;
use crate::harness::{Client, Daemon, Server, ServerKind, ServerPlan, Settings};

const PAYLOAD_BYTES: usize = 512;
const PUBLISH_CHUNK: u64 = 2_000;
/// Unacknowledged messages that the durable allows: more than the daemon has in hand.
const MAX_ACK_PENDING: u64 = 10_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A run that is not over by then has failed.
const DEADLINE: Duration = Duration::from_secs(600);

/// A server with the messages on it.
#[derive(Debug)]
pub(crate) struct Storm {
    server: Server,
    client: Client,
    messages: u64,
    folder: TempDir,
}

impl Storm {
    pub(crate) async fn prepare(messages: u64) -> Self {
        let plan = ServerPlan { kind: ServerKind::New, extra: String::new() };
        let server = Server::start(&plan).await;
        let client = Client::connect(&server, ConnectOptions::new()).await;
        for (name, subjects) in [("STORM", "storm.>"), ("DLQ", "dlq.>"), ("BARE", "bare.>")] {
            client
                .create_stream(&json!({ "name": name, "subjects": [subjects], "retention": "limits",
                                        "storage": "file", "num_replicas": 1, "discard": "new" }))
                .await;
        }
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let storm = Self { server, client, messages, folder };
        storm.publish().await;
        storm
    }

    async fn publish(&self) {
        let core = self.client.core();
        let payload = vec![b'x'; PAYLOAD_BYTES];
        for start in (0..self.messages).step_by(usize::try_from(PUBLISH_CHUNK).unwrap()) {
            let end = self.messages.min(start + PUBLISH_CHUNK);
            let sent = (start..end - 1).map(|_| core.publish("storm.orders", payload.clone().into()));
            join_all(sent).await.into_iter().for_each(Result::unwrap);
            self.client.publish("storm.orders", payload.clone()).await;
        }
        assert_eq!(self.stored("STORM").await, self.messages, "published messages");
    }

    async fn stored(&self, stream: &str) -> u64 {
        self.client.stream_info(stream).await["state"]["messages"].as_u64().unwrap()
    }

    /// The daemon dead-letters everything; gives rejections per second.
    pub(crate) async fn let_the_daemon_reject(&self) -> f64 {
        self.client.api("STREAM.PURGE.DLQ", &Value::Null).await;
        // A durable of its own for every run: else the letters would be repeats to the stream.
        let durable = self.client.core().new_inbox().replace('.', "-");
        let config = json!({ "durable_name": durable, "ack_policy": "explicit", "deliver_policy": "all",
                             "replay_policy": "instant", "max_ack_pending": MAX_ACK_PENDING });
        self.client.create_consumer("STORM", &config).await;
        let mut daemon = Daemon::start(&self.settings(&durable), &[]);
        let rate = self.watch(&durable, &mut daemon).await;
        daemon.stop().await;
        assert_eq!(self.stored("DLQ").await, self.messages, "every rejection has its dead letter, once");
        self.client.api(&format!("CONSUMER.DELETE.STORM.{durable}"), &Value::Null).await;
        rate
    }

    fn settings(&self, durable: &str) -> Settings {
        let mut settings = Settings::default();
        settings
            .set("nats.servers", vec![self.server.url()])
            .set("consumer.stream", "STORM")
            .set("consumer.durable", durable)
            .set("dead_letter.subject", "dlq.storm")
            .set("dead_letter.stream", "DLQ")
            .set("size_policy.max_payload_bytes", "256 B")
            .set("sink.type", "file")
            .set("sink.file.directory", self.folder.path().join(durable).to_str().unwrap());
        settings
    }

    async fn watch(&self, durable: &str, daemon: &mut Daemon) -> f64 {
        let mut tick = interval(LOOK_EVERY);
        let deadline = Instant::now() + DEADLINE;
        let mut began = None;
        loop {
            tick.tick().await;
            assert_eq!(daemon.ended(), None, "the daemon works to the end:\n{}", daemon.log());
            let info = self.client.consumer_info("STORM", durable).await;
            let count = |field: &Value| field.as_u64().unwrap();
            let delivered = count(&info["delivered"]["consumer_seq"]);
            let left = count(&info["num_pending"]) + count(&info["num_ack_pending"]);
            match began {
                None if delivered > 0 => began = Some((Instant::now(), left)),
                Some((at, carried)) if left == 0 => return per_second(carried, at),
                None | Some(_) => {}
            }
            assert!(Instant::now() < deadline, "not done in {DEADLINE:?}: {info}");
        }
    }

    /// The bare loop publishes as many letters of the same bytes; gives publishes per second.
    pub(crate) async fn publish_the_same_letters(&self) -> f64 {
        self.client.api("STREAM.DELETE.BARE", &Value::Null).await;
        self.client
            .create_stream(&json!({ "name": "BARE", "subjects": ["bare.>"], "retention": "limits",
                                    "storage": "file", "num_replicas": 1, "discard": "new" }))
            .await;
        let letter = self.write_letter().await;
        let mut child = Bare(bare::spawn(&self.server.url(), &letter, self.messages));
        let mut tick = interval(LOOK_EVERY);
        let deadline = Instant::now() + DEADLINE;
        let mut began = None;
        loop {
            tick.tick().await;
            let stored = self.stored("BARE").await;
            match began {
                None if stored > 0 => began = Some((Instant::now(), self.messages - stored)),
                Some((at, published)) if stored == self.messages => {
                    let rate = per_second(published, at);
                    assert!(child.0.wait().unwrap().success(), "the bare loop ends well");
                    return rate;
                }
                None | Some(_) => {}
            }
            assert!(Instant::now() < deadline, "not done in {DEADLINE:?}: {stored}");
        }
    }

    /// One of the daemon's letters, for the bare loop to repeat.
    async fn write_letter(&self) -> PathBuf {
        let last = self.client.stream_info("DLQ").await["state"]["last_seq"].as_u64().unwrap();
        let stored = self.client.message("DLQ", last).await.unwrap();
        let own = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            (!name.starts_with("Nats-Expected") && name != "Nats-Msg-Id")
                .then(|| (name.to_owned(), Value::from(value)))
        };
        let headers: Map<String, Value> = stored.headers.lines().filter_map(own).collect();
        let letter = json!({ "headers": headers, "body": STANDARD.encode(&stored.payload) });
        let path = self.folder.path().join("letter.json");
        std::fs::write(&path, letter.to_string()).unwrap();
        path
    }
}

fn per_second(count: u64, since: Instant) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / since.elapsed().as_secs_f64()
}

/// The bare loop's process; ended with its owner.
#[derive(Debug)]
struct Bare(Child);

impl Drop for Bare {
    fn drop(&mut self) {
        if self.0.try_wait().unwrap().is_none() {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }
}
