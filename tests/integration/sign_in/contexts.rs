//! A context of the nats command brings servers, sign-in and TLS files.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use async_nats::ConnectOptions;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio::process::Command;

use super::tls::Site;
use super::{Account, Authority, Operator, Way};
use crate::harness::{Rig, RigPlan};
use crate::nats_command::folder_of_nats;

const TOKEN: &str = "CANARY-TOKEN-CANARY";
const PASSWORD: &str = "CANARY-PASSWORD";

/// The daemon uses this context, which lies where the nats command keeps it.
fn way(folder: &Path, context: &Value) -> Way {
    let contexts = folder.join("nats").join("context");
    fs::create_dir_all(&contexts).unwrap();
    fs::write(contexts.join("production.json"), context.to_string()).unwrap();
    Way::default().set("nats.context", "production").environment("XDG_CONFIG_HOME", folder.to_str().unwrap())
}

async fn rig(authorization: &str, options: ConnectOptions) -> Rig {
    RigPlan::patient().server(authorization).start_as(options).await
}

#[tokio::test]
async fn users_and_tokens_stand_in_a_context() {
    let users = format!("authorization {{ user: sink, password: \"{PASSWORD}\" }}");
    let options = ConnectOptions::with_user_and_password("sink".into(), PASSWORD.into());
    let with_user = rig(&users, options).await;
    let context =
        json!({ "url": with_user.server.url(), "user": "sink", "password": PASSWORD, "color_scheme": "" });
    way(with_user.folder(), &context).secret(PASSWORD).carries(&with_user).await;
    let context = json!({ "url": with_user.server.url(), "user": "sink", "password": "CANARY-OF-ANOTHER" });
    let wrong = way(with_user.folder(), &context).secret("CANARY-OF-ANOTHER");
    wrong.is_refused("", &["\"sink\"", "nats.context \"production\"", "does not know"]).await;

    let token = format!("authorization {{ token: \"{TOKEN}\" }}");
    let with_token = rig(&token, ConnectOptions::with_token(TOKEN.into())).await;
    let context = json!({ "url": with_token.server.url(), "token": TOKEN });
    way(with_token.folder(), &context).secret(TOKEN).carries(&with_token).await;
    let context = json!({ "url": with_token.server.url(), "token": "CANARY-OF-ANOTHER" });
    let wrong = way(with_token.folder(), &context).secret("CANARY-OF-ANOTHER");
    wrong.is_refused("", &["the token", "nats.context \"production\"", "does not know"]).await;
}

#[tokio::test]
async fn a_context_names_the_file_of_an_nkey_seed() {
    let keys = KeyPair::new_user();
    let seed = keys.seed().unwrap();
    let users = format!("authorization {{ users: [ {{ nkey: {} }} ] }}", keys.public_key());
    let rig = rig(&users, ConnectOptions::with_nkey(seed.clone())).await;
    let file = rig.folder().join("sink.nk");
    let context = json!({ "url": rig.server.url(), "nkey": file.to_str().unwrap() });
    fs::write(&file, &seed).unwrap();
    way(rig.folder(), &context).secret(&seed).carries(&rig).await;
    let stranger = KeyPair::new_user().seed().unwrap();
    fs::write(&file, &stranger).unwrap();
    let wrong = way(rig.folder(), &context).secret(&stranger);
    wrong.is_refused("", &["the nkey", "sink.nk", "nats.context \"production\""]).await;
    fs::remove_file(&file).unwrap();
    wrong.does_not_start("", &["nats.context \"production\"", "sink.nk", "No such file"]).await;
}

