//! User and password, token, nkey: from every place that a secret may be read from.

use std::fs;

use async_nats::ConnectOptions;
use nkeys::KeyPair;

use super::Way;
use crate::harness::{Rig, RigPlan, Server, ServerPlan};

const PASSWORD: &str = "CANARY-PASSWORD";
const TOKEN: &str = "CANARY-TOKEN-CANARY";

/// A server that knows the tests and these users.
async fn rig(users: &str) -> Rig {
    let users = format!("authorization {{ users: [ {{ user: \"test\", password: \"test\" }}, {users} ] }}");
    RigPlan { login: Some(("test", "test")), ..RigPlan::patient() }.server(&users).start().await
}

/// One way for each place of a secret: a file, a variable, a credential.
fn ways(rig: &Rig, keys: [&'static str; 3], secret: &str) -> [Way; 3] {
    let file = rig.folder().join("secret");
    fs::write(&file, format!("{secret}\n")).unwrap();
    let way = || Way::default().secret(secret);
    [
        way().path(keys[0], &file),
        way().set(keys[1], "TEST_SECRET").environment("TEST_SECRET", secret),
        way().set(keys[2], "secret").environment("CREDENTIALS_DIRECTORY", rig.folder().to_str().unwrap()),
    ]
}

const PASSWORD_KEYS: [&str; 3] = ["nats.password_file", "nats.password_env", "nats.password_credential"];
const TOKEN_KEYS: [&str; 3] = ["nats.token_file", "nats.token_env", "nats.token_credential"];
const NKEY_KEYS: [&str; 3] = ["nats.nkey_seed_file", "nats.nkey_seed_env", "nats.nkey_seed_credential"];

#[tokio::test]
async fn a_password_is_read_from_a_file_a_variable_or_a_credential() {
    let rig = rig(&format!("{{ user: \"sink\", password: \"{PASSWORD}\" }}")).await;
    for way in ways(&rig, PASSWORD_KEYS, PASSWORD) {
        way.set("nats.user", "sink").carries(&rig).await;
    }
    for (key, way) in PASSWORD_KEYS.into_iter().zip(ways(&rig, PASSWORD_KEYS, "CANARY-OF-ANOTHER")) {
        let way = way.set("nats.user", "sink");
        let renewal = if key.ends_with("_env") { "start jetsink anew" } else { "read again" };
        way.is_refused(&rig.server.url(), &["\"sink\"", key, "does not know", renewal]).await;
    }
    Way::default().is_refused(&rig.server.url(), &["none is set", "nats.credentials_file"]).await;
}

#[tokio::test]
async fn a_password_in_the_url_is_taken_out_of_it() {
    let rig = rig(&format!("{{ user: \"sink\", password: \"{PASSWORD}\" }}")).await;
    let url = |password: &str| format!("nats://sink:{password}@127.0.0.1:{}", rig.server.port());
    let way = Way::default().secret(PASSWORD).set("nats.servers", vec![url(PASSWORD)]);
    way.carries(&rig).await;
    let way = Way::default().secret("CANARY-OF-ANOTHER");
    way.is_refused(&url("CANARY-OF-ANOTHER"), &["\"sink\"", "nats.servers", "does not know", "anew"]).await;
}

#[tokio::test]
async fn a_token_is_read_from_a_file_a_variable_or_a_credential() {
    let plan = RigPlan::patient().server(&format!("authorization {{ token: \"{TOKEN}\" }}"));
    let rig = plan.start_as(ConnectOptions::with_token(TOKEN.into())).await;
    for way in ways(&rig, TOKEN_KEYS, TOKEN) {
        way.carries(&rig).await;
    }
    for (key, way) in TOKEN_KEYS.into_iter().zip(ways(&rig, TOKEN_KEYS, "CANARY-OF-ANOTHER")) {
        way.is_refused(&rig.server.url(), &["the token", key, "does not know"]).await;
    }
}

#[tokio::test]
async fn an_nkey_seed_is_read_from_a_file_a_variable_or_a_credential() {
    let keys = KeyPair::new_user();
    let rig = rig(&format!("{{ nkey: {} }}", keys.public_key())).await;
    let seed = keys.seed().unwrap();
    for way in ways(&rig, NKEY_KEYS, &seed) {
        way.carries(&rig).await;
    }
    // Files of seeds may have comments.
    for way in ways(&rig, NKEY_KEYS, &format!("# of the sink\n{seed}")) {
        way.secret(&seed).carries(&rig).await;
    }
    let stranger = KeyPair::new_user().seed().unwrap();
    for (key, way) in NKEY_KEYS.into_iter().zip(ways(&rig, NKEY_KEYS, &stranger)) {
        way.is_refused(&rig.server.url(), &["the nkey", key, "does not know"]).await;
    }
}

#[tokio::test]
async fn a_secret_that_is_not_there_or_no_secret_ends_the_start() {
    let server = Server::start(&ServerPlan::default()).await;
    let url = server.url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("CANARY.nk");
    let missing = |key: &'static str| Way::default().path(key, &file);
    let words = |key| [key, "CANARY.nk", "No such file"];
    missing("nats.password_file")
        .set("nats.user", "x")
        .does_not_start(&url, &words("nats.password_file"))
        .await;
    missing("nats.token_file").does_not_start(&url, &words("nats.token_file")).await;
    missing("nats.nkey_seed_file").does_not_start(&url, &words("nats.nkey_seed_file")).await;
    missing("nats.credentials_file").does_not_start(&url, &words("nats.credentials_file")).await;
    let unset = Way::default().set("nats.token_env", "TEST_NOT_SET");
    unset.does_not_start(&url, &["nats.token_env", "TEST_NOT_SET", "is not set"]).await;
    let none = Way::default().set("nats.token_credential", "token");
    none.does_not_start(&url, &["nats.token_credential", "LoadCredential=token"]).await;

    fs::write(&file, "SECRET-CANARY").unwrap();
    let wrong = |key: &'static str| Way::default().path(key, &file).secret("SECRET-CANARY");
    wrong("nats.nkey_seed_file").does_not_start(&url, &["nats.nkey_seed_file", "no valid nkey seed"]).await;
    wrong("nats.credentials_file").does_not_start(&url, &["nats.credentials_file", "no NATS USER JWT"]).await;
}
