//! Certificates that change under a running daemon: the files are read at each attempt to connect.

use std::fs;

use super::tls::Site;
use super::way::carried;
use super::{Authority, Way};
use crate::harness::{Client, Rig};

/// The server comes back with what its files hold now.
async fn restarted(rig: &mut Rig, site: &Site) {
    rig.server.stop().await;
    rig.server.restart().await;
    rig.client = Client::connect(&rig.server, site.options()).await;
}

#[tokio::test]
async fn new_certificates_of_both_sides_count_from_the_next_connection_on() {
    let mut site = Site::new();
    let mut rig = site.rig(&site.asking()).await;
    let way: Way = site.way_with_certificate();
    let mut daemon = way.start(&rig);
    daemon.ready().await;
    carried(&rig).await;

    // Everything is by a new CA, the daemon's own certificate too. Its own files come last.
    site.authority = Authority::new("CA");
    site.authority.write(&site.servers_ca);
    let folder = site.folder.path().to_owned();
    site.server = site.authority.server(&folder, "server", &["localhost", "127.0.0.1"]);
    let old = [&site.ca, &site.client.certificate, &site.client.key].map(|file| fs::read(file).unwrap());
    let new_folder = tempfile::tempdir().unwrap();
    let new_ca = site.authority.write(&new_folder.path().join("ca.pem"));
    let new_client = site.authority.client(new_folder.path(), "client", "sink@test");
    fs::copy(&new_ca, &site.ca).unwrap();
    fs::copy(&new_client.certificate, &site.client.certificate).unwrap();
    fs::copy(&new_client.key, &site.client.key).unwrap();
    rig.server.stop().await;
    rig.server.restart().await;
    rig.client = Client::connect(&rig.server, site.options()).await;
    daemon.ready().await;
    carried(&rig).await;
    let way = way.secret(&new_client.secret());

    // The files of yesterday again: said, and mended without a restart of the daemon.
    for (file, content) in [&site.ca, &site.client.certificate, &site.client.key].into_iter().zip(old) {
        fs::write(file, content).unwrap();
    }
    rig.server.stop().await;
    rig.server.restart().await;
    way.says(&mut daemon, &["no CA of nats.tls.ca_file", "ca.pem"]).await;
    fs::copy(&new_ca, &site.ca).unwrap();
    way.says(&mut daemon, &["does it accept nats.tls.certificate_file", "client.pem"]).await;
    fs::copy(&new_client.certificate, &site.client.certificate).unwrap();
    fs::copy(&new_client.key, &site.client.key).unwrap();
    daemon.ready().await;
    restarted(&mut rig, &site).await;
    daemon.ready().await;
    carried(&rig).await;
    way.hidden("log", &daemon.log());
    daemon.stop().await;
}
