//! JetStream domains: the daemon is connected to one server, the stream lives at another, and a leaf connection joins the two.

use std::time::Duration;

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

use super::Way;
use super::way::TOLD;
use crate::harness::{Client, Rig, RigPlan, Server, ServerPlan, eventually, free_port, oversized, small};

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
        Self::start_with("", "").await
    }

    /// With more in the configuration of both, and of the leaf.
    async fn start_with(both: &str, of_leaf: &str) -> Self {
        let stores = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let port = free_port();
        let extra =
            format!("{}\nleafnodes {{ listen: \"127.0.0.1:{port}\" }}\n{both}", domain("hub", &stores[0]));
        let hub = Server::start(&ServerPlan { extra, ..ServerPlan::default() }).await;
        let remote = format!("leafnodes {{ remotes: [ {{ url: \"nats://127.0.0.1:{port}\" }} ] }}");
        let extra = format!("{}\n{remote}\n{both}\n{of_leaf}", domain("leaf", &stores[1]));
        let leaf = Server::start(&ServerPlan { extra, ..ServerPlan::default() }).await;
        let site = Self { hub, leaf, _stores: stores };
        let options = ConnectOptions::with_user_and_password("test".into(), "test".into());
        let client = Client::connect(&site.leaf, options).await;
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

/// The leaf has the same stream and durable, of other subjects, and a worker of its own has three of its messages in hand.
async fn namesake(leaf: &Server) -> Client {
    let client = Client::connect(leaf, ConnectOptions::new()).await;
    client.create_stream(&json!({ "name": "SRC", "subjects": ["leaf.>"], "storage": "file" })).await;
    let durable = RigPlan::patient().durable("ack_wait", 60_000_000_000_u64).durable;
    client.create_consumer("SRC", &durable).await;
    client.publish_many("leaf.a", small(3)).await;
    let replies = pulled(&client, "$JS.API", 3).await;
    assert_eq!(replies.len(), 3);
    client
}

/// The reply subjects of as many messages, which stay in hand.
async fn pulled(client: &Client, prefix: &str, count: usize) -> Vec<String> {
    let inbox = client.core().new_inbox();
    let mut messages = client.core().subscribe(inbox.clone()).await.unwrap();
    let pull = json!({ "batch": count, "expires": 20_000_000_000_u64 }).to_string();
    let subject = format!("{prefix}.CONSUMER.MSG.NEXT.SRC.w");
    client.core().publish_with_reply(subject, inbox, pull.into()).await.unwrap();
    let mut replies = Vec::new();
    for _ in 0..count {
        let message = timeout(SOON, messages.next()).await.expect("a message in time").unwrap();
        replies.push(message.reply.unwrap().to_string());
    }
    replies
}

async fn in_hand(client: &Client) -> u64 {
    client.consumer_info("SRC", "w").await["num_ack_pending"].as_u64().unwrap()
}

/// Why the same names are refused: the server takes an acknowledgement of another domain's message for one of its own.
#[tokio::test]
async fn acknowledgements_of_the_usual_form_reach_every_domain_and_those_of_the_new_one_their_own() {
    for (flags, reached) in [("", true), ("feature_flags { js_ack_fc_v2: true }", false)] {
        let Site { hub, leaf, _stores } = Site::start_with(flags, "").await;
        let other = namesake(&leaf).await;
        let (rig, _way) = Site::rig(hub, &leaf, "hub").await;
        rig.client.publish_many("src.a", small(3)).await;
        for reply in pulled(&other, "$JS.hub.API", 3).await {
            assert_eq!(reply.starts_with("$JS.ACK.hub."), !reached, "{reply}");
            let _answer = other.core().request(reply, "+ACK".into()).await.unwrap();
        }
        rig.drained(SOON).await;
        assert_eq!(in_hand(&other).await, if reached { 0 } else { 3 }, "{flags}");
    }
}

#[tokio::test]
async fn the_same_names_on_both_sides_are_refused() {
    let Site { hub, leaf, _stores } = Site::start().await;
    let other = namesake(&leaf).await;
    let (rig, way) = Site::rig(hub, &leaf, "hub").await;
    rig.client.publish_many("src.a", small(3)).await;
    way.does_not_start("", &["durable w", "outside nats.domain", "another name"]).await;
    assert_eq!(in_hand(&other).await, 3, "nothing was acknowledged");

    // The domain of the server itself is no other one.
    let (rig, way) = (Rig::on(leaf, other), Way::default().set("nats.domain", "leaf"));
    let mut daemon = way.start(&rig);
    assert_eq!(daemon.exit_code(TOLD).await, Some(69), "there is no dead-letter stream");
    assert!(daemon.log().contains("no stream captures"), "{}", daemon.log());
}

/// Who may ask within the domain alone is not in the way of anything.
#[tokio::test]
async fn a_user_of_the_domain_alone_is_enough() {
    let permitted = "authorization { users: [ { user: test, password: test }, { user: sink, password: \"CANARY-PASSWORD\",\n\
                     permissions: { publish: [ \"$JS.hub.API.>\", \"$JS.ACK.>\", \"dlq.>\" ] } } ] }";
    let Site { hub, leaf, _stores } = Site::start_with("", permitted).await;
    let (rig, way) = Site::rig(hub, &leaf, "hub").await;
    let way = way.set("nats.user", "sink").set("nats.password_env", "TEST_PASSWORD");
    way.environment("TEST_PASSWORD", "CANARY-PASSWORD").secret("CANARY-PASSWORD").carries(&rig).await;
}

/// A dead letter counts when the stream of its own domain has confirmed it. Both domains store every letter here; now one and now
/// the other answers first.
#[tokio::test]
async fn dead_letters_are_confirmed_by_their_own_domain() {
    let Site { hub, leaf, _stores } = Site::start().await;
    let other = Client::connect(&leaf, ConnectOptions::new()).await;
    other.create_stream(&RigPlan::patient().dead_letters).await;
    let (rig, way) = Site::rig(hub, &leaf, "hub").await;
    let sequences = rig.client.publish_many("src.a", oversized(100)).await;
    let mut daemon = way.set("delivery.retry.max", "1s").start(&rig);
    let reason = "stream DLQ of domain leaf confirmed, where one of domain hub should";
    daemon.not_ready_because(reason, SOON).await;

    other.api("STREAM.DELETE.DLQ", &serde_json::Value::Null).await;
    rig.drained(SOON).await;
    daemon.ready().await;
    assert_eq!(rig.dead_letters().await, sequences, "each once, by its id, however often it was published");
    daemon.stop().await;
}
