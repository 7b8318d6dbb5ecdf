//! TLS as it should be: the server's certificate by an own CA, client certificates, TLS before the first line.

use std::path::PathBuf;

use async_nats::ConnectOptions;
use tempfile::TempDir;

use super::{Authority, Pair, Way};
use crate::harness::{Rig, RigPlan};

/// A CA, a server's and a client's certificate, in a folder.
pub(super) struct Site {
    pub(super) folder: TempDir,
    pub(super) authority: Authority,
    pub(super) ca: PathBuf,
    /// The server's own file of the CA that signs clients.
    pub(super) servers_ca: PathBuf,
    pub(super) server: Pair,
    pub(super) client: Pair,
}

impl Site {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("CA");
        let ca = authority.write(&folder.path().join("ca.pem"));
        let servers_ca = authority.write(&folder.path().join("server-ca.pem"));
        let server = authority.server(folder.path(), "server", &["localhost", "127.0.0.1"]);
        let client = authority.client(folder.path(), "client", "sink@test");
        Self { folder, authority, ca, servers_ca, server, client }
    }

    /// What a server needs to ask for client certificates.
    pub(super) fn asking(&self) -> String {
        format!("ca_file: \"{}\", verify: true", self.servers_ca.display())
    }

    pub(super) fn options(&self) -> ConnectOptions {
        ConnectOptions::new()
            .add_root_certificates(self.ca.clone())
            .add_client_certificate(self.client.certificate.clone(), self.client.key.clone())
    }

    pub(super) async fn rig(&self, more: &str) -> Rig {
        RigPlan::patient().server(&self.server.block(more)).start_as(self.options()).await
    }

    pub(super) fn way(&self) -> Way {
        Way::default().path("nats.tls.ca_file", &self.ca)
    }

    pub(super) fn way_with_certificate(&self) -> Way {
        self.way()
            .path("nats.tls.certificate_file", &self.client.certificate)
            .path("nats.tls.key_file", &self.client.key)
            .secret(&self.client.secret())
    }
}

#[tokio::test]
async fn the_servers_certificate_is_checked_against_the_ca_file() {
    let site = Site::new();
    let rig = site.rig("").await;
    let port = rig.server.port();
    site.way().carries(&rig).await;
    site.way().set("nats.tls.required", true).carries(&rig).await;
    // By name and by address, with and without the scheme that asks for it.
    for server in
        [format!("tls://localhost:{port}"), format!("tls://127.0.0.1:{port}"), format!("localhost:{port}")]
    {
        site.way().set("nats.servers", vec![server]).carries(&rig).await;
    }
    // One file may hold several CAs.
    let both = site.folder.path().join("both.pem");
    let other = Authority::new("other").write(&site.folder.path().join("other.pem"));
    let text = [other, site.ca.clone()].map(|file| std::fs::read_to_string(file).unwrap()).concat();
    std::fs::write(&both, text).unwrap();
    Way::default().path("nats.tls.ca_file", &both).carries(&rig).await;
}

#[tokio::test]
async fn a_server_that_asks_for_client_certificates_gets_one() {
    let site = Site::new();
    let rig = site.rig(&site.asking()).await;
    site.way_with_certificate().carries(&rig).await;
}

#[tokio::test]
async fn a_client_certificate_can_be_the_sign_in() {
    let site = Site::new();
    let more = site.asking().replace("verify: true", "verify_and_map: true");
    let users =
        format!("{}\nauthorization {{ users: [ {{ user: \"sink@test\" }} ] }}", site.server.block(&more));
    let rig = RigPlan::patient().server(&users).start_as(site.options()).await;
    site.way_with_certificate().carries(&rig).await;
    // Another one by the same CA is nobody there.
    let stranger = site.authority.client(site.folder.path(), "stranger", "stranger@test");
    let way = site
        .way()
        .path("nats.tls.certificate_file", &stranger.certificate)
        .path("nats.tls.key_file", &stranger.key)
        .secret(&stranger.secret());
    way.is_refused(&rig.server.url(), &["uthorization violation", "nats.tls.certificate_file"]).await;
}

#[tokio::test]
async fn tls_may_come_before_the_servers_first_line() {
    let site = Site::new();
    let rig = RigPlan::patient().server(&site.server.block("handshake_first: true"));
    let rig = rig.start_as(site.options().tls_first()).await;
    site.way().set("nats.tls.first", true).carries(&rig).await;
    // Not told so, the daemon waits for a line that does not come.
    site.way().is_refused(&rig.server.url(), &["says nothing", "nats.tls.first = true"]).await;
}
