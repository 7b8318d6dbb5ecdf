//! TLS that does not come about: what is wrong, and which key helps.

use super::tls::Site;
use super::{Authority, Pair, Way};
use crate::harness::{Server, ServerPlan};

async fn server(pair: &Pair, more: &str) -> Server {
    let extra = format!("max_payload: 65536\n{}", pair.block(more));
    Server::start(&ServerPlan { extra, ..ServerPlan::default() }).await
}

#[tokio::test]
async fn a_server_whose_ca_is_not_known() {
    let site = Site::new();
    let server = server(&site.server, "").await;
    let other = Authority::new("CA").write(&site.folder.path().join("other.pem"));
    let way = Way::default().path("nats.tls.ca_file", &other);
    way.is_refused(&server.url(), &["no CA of nats.tls.ca_file", "other.pem"]).await;
    // The machine's own store does not know it either.
    Way::default().is_refused(&server.url(), &["CA", "nats.tls.ca_file"]).await;
}

#[tokio::test]
async fn a_server_whose_certificate_is_over() {
    let site = Site::new();
    let expired = site.authority.expired_server(site.folder.path(), "expired", &["127.0.0.1"]);
    let server = server(&expired, "").await;
    site.way().is_refused(&server.url(), &["certificate expired", "give the server a new one"]).await;
}

#[tokio::test]
async fn a_server_that_has_another_name() {
    let site = Site::new();
    let other = site.authority.server(site.folder.path(), "other", &["other.test"]);
    let server = server(&other, "").await;
    site.way().is_refused(&server.url(), &["not valid for name", "nats.servers", "other.test"]).await;
}

#[tokio::test]
async fn a_server_that_wants_another_client_certificate_or_one_at_all() {
    let site = Site::new();
    let server = server(&site.server, &site.asking()).await;
    let keys = ["client certificates", "nats.tls.certificate_file"];
    site.way().is_refused(&server.url(), &[&keys[..], &["set", "nats.tls.key_file"]].concat()).await;

    let stranger = Authority::new("CA").client(site.folder.path(), "stranger", "sink@test");
    let way = site
        .way()
        .path("nats.tls.certificate_file", &stranger.certificate)
        .path("nats.tls.key_file", &stranger.key)
        .secret(&stranger.secret());
    way.is_refused(&server.url(), &[&keys[..], &["does it accept", "stranger.pem"]].concat()).await;
}

#[tokio::test]
async fn a_server_without_tls_where_it_is_required() {
    let site = Site::new();
    let server = Server::start(&ServerPlan::default()).await;
    let words = ["speaks no TLS", "nats.tls.required", "tls://"];
    site.way().set("nats.tls.required", true).is_refused(&server.url(), &words).await;
    site.way().is_refused(&server.url().replace("nats://", "tls://"), &words).await;
    let words = ["does not start with TLS", "nats.tls.first", "handshake_first"];
    site.way().set("nats.tls.first", true).is_refused(&server.url(), &words).await;
}

#[tokio::test]
async fn a_server_that_starts_without_tls_where_it_should_come_first() {
    let site = Site::new();
    let server = server(&site.server, "").await;
    let words = ["does not start with TLS", "nats.tls.first", "handshake_first"];
    site.way().set("nats.tls.first", true).is_refused(&server.url(), &words).await;
}

#[tokio::test]
async fn files_that_are_not_what_their_key_says_end_the_start() {
    let site = Site::new();
    let server = server(&site.server, &site.asking()).await;
    let url = server.url();
    let file = site.folder.path().join("file.pem");
    let way = || Way::default().path("nats.tls.ca_file", &file);
    way().does_not_start(&url, &["nats.tls.ca_file", "file.pem", "cannot be read", "No such file"]).await;
    std::fs::write(&file, "SECRET-CANARY").unwrap();
    let way = way().secret("SECRET-CANARY");
    way.does_not_start(&url, &["nats.tls.ca_file", "file.pem", "holds no certificate"]).await;
    // Certificate and key the wrong way round.
    let way = site
        .way()
        .path("nats.tls.certificate_file", &site.client.key)
        .path("nats.tls.key_file", &site.client.certificate)
        .secret(&site.client.secret());
    way.does_not_start(&url, &["nats.tls.certificate_file", "client-key.pem", "holds no certificate"]).await;
    let way = site.way().path("nats.tls.certificate_file", &site.client.certificate);
    way.clone()
        .path("nats.tls.key_file", &site.client.certificate)
        .does_not_start(&url, &["nats.tls.key_file", "client.pem", "holds no private key"])
        .await;
    // The key of another certificate.
    way.path("nats.tls.key_file", &site.server.key)
        .secret(&site.server.secret())
        .does_not_start(&url, &["nats.tls.key_file", "server-key.pem", "is not the key of"])
        .await;
}
