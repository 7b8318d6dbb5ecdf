//! `jetsink dlq` signs in as the daemon does.

use std::fs;

use async_nats::ConnectOptions;
use nkeys::KeyPair;

use super::tls::Site;
use super::{Account, Operator};
use crate::harness::{Client, Ran, RigPlan, Server, dlq};

const PASSWORD: &str = "CANARY-PASSWORD";

async fn listed(server: &Server, arguments: &[&str]) -> Ran {
    dlq(server, &[&["ls", "--stream", "DLQ"], arguments].concat()).await
}

/// It ends with an error that holds all of this, and no secret.
async fn refused(server: &Server, arguments: &[&str], words: &[&str], secret: &str) {
    let ran = listed(server, arguments).await;
    assert_ne!(ran.code, Some(0), "{}", ran.text());
    assert!(words.iter().all(|word| ran.err.contains(word)), "{words:?} in {}", ran.err);
    assert!(!ran.err.contains(secret) && !ran.text().contains(secret), "{}", ran.err);
}

async fn prepared(extra: &str, options: ConnectOptions) -> Server {
    let plan = RigPlan::patient().server(extra);
    let server = Server::start(&plan.server).await;
    plan.make(&Client::connect(&server, options).await).await;
    server
}

#[tokio::test]
async fn users_and_nkeys() {
    let keys = KeyPair::new_user();
    let users = format!(
        "authorization {{ users: [ {{ user: sink, password: \"{PASSWORD}\" }}, {{ nkey: {} }} ] }}",
        keys.public_key()
    );
    let options = ConnectOptions::with_user_and_password("sink".into(), PASSWORD.into());
    let server = prepared(&users, options).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let path = file.to_str().unwrap();
    fs::write(&file, PASSWORD).unwrap();
    listed(&server, &["--user", "sink", "--password-file", path]).await.fine();
    fs::write(&file, keys.seed().unwrap()).unwrap();
    listed(&server, &["--nkey", path]).await.fine();

    let stranger = KeyPair::new_user().seed().unwrap();
    fs::write(&file, &stranger).unwrap();
    refused(&server, &["--nkey", path], &["does not know", path], &stranger).await;
    refused(&server, &["--user", "sink", "--password-file", path], &["\"sink\"", path], &stranger).await;
}

#[tokio::test]
async fn credentials_over_tls() {
    let site = Site::new();
    let (operator, account) = (Operator::new(), Account::new("A"));
    let configuration = operator.configuration(&[&account]).replace("max_payload: 65536", "");
    let options = account.user("test", None).options().add_root_certificates(site.ca.clone());
    let server = prepared(&format!("{configuration}\n{}", site.server.block("")), options).await;
    let user = account.user("sink", None);
    let file = user.write(&site.folder.path().join("sink.creds"));
    let (ca, creds) = (site.ca.to_str().unwrap(), file.to_str().unwrap());
    listed(&server, &["--creds", creds, "--tls-ca", ca]).await.fine();
    refused(&server, &["--creds", creds], &["ca"], &user.secrets[0]).await;
    let stranger = Account::new("B").user("sink", None);
    stranger.write(&file);
    let words = ["the JWT", "does not know", creds];
    refused(&server, &["--creds", creds, "--tls-ca", ca], &words, &stranger.secrets[0]).await;
}
