//! Secrets that change under a running daemon: their files are read at each attempt to connect.

use std::fs;
use std::path::PathBuf;

use async_nats::ConnectOptions;
use nkeys::KeyPair;

use super::way::{TOLD, carried};
use super::{Account, Operator, Way};
use crate::harness::{Client, Rig, RigPlan};

/// A rig whose server has been told of another secret, and what the daemon reads.
struct Change {
    rig: Rig,
    file: PathBuf,
    way: Way,
    /// The server's configuration from now on, and how the tests reach it then.
    configuration: String,
    options: ConnectOptions,
    new_secret: String,
    /// How the daemon names the old secret.
    words: &'static [&'static str],
}

impl Change {
    /// The server changes first and the file later; the daemon says what is wrong between the two. Then the file is gone for a
    /// while.
    async fn run(mut self) {
        let mut daemon = self.way.start(&self.rig);
        daemon.ready().await;
        carried(&self.rig).await;

        self.rig.server.configure(&self.configuration);
        self.rig.server.stop().await;
        self.rig.server.restart().await;
        self.rig.client = Client::connect(&self.rig.server, self.options).await;
        self.way.says(&mut daemon, self.words).await;
        fs::remove_file(&self.file).unwrap();
        let name = self.file.to_str().unwrap();
        self.way.says(&mut daemon, &[name, "No such file", "_file); it is read again"]).await;
        fs::write(&self.file, &self.new_secret).unwrap();
        daemon.ready().await;
        carried(&self.rig).await;
        self.way.hidden("log", &daemon.log());
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_new_password() {
    let configuration = |password: &str| {
        format!(
            "max_payload: 65536\nauthorization {{ users: [ {{ user: test, password: test }}, \
             {{ user: sink, password: \"{password}\" }} ] }}"
        )
    };
    let rig = RigPlan { login: Some(("test", "test")), ..RigPlan::patient() };
    let rig = rig.server(&configuration("CANARY-OLD").replace("max_payload: 65536", "")).start().await;
    let file = rig.folder().join("password");
    fs::write(&file, "CANARY-OLD").unwrap();
    let way = Way::default().set("nats.user", "sink").path("nats.password_file", &file);
    let change = Change {
        rig,
        way: way.secret("CANARY-OLD").secret("CANARY-NEW"),
        file,
        configuration: configuration("CANARY-NEW"),
        options: ConnectOptions::with_user_and_password("test".into(), "test".into()),
        new_secret: "CANARY-NEW".into(),
        words: &["\"sink\"", "nats.password_file", "does not accept it any more"],
    };
    change.run().await;
}

#[tokio::test]
async fn a_new_token() {
    let configuration = |token: &str| format!("authorization {{ token: \"{token}\" }}");
    let options = ConnectOptions::with_token("CANARY-OLD".into());
    let rig = RigPlan::patient().server(&configuration("CANARY-OLD")).start_as(options).await;
    let file = rig.folder().join("token");
    fs::write(&file, "CANARY-OLD").unwrap();
    let change = Change {
        rig,
        way: Way::default().path("nats.token_file", &file).secret("CANARY-OLD").secret("CANARY-NEW"),
        file,
        configuration: configuration("CANARY-NEW"),
        options: ConnectOptions::with_token("CANARY-NEW".into()),
        new_secret: "CANARY-NEW".into(),
        words: &["the token", "nats.token_file"],
    };
    change.run().await;
}

#[tokio::test]
async fn a_new_nkey() {
    let (old, new) = (KeyPair::new_user(), KeyPair::new_user());
    let (old_seed, new_seed) = (old.seed().unwrap(), new.seed().unwrap());
    let configuration =
        |keys: &KeyPair| format!("authorization {{ users: [ {{ nkey: {} }} ] }}", keys.public_key());
    let options = ConnectOptions::with_nkey(old_seed.clone());
    let rig = RigPlan::patient().server(&configuration(&old)).start_as(options).await;
    let file = rig.folder().join("seed");
    fs::write(&file, &old_seed).unwrap();
    let change = Change {
        rig,
        way: Way::default().path("nats.nkey_seed_file", &file).secret(&old_seed).secret(&new_seed),
        file,
        configuration: configuration(&new),
        options: ConnectOptions::with_nkey(new_seed.clone()),
        new_secret: new_seed,
        words: &["the nkey", "nats.nkey_seed_file"],
    };
    change.run().await;
}

#[tokio::test]
async fn new_credentials() {
    let (operator, mut account) = (Operator::new(), Account::new("A"));
    let configuration = operator.configuration(&[&account]).replace("max_payload: 65536", "");
    let options = account.user("test", None).options();
    let rig = RigPlan::patient().server(&configuration).start_as(options).await;
    let (old, new) = (account.user("sink", None), account.user("sink", None));
    let file = old.write(&rig.folder().join("sink.creds"));
    account.revoke(&old);
    let secrets = [&old.secrets[..], &new.secrets[..]].concat();
    let way = Way::default().path("nats.credentials_file", &file);
    let change = Change {
        way: secrets.iter().fold(way, |way, secret| way.secret(secret)),
        rig,
        file,
        configuration: operator.configuration(&[&account]),
        options: account.user("test", None).options(),
        new_secret: new.credentials,
        words: &["the JWT", "nats.credentials_file"],
    };
    change.run().await;
}

#[tokio::test]
async fn a_server_that_only_reads_its_file_anew() {
    let configuration = |password: &str| {
        format!(
            "max_payload: 65536\nauthorization {{ users: [ {{ user: test, password: test }}, \
             {{ user: sink, password: \"{password}\" }} ] }}"
        )
    };
    let rig = RigPlan { login: Some(("test", "test")), ..RigPlan::patient() };
    let rig = rig.server(&configuration("CANARY-OLD").replace("max_payload: 65536", "")).start().await;
    let file = rig.folder().join("password");
    fs::write(&file, "CANARY-OLD").unwrap();
    let way = Way::default().set("nats.user", "sink").path("nats.password_file", &file).secret("CANARY-OLD");
    let mut daemon = way.start(&rig);
    daemon.ready().await;
    carried(&rig).await;
    rig.server.configure(&configuration("CANARY-NEW"));
    rig.server.reload();
    daemon.not_ready_because("disconnected", TOLD).await;
    way.says(&mut daemon, &["\"sink\"", "nats.password_file"]).await;
    fs::write(&file, "CANARY-NEW").unwrap();
    daemon.ready().await;
    carried(&rig).await;
    daemon.stop().await;
}
