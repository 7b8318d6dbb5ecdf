//! Rig R0: the set-up that field cases share.
//!
//! One server on loopback, JetStream on files, `max_payload` 65536; stream `SRC` (`src.>`, limits), stream `DLQ` (`dlq.>`, limits);
//! durable `w` on `SRC`: explicit ack, ack wait 2 s, max deliver 4, no backoff; batches of 10, `max_attempts` 2, `crash_limit` 3; a
//! file sink in a temp folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::ConnectOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Client, Daemon, Server, ServerKind, ServerPlan, Settings, eventually, sequences};

/// What may differ from R0.
#[derive(Clone, Debug)]
pub(crate) struct RigPlan {
    pub(crate) server: ServerPlan,
    pub(crate) source: Value,
    pub(crate) dead_letters: Value,
    pub(crate) durable: Value,
    /// The user whom the tests themselves sign in as, if the server asks for one.
    pub(crate) login: Option<(&'static str, &'static str)>,
}

impl Default for RigPlan {
    fn default() -> Self {
        Self {
            server: ServerPlan::default(),
            source: json!({ "name": "SRC", "subjects": ["src.>"], "retention": "limits", "storage": "file",
                            "num_replicas": 1, "discard": "old" }),
            dead_letters: json!({ "name": "DLQ", "subjects": ["dlq.>"], "retention": "limits", "storage": "file",
                                  "num_replicas": 1, "discard": "new" }),
            durable: json!({ "durable_name": "w", "ack_policy": "explicit", "deliver_policy": "all",
                             "replay_policy": "instant", "ack_wait": 2_000_000_000_u64, "max_deliver": 4 }),
            login: None,
        }
    }
}

impl RigPlan {
    /// R0 with a durable that never gives up on a message.
    pub(crate) fn patient() -> Self {
        Self::default().durable("max_deliver", -1)
    }

    /// The same on this server.
    pub(crate) const fn on(mut self, kind: ServerKind) -> Self {
        self.server.kind = kind;
        self
    }

    /// Sets one field of the durable.
    pub(crate) fn durable(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.durable[field] = value.into();
        self
    }

    /// Sets one field of the source stream.
    pub(crate) fn source(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.source[field] = value.into();
        self
    }

    /// Sets one field of the dead-letter stream.
    pub(crate) fn dead_letters(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.dead_letters[field] = value.into();
        self
    }

    /// Adds to the server's configuration.
    pub(crate) fn server(mut self, extra: &str) -> Self {
        self.server.extra = format!("{}\n{extra}", self.server.extra);
        self
    }

    /// Starts the server and makes streams and durable.
    pub(crate) async fn start(self) -> Rig {
        let server = Server::start(&self.server).await;
        let options = self.login.map_or_else(ConnectOptions::new, |(user, password)| {
            ConnectOptions::with_user_and_password(user.into(), password.into())
        });
        let client = Client::connect(&server, options).await;
        self.make(&client).await;
        Rig { server, client, directory: tempfile::tempdir().unwrap() }
    }

    /// Makes streams and durable.
    pub(crate) async fn make(&self, client: &Client) {
        client.create_stream(&self.source).await;
        client.create_stream(&self.dead_letters).await;
        client.create_consumer("SRC", &self.durable).await;
    }
}

/// The running rig.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) client: Client,
    directory: TempDir,
}

impl Rig {
    /// R0 as it is.
    pub(crate) async fn start() -> Self {
        RigPlan::default().start().await
    }

    /// Where the file sink writes.
    pub(crate) fn sink(&self) -> PathBuf {
        self.directory.path().join("sink")
    }

    /// A folder for whatever else a test needs.
    pub(crate) fn folder(&self) -> &Path {
        self.directory.path()
    }

    /// The daemon's settings on this rig.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::parse(
            r#"
            [consumer]
            stream = "SRC"
            durable = "w"
            [delivery]
            batch_size = 10
            max_attempts = 2
            crash_limit = 3
            [dead_letter]
            subject = "dlq.src"
            stream = "DLQ"
            [sink]
            type = "file"
            "#,
        );
        settings
            .set("nats.servers", vec![self.server.url()])
            .set("sink.file.directory", self.sink().to_str().unwrap());
        settings
    }

    /// The same, with a size policy that [`oversized`] bodies break and [`small`] ones do not.
    pub(crate) fn settings_for_small(&self) -> Settings {
        let mut settings = self.settings();
        settings.set("size_policy.max_payload_bytes", "1 KiB");
        settings
    }

    /// The same with the daemon's own limits. Whatever kills daemons or servers again and again raises the delivered count of
    /// good messages, and would reach R0's crash limit of 3 by that alone.
    pub(crate) fn settings_with_usual_limits(&self) -> Settings {
        let mut settings = self.settings();
        settings.unset("delivery.max_attempts").unset("delivery.crash_limit");
        settings
    }

    /// A daemon with the rig's own settings.
    pub(crate) fn daemon(&self) -> Daemon {
        Daemon::start(&self.settings(), &[])
    }

    /// The stream sequences that stand in dead letters, sorted, repeats included.
    pub(crate) async fn dead_letters(&self) -> Vec<u64> {
        let stored = self.client.messages("DLQ").await;
        let own =
            stored.iter().map(|letter| letter.header("Jetsink-Stream-Sequence").unwrap().parse().unwrap());
        let mut sequences = own.collect::<Vec<u64>>();
        sequences.sort_unstable();
        sequences
    }

    /// Waits until the durable has nothing left: nothing pending, nothing unsettled.
    pub(crate) async fn drained(&self, deadline: Duration) {
        eventually(deadline, "the durable is drained", async || {
            let info = self.client.consumer_info("SRC", "w").await;
            let left = info["num_pending"].as_u64().unwrap() + info["num_ack_pending"].as_u64().unwrap();
            if left == 0 { Ok(()) } else { Err(info.to_string()) }
        })
        .await;
    }

    /// Every stored sequence is in the sink or in a dead letter at least once.
    pub(crate) async fn all_accounted_for(&self) {
        let state = self.client.stream_info("SRC").await["state"].clone();
        let (first, last) = (state["first_seq"].as_u64().unwrap(), state["last_seq"].as_u64().unwrap());
        let found = sequences(&self.sink()).into_iter().chain(self.dead_letters().await);
        let found = found.collect::<BTreeSet<_>>();
        let missing = (first..=last).filter(|sequence| !found.contains(sequence)).collect::<Vec<_>>();
        assert!(missing.is_empty(), "neither in the sink nor in a dead letter: {missing:?}");
    }

    /// Waits until the sink holds exactly these sequences, each once.
    pub(crate) async fn sink_holds(&self, expected: &[u64], deadline: Duration) {
        eventually(deadline, "the sink holds each expected message once", async || {
            let found = sequences(&self.sink());
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }
}

/// Bodies that every policy lets pass.
pub(crate) fn small(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("{{\"number\":{number}}}").into_bytes()).collect()
}

/// Bodies that break the policy of [`Rig::settings_for_small`].
pub(crate) fn oversized(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| format!("{{\"number\":{number},\"pad\":\"{}\"}}", "x".repeat(2000)).into_bytes())
        .collect()
}