#[tokio::test]
async fn a_context_names_a_credentials_file_in_the_home_folder() {
    let (operator, account) = (Operator::new(), Account::new("A"));
    let configuration = operator.configuration(&[&account]).replace("max_payload: 65536", "");
    let rig = rig(&configuration, account.user("test", None).options()).await;
    let context = json!({ "url": rig.server.url(), "creds": "~/sink.creds" });
    let user = account.user("sink", None);
    let way = way(rig.folder(), &context).environment("HOME", rig.folder().to_str().unwrap());
    user.write(&rig.folder().join("sink.creds"));
    way.clone().secret(&user.secrets[0]).secret(&user.secrets[1]).carries(&rig).await;
    let stranger = Account::new("B").user("sink", None);
    stranger.write(&rig.folder().join("sink.creds"));
    let words = ["the JWT", "sink.creds", "nats.context \"production\"", "does not know"];
    way.secret(&stranger.secrets[0]).secret(&stranger.secrets[1]).is_refused("", &words).await;
}

#[tokio::test]
async fn a_context_brings_tls_files() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("CA");
    let ca = authority.write(&folder.path().join("ca.pem"));
    let pair = authority.server(folder.path(), "server", &["127.0.0.1"]);
    let client = authority.client(folder.path(), "client", "sink@test");
    let block = pair.block(&format!("ca_file: \"{}\", verify: true, handshake_first: true", ca.display()));
    let options = ConnectOptions::new()
        .add_root_certificates(ca.clone())
        .add_client_certificate(client.certificate.clone(), client.key.clone())
        .tls_first();
    let rig = rig(&block, options).await;
    let mut context = json!({ "url": rig.server.url(), "ca": ca.to_str().unwrap(), "tls_first": true,
                              "cert": client.certificate.to_str().unwrap(), "key": client.key.to_str().unwrap() });
    way(rig.folder(), &context).secret(&client.secret()).carries(&rig).await;
    context["key"] = "".into();
    let half = way(rig.folder(), &context);
    half.does_not_start("", &["nats.context \"production\"", "only one"]).await;
}

#[tokio::test]
async fn a_context_that_is_not_there_is_named_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let way = way(folder.path(), &json!({})).set("nats.context", "other");
    way.does_not_start("", &["nats.context \"other\"", "nats/context/other.json", "cannot be read"]).await;
}

/// The command of docs/connecting.md, as it stands there but for the server and the files.
#[tokio::test]
async fn a_context_that_the_nats_command_has_made() {
    let Some(nats) = folder_of_nats() else {
        println!("skipped: the nats command is not installed (tests/tools.sh brings it)");
        return;
    };
    let site = Site::new();
    let (operator, account) = (Operator::new(), Account::new("A"));
    let configuration = operator.configuration(&[&account]).replace("max_payload: 65536", "");
    let configuration = format!("{configuration}\n{}", site.server.block(""));
    let options = account.user("test", None).options().add_root_certificates(site.ca.clone());
    let rig = rig(&configuration, options).await;
    let user = account.user("sink", None);
    let file = user.write(&rig.folder().join("sink.creds"));

    let page = include_str!("../../../docs/connecting.md");
    let line = page.lines().find(|line| line.starts_with("nats context add production")).unwrap();
    let own = [
        ("nats.example:4222", format!("localhost:{}", rig.server.port())),
        ("/etc/jetsink/sink.creds", file.display().to_string()),
        ("/etc/jetsink/ca.pem", site.ca.display().to_string()),
    ];
    let line = own.iter().fold(line.to_owned(), |line, (text, own)| {
        assert!(line.contains(text), "{text} in {line}");
        line.replace(text, own)
    });
    let mut words = line.split(' ');
    let made = Command::new(nats.join(words.next().unwrap()))
        .args(words)
        .env("XDG_CONFIG_HOME", rig.folder())
        .env_remove("NATS_CONTEXT")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(made.status.success(), "{line}: {}", String::from_utf8_lossy(&made.stderr));
    let way = Way::default()
        .set("nats.context", "production")
        .environment("XDG_CONFIG_HOME", rig.folder().to_str().unwrap());
    way.secret(&user.secrets[0]).secret(&user.secrets[1]).carries(&rig).await;
}
