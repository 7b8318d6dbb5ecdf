//! Credentials: a JWT that an account has signed, and the seed that proves whose it is.

use std::time::Duration;

use super::jwts::now;
use super::tls::Site as TlsSite;
use super::way::{TOLD, carried};
use super::{Account, Operator, User, Way};
use crate::harness::{Rig, RigPlan, ServerKind};

const SOON: Duration = Duration::from_secs(30);

/// A server in operator mode with one account.
struct Site {
    operator: Operator,
    account: Account,
    rig: Rig,
}

impl Site {
    async fn start() -> Self {
        let (operator, account) = (Operator::new(), Account::new("A"));
        let plan =
            RigPlan::patient().server(&operator.configuration(&[&account]).replace("max_payload: 65536", ""));
        let rig = plan.start_as(account.user("test", None).options()).await;
        Self { operator, account, rig }
    }

    /// The server learns what has become of the account.
    fn reload(&self) {
        self.rig.server.configure(&self.operator.configuration(&[&self.account]));
        self.rig.server.reload();
    }

    fn way(&self, user: &User) -> Way {
        let file = user.write(&self.rig.folder().join("sink.creds"));
        with_secrets(Way::default(), user).path("nats.credentials_file", &file)
    }
}

fn with_secrets(way: Way, user: &User) -> Way {
    user.secrets.iter().fold(way, |way, secret| way.secret(secret))
}

#[tokio::test]
async fn credentials_are_read_from_a_file_a_variable_or_a_credential() {
    let site = Site::start().await;
    let user = site.account.user("sink", None);
    let in_folder = |way: Way| {
        let way = way.environment("CREDENTIALS_DIRECTORY", site.rig.folder().to_str().unwrap());
        way.set("nats.credentials_credential", "sink.creds")
    };
    let in_variable = |way: Way, user: &User| {
        way.environment("TEST_CREDENTIALS", &user.credentials).set("nats.credentials_env", "TEST_CREDENTIALS")
    };
    site.way(&user).carries(&site.rig).await;
    in_folder(with_secrets(Way::default(), &user)).carries(&site.rig).await;
    in_variable(with_secrets(Way::default(), &user), &user).carries(&site.rig).await;

    // An account that the server does not know has signed these.
    let stranger = Account::new("B").user("sink", None);
    let url = site.rig.server.url();
    let words = ["the JWT", "does not know"];
    let way = site.way(&stranger);
    way.is_refused(&url, &[&words[..], &["nats.credentials_file", "sink.creds"]].concat()).await;
    let way = in_folder(with_secrets(Way::default(), &stranger));
    way.is_refused(&url, &[&words[..], &["nats.credentials_credential"]].concat()).await;
    let way = in_variable(with_secrets(Way::default(), &stranger), &stranger);
    way.is_refused(&url, &[&words[..], &["nats.credentials_env"]].concat()).await;
}

#[tokio::test]
async fn credentials_that_are_over_are_named_so() {
    let site = Site::start().await;
    let way = site.way(&site.account.user("sink", Some(now() - 60)));
    way.is_refused(&site.rig.server.url(), &["has expired at 20", "sink.creds", "nats.credentials_file"])
        .await;
}

#[tokio::test]
async fn a_jwt_that_expires_under_way_is_said_and_a_new_one_is_taken() {
    let site = Site::start().await;
    let way = site.way(&site.account.user("sink", Some(now() + 4)));
    let mut daemon = way.start(&site.rig);
    daemon.ready().await;
    carried(&site.rig).await;
    daemon.not_ready_because("disconnected", SOON).await;
    way.says(&mut daemon, &["has expired at 20", "sink.creds", "nats.credentials_file"]).await;
    assert!(daemon.log().to_lowercase().contains("authentication expired"), "{}", daemon.log());

    let way = site.way(&site.account.user("sink", None));
    daemon.ready().await;
    carried(&site.rig).await;
    way.hidden("log", &daemon.log());
    daemon.stop().await;
}

#[tokio::test]
async fn a_user_that_is_revoked_under_way_is_said_and_a_new_one_is_taken() {
    let mut site = Site::start().await;
    let user = site.account.user("sink", None);
    let way = site.way(&user);
    let mut daemon = way.start(&site.rig);
    daemon.ready().await;
    carried(&site.rig).await;

    site.account.revoke(&user);
    site.reload();
    daemon.not_ready_because("disconnected", TOLD).await;
    way.says(&mut daemon, &["the JWT", "sink.creds", "does not accept it any more", "nats.credentials_file"])
        .await;

    let way = site.way(&site.account.user("sink", None));
    daemon.ready().await;
    carried(&site.rig).await;
    way.hidden("log", &daemon.log());
    daemon.stop().await;
}

#[tokio::test]
async fn an_old_server_with_an_operator_and_mutual_tls() {
    let site = TlsSite::new();
    let (operator, account) = (Operator::new(), Account::new("A"));
    let mut plan = RigPlan::patient();
    plan.server.kind = ServerKind::Old;
    plan.server.extra =
        format!("{}\n{}", operator.configuration(&[&account]), site.server.block(&site.asking()));
    let options = account.user("test", None).options();
    let options = options
        .add_root_certificates(site.ca.clone())
        .add_client_certificate(site.client.certificate.clone(), site.client.key.clone());
    let rig = plan.start_as(options).await;
    let user = account.user("sink", None);
    let file = user.write(&rig.folder().join("sink.creds"));
    let way = with_secrets(site.way_with_certificate(), &user).path("nats.credentials_file", &file);
    way.carries(&rig).await;
    let way = with_secrets(site.way(), &user).path("nats.credentials_file", &file);
    way.is_refused(&rig.server.url(), &["client certificates", "nats.tls.certificate_file"]).await;
}
