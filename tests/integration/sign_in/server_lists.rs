//! More than one server in `nats.servers`.

use std::time::Duration;

use async_nats::ConnectOptions;

use super::Way;
use super::tls::Site;
use super::way::{TOLD, carried};
use crate::harness::{Client, Rig, RigPlan, Server, ServerPlan, free_port};

/// A name that nobody has (RFC 2606).
const NOWHERE: &str = "nats://nowhere.invalid:4222";

#[tokio::test]
async fn servers_that_are_down_or_have_no_address_are_passed_over() {
    let rig = RigPlan::patient().start().await;
    let down = format!("nats://127.0.0.1:{}", free_port());
    let list = |first: &str| Way::default().set("nats.servers", vec![first.to_owned(), rig.server.url()]);
    list(&down).carries(&rig).await;
    list(NOWHERE).carries(&rig).await;
    let all = Way::default().set("nats.servers", vec![down.clone(), NOWHERE.to_owned(), rig.server.url()]);
    let mut daemon = all.start(&rig);
    daemon.ready().await;
    carried(&rig).await;

    // The only one that answers goes away and comes back.
    let mut rig = rig;
    rig.server.stop().await;
    all.says(&mut daemon, &[&down, "no server listens there", "nats.servers"]).await;
    rig.server.restart().await;
    daemon.ready().await;
    carried(&rig).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_list_without_a_server_that_answers_is_named_whole() {
    let down = format!("nats://127.0.0.1:{}", free_port());
    Way::default().is_refused(NOWHERE, &[NOWHERE, "cannot be resolved", "nats.servers"]).await;
    let both = Way::default().set("nats.servers", vec![down.clone(), NOWHERE.to_owned()]);
    both.is_refused("", &[NOWHERE, &down, "nats.servers"]).await;
}

/// A plain server, and one with TLS, behind which the same store stands in turn.
struct Two {
    site: Site,
    rig: Rig,
    secured: Server,
}

impl Two {
    async fn start() -> Self {
        let site = Site::new();
        let rig = RigPlan::patient().start().await;
        let extra = format!("max_payload: 65536\n{}", site.server.block(""));
        let secured = Server::start(&ServerPlan { extra, ..ServerPlan::default() }).await;
        let client = Client::connect(&secured, site.options()).await;
        RigPlan::patient().make(&client).await;
        Self { site, rig, secured }
    }
}

#[tokio::test]
async fn a_list_may_mix_servers_with_and_without_tls() {
    let Two { site, mut rig, mut secured } = Two::start().await;
    let with_tls = secured.url().replace("nats://", "tls://");
    let way = site.way().set("nats.servers", vec![with_tls, rig.server.url()]);
    secured.kill();
    let mut daemon = way.start(&rig);
    daemon.ready().await;
    carried(&rig).await;

    // Over to the one with TLS, and back.
    secured.restart().await;
    rig.server.stop().await;
    let client = Client::connect(&secured, site.options()).await;
    client.publish("src.a", "{}").await;
    let deadline = Duration::from_secs(30);
    crate::harness::eventually(deadline, "the other server's durable is drained", async || {
        let info = client.consumer_info("SRC", "w").await;
        let done = info["ack_floor"]["stream_seq"] == 1 && info["num_ack_pending"] == 0;
        if done { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
    rig.server.restart().await;
    secured.stop().await;
    rig.client = Client::connect(&rig.server, ConnectOptions::new()).await;
    daemon.ready().await;
    carried(&rig).await;
    daemon.stop().await;
}

#[tokio::test]
async fn required_tls_counts_for_every_server_of_the_list() {
    let Two { site, rig, mut secured } = Two::start().await;
    let servers = vec![secured.url(), rig.server.url()];
    secured.kill();
    let way = site.way().set("nats.servers", servers).set("nats.tls.required", true);
    let mut daemon = way.start(&rig);
    way.says(&mut daemon, &[&rig.server.url(), "nats.servers"]).await;
    assert_eq!(rig.client.consumer_info("SRC", "w").await["delivered"]["consumer_seq"], 0);
    secured.restart().await;
    crate::harness::eventually(TOLD, "ready by the server with TLS", async || {
        let seen = daemon.readiness().await?;
        if seen.ready { Ok(()) } else { Err(seen.body) }
    })
    .await;
    daemon.stop().await;
}

/// Two servers of one cluster, the first one with TLS. The second one is told of by the first.
async fn cluster(site: &Site) -> [Server; 2] {
    let ports = [free_port(), free_port()];
    let extra = |number: usize| {
        format!(
            "max_payload: 65536\nserver_name: n{number}\ncluster {{ name: c, listen: \"127.0.0.1:{}\", routes: [ \
             \"nats://127.0.0.1:{}\" ] }}",
            ports[number],
            ports[1 - number]
        )
    };
    let plain = ServerPlan { extra: extra(1), ..ServerPlan::default() };
    let extra = format!("{}\n{}", extra(0), site.server.block(""));
    let secured = ServerPlan { extra, ..ServerPlan::default() };
    [Server::start(&secured).await, Server::start(&plain).await]
}

#[tokio::test]
async fn what_a_cluster_tells_of_does_not_undo_tls() {
    let site = Site::new();
    let [secured, plain] = cluster(&site).await;
    let client = Client::connect(&secured, site.options()).await;
    RigPlan::patient().make(&client).await;
    let mut rig = Rig::on(secured, client);
    let with_tls = rig.server.url().replace("nats://", "tls://");
    let way = site.way().set("nats.servers", vec![with_tls]);
    let mut daemon = way.start(&rig);
    daemon.ready().await;
    carried(&rig).await;
    rig.server.kill();
    way.says(&mut daemon, &[&plain.url(), "the server speaks no TLS", "nats.tls.required"]).await;
    daemon.kill();
}
