//! A cluster of three nodes, streams of three replicas and two daemons; nodes, leaders, daemons and the network fail in turn.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::harness::{Client, Daemon, RigPlan, Settings, eventually, stays};
use crate::nodes::Cluster;
use crate::outcome;
use crate::proxy::Proxy;
use crate::traffic::Traffic;

/// A message that was confirmed after a fault must be in a sink within this.
const RECOVERED: Duration = Duration::from_secs(60);
const DRAINED: Duration = Duration::from_secs(60);
/// Longer than three missed pings.
const PARTITION: Duration = Duration::from_secs(8);
const BATCH: usize = 20;
const BATCHES: usize = 4;

struct Setup {
    cluster: Cluster,
    client: Client,
    folder: TempDir,
    traffic: Traffic,
    /// Recovery times, as they are printed.
    report: String,
    faults: usize,
}

impl Setup {
    async fn start() -> Self {
        let (cluster, client) = Cluster::start().await;
        let plan = RigPlan::patient().source("num_replicas", 3).dead_letters("num_replicas", 3);
        plan.make(&client).await;
        for stream in ["SRC", "DLQ"] {
            client.all_replicas_current(stream).await;
        }
        let traffic = Traffic::start(cluster.urls(), Duration::from_millis(5)).await;
        let folder = tempfile::tempdir().unwrap();
        Self { cluster, client, folder, traffic, report: String::new(), faults: 0 }
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn settings(&self, urls: Vec<String>, directory: &Path) -> Settings {
        let mut settings = Settings::parse(
            r#"
            [consumer]
            stream = "SRC"
            durable = "w"
            [dead_letter]
            subject = "dlq.src"
            stream = "DLQ"
            [size_policy]
            max_payload_bytes = "1 KiB"
            [sink]
            type = "file"
            "#,
        );
        settings
            .set("nats.servers", urls)
            .set("nats.ping_interval", "1s")
            .set("delivery.batch_size", i64::try_from(BATCH).unwrap())
            .set("delivery.max_in_flight_batches", i64::try_from(BATCHES).unwrap())
            .set("sink.file.directory", directory.to_str().unwrap());
        settings
    }

    /// Waits until something that was confirmed only now is in one of these directories, and notes how long that took.
    async fn recovers(&mut self, fault: &str, directories: &[&Path]) {
        let (began, before) = (Instant::now(), self.traffic.ledger.last());
        let found = eventually(RECOVERED, &format!("new messages are written after: {fault}"), async || {
            let written = directories.iter().map(|own| outcome::newest(own)).max().unwrap_or_default();
            if written > before { Ok(written) } else { Err(format!("{written} written, {before} confirmed")) }
        })
        .await;
        let took = began.elapsed().as_secs_f64();
        self.faults += 1;
        writeln!(self.report, "{took:6.1} s  {fault} (sequence {found})").unwrap();
    }

    /// Each node in turn is killed, and comes back.
    async fn lose_every_node(&mut self, directories: &[&Path]) {
        for number in 0..self.cluster.nodes.len() {
            self.cluster.nodes[number].kill();
            self.recovers(&format!("node {number} killed"), directories).await;
            self.cluster.nodes[number].restart().await;
            for stream in ["SRC", "DLQ"] {
                self.client.all_replicas_current(stream).await;
            }
            self.recovers(&format!("node {number} started again"), directories).await;
        }
    }

    async fn depose(&mut self, subject: &str, directories: &[&Path]) {
        self.client.api(subject, &Value::Null).await;
        self.recovers(subject, directories).await;
    }

    /// Ends the traffic and waits until the durable has nothing left.
    async fn quiet(self) -> (Client, Cluster, TempDir, crate::traffic::Ledger, String) {
        let ledger = self.traffic.stop().await;
        let client = self.client;
        eventually(DRAINED, "the durable is drained", async || outcome::is_drained(&client).await).await;
        (client, self.cluster, self.folder, ledger, self.report)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_leaders_daemons_and_the_network_fail_in_turn_and_nothing_is_lost() {
    let mut setup = Setup::start().await;
    let (one, two) = (setup.directory("one"), setup.directory("two"));
    let directories = [one.as_path(), two.as_path()];
    let mut proxies = Vec::new();
    for node in &setup.cluster.nodes {
        proxies.push(Proxy::start(node.port()).await);
    }
    let settings_one = setup.settings(setup.cluster.urls(), &one);
    let settings_two = setup.settings(proxies.iter().map(Proxy::url).collect(), &two);
    let mut first = Daemon::start(&settings_one, &[]);
    let mut second = Daemon::start(&settings_two, &[]);
    first.ready().await;
    second.ready().await;

    setup.lose_every_node(&directories).await;
    setup.depose("STREAM.LEADER.STEPDOWN.SRC", &directories).await;
    setup.depose("CONSUMER.LEADER.STEPDOWN.SRC.w", &directories).await;
    setup.depose("STREAM.LEADER.STEPDOWN.DLQ", &directories).await;

    first.kill();
    setup.recovers("daemon one killed", &directories).await;
    let mut first = Daemon::start(&settings_one, &[]);
    setup.recovers("daemon one started again", &[&one]).await;

    proxies.iter().for_each(Proxy::silence);
    setup.recovers("daemon two cut off", &[&one]).await;
    stays(PARTITION, "the other daemon goes on", async || first.readiness().await.map(drop)).await;
    assert!(!second.readiness().await.unwrap().ready, "who is cut off says so");
    proxies.iter().for_each(Proxy::open);
    setup.recovers("daemon two back", &[&two]).await;

    first.ready().await;
    second.ready().await;
    let faults = setup.faults;
    let (client, _cluster, _folder, ledger, report) = setup.quiet().await;
    first.stop().await;
    second.stop().await;
    let twice = outcome::check(&client, &directories, &ledger).await;
    println!("recovery after each fault:\n{report}{twice} of {} in both directories", ledger.last());
    let at_each_cut = BATCH * BATCHES;
    assert!(twice <= faults * at_each_cut, "{twice} in both directories after {faults} faults");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_with_one_directory_take_turns_and_store_each_message_once() {
    let mut setup = Setup::start().await;
    let shared = setup.directory("shared");
    let settings = setup.settings(setup.cluster.urls(), &shared);
    let mut active = Daemon::start(&settings, &[]);
    active.ready().await;
    let mut standby = Daemon::start(&settings, &[]);
    standby.not_ready_because("sink_locked", Duration::from_secs(10)).await;
    for round in 0..2 {
        active.kill();
        setup.recovers(&format!("round {round}: the active daemon killed"), &[&shared]).await;
        standby.ready().await;
        active = std::mem::replace(&mut standby, Daemon::start(&settings, &[]));
        setup.cluster.nodes[round].kill();
        setup.recovers(&format!("round {round}: node {round} killed"), &[&shared]).await;
        setup.cluster.nodes[round].restart().await;
        setup.client.all_replicas_current("SRC").await;
        setup.client.all_replicas_current("DLQ").await;
    }
    let (client, _cluster, _folder, ledger, report) = setup.quiet().await;
    active.stop().await;
    standby.stop().await;
    outcome::check(&client, &[&shared], &ledger).await;
    println!("recovery after each fault:\n{report}");
}
