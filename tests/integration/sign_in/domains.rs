//! JetStream domains: the daemon is connected to one server, the stream lives at another, and a leaf connection joins the two.

use std::time::Duration;

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use serde_json::json;
use tempfile::TempDir;

use super::Way;
use super::way::{TOLD, carried};
use crate::harness::{Client, Rig, RigPlan, Server, ServerPlan, eventually, free_port, small};

const SOON: Duration = Duration::from_secs(30);

/// The server's own block of JetStream, for a domain, in place of the one that every test server has.
fn domain(name: &str, store: &TempDir) -> String {
    let folder = store.path().display();
    format!("max_payload: 65536\njetstream {{ store_dir: \"{folder}\", max_file: 1GB, domain: {name} }}")
}

/// A hub and a leaf, each with JetStream in a domain of its own.
struct Site {
    hub: Server,
    leaf: Server,
    _stores: [TempDir; 2],
}

impl Site {
    async fn start() -> Self {
        let stores = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let port = free_port();
        let extra = format!("{}\nleafnodes {{ listen: \"127.0.0.1:{port}\" }}", domain("hub", &stores[0]));
        let hub = Server::start(&ServerPlan { extra, ..ServerPlan::default() }).await;
        let remote = format!("leafnodes {{ remotes: [ {{ url: \"nats://127.0.0.1:{port}\" }} ] }}");
        let extra = format!("{}\n{remote}", domain("leaf", &stores[1]));
        let leaf = Server::start(&ServerPlan { extra, ..ServerPlan::default() }).await;
        let site = Self { hub, leaf, _stores: stores };
        let client = Client::connect(&site.leaf, ConnectOptions::new()).await;
        eventually(SOON, "the leaf sees the hub", async || {
            let answer = client.core().request("$JS.hub.API.INFO", "".into()).await;
            answer.map(|_| ()).map_err(|error| error.to_string())
        })
        .await;
        site
    }

    /// Streams and durable live at `home`; the daemon is connected to `away`.
    async fn rig(home: Server, away: &Server, name: &str) -> (Rig, Way) {
        let client = Client::connect(&home, ConnectOptions::new()).await;
        RigPlan::patient().make(&client).await;
        let way = Way::default().set("nats.servers", vec![away.url()]).set("nats.domain", name);
        (Rig::on(home, client), way)
    }
}

#[tokio::test]
async fn connected_to_the_leaf_the_daemon_works_on_the_hub() {
    let Site { hub, leaf, _stores } = Site::start().await;
    let (rig, way) = Site::rig(hub, &leaf, "hub").await;
    way.carries(&rig).await;
}

#[tokio::test]
async fn connected_to_the_hub_the_daemon_works_on_the_leaf() {
    let Site { hub, leaf, _stores } = Site::start().await;
    let (rig, way) = Site::rig(leaf, &hub, "leaf").await;
    way.carries(&rig).await;
}

#[tokio::test]
async fn a_domain_that_nobody_has_is_named() {
    let rig = RigPlan::patient().start().await;
    let way = Way::default().set("nats.domain", "nowhere");
    let mut daemon = way.start(&rig);
    daemon.not_ready_because("consumer_unbound", TOLD).await;
    let body = daemon.readiness().await.unwrap().body;
    for word in ["$JS.nowhere.API", "nats.domain"] {
        assert!(body.contains(word) && daemon.log().contains(word), "{body}\n{}", daemon.log());
    }
}

/// Both sides have the same stream and durable. Acknowledgements carry no domain, so both servers hear them.
#[tokio::test]
async fn the_same_names_on_both_sides() {
    let Site { hub, leaf, _stores } = Site::start().await;
    let other = Client::connect(&leaf, ConnectOptions::new()).await;
    let dead_letters = json!({ "name": "DLQ", "subjects": ["other.>"], "storage": "file" });
    other.create_stream(&json!({ "name": "SRC", "subjects": ["srcleaf.>"], "storage": "file" })).await;
    other.create_stream(&dead_letters).await;
    let durable = RigPlan::patient().durable("ack_wait", 60_000_000_000_u64).durable;
    other.create_consumer("SRC", &durable).await;
    other.publish_many("srcleaf.a", small(3)).await;
    // A worker of the leaf's own has them in hand.
    let mut worker = other.core().subscribe("worker").await.unwrap();
    let pull = json!({ "batch": 3, "expires": 20_000_000_000_u64 }).to_string();
    other.core().publish_with_reply("$JS.API.CONSUMER.MSG.NEXT.SRC.w", "worker", pull.into()).await.unwrap();
    for _ in 0..3 {
        let message = tokio::time::timeout(SOON, worker.next()).await.unwrap().unwrap();
        eprintln!("REPLY {:?}", message.reply);
    }
    let (rig, way) = Site::rig(hub, &leaf, "hub").await;
    let mut daemon = way.start(&rig);
    daemon.ready().await;
    carried(&rig).await;
    let info = other.consumer_info("SRC", "w").await;
    panic!("{info}\n{}", daemon.log());
}
