//! Operators, accounts and users with JWTs, as servers in operator mode know them.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jetsink::clock::{Clock as _, SystemClock};
use nkeys::KeyPair;
use serde_json::{Value, json};

/// One that signs accounts.
pub(super) struct Operator {
    keys: KeyPair,
    jwt: String,
    /// The account that servers of operators need for themselves.
    system: Account,
}

/// An account that signs users; with JetStream, without limits.
pub(super) struct Account {
    keys: KeyPair,
    name: &'static str,
    /// Users whose JWTs count no longer.
    revoked: Vec<String>,
}

/// The credentials of a user.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) public_key: String,
    pub(super) credentials: String,
    /// The seed, and the signature of the JWT: what must never be shown.
    pub(super) secrets: [String; 2],
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    u64::try_from(SystemClock.now().0 / 1_000_000_000).unwrap()
}

fn jwt(issuer: &KeyPair, subject: &str, name: &str, expires: Option<u64>, facts: &Value) -> String {
    let mut claims = json!({ "jti": format!("{name}-{}", now()), "iat": now() - 1, "iss": issuer.public_key(),
                             "name": name, "sub": subject, "nats": facts });
    if let Some(expires) = expires {
        claims["exp"] = expires.into();
    }
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), part(&claims));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(text.as_bytes()).unwrap());
    format!("{text}.{signature}")
}

impl Operator {
    pub(super) fn new() -> Self {
        let keys = KeyPair::new_operator();
        let facts = json!({ "type": "operator", "version": 2 });
        let jwt = jwt(&keys, &keys.public_key(), "O", None, &facts);
        Self { keys, jwt, system: Account::new("SYS") }
    }

    /// The server's configuration for these accounts.
    pub(super) fn configuration(&self, accounts: &[&Account]) -> String {
        let all = accounts.iter().copied().chain([&self.system]);
        let preload =
            all.map(|account| format!("{}: \"{}\"\n", account.keys.public_key(), account.jwt(self)));
        let preload = preload.collect::<String>();
        let system = self.system.keys.public_key();
        format!(
            "max_payload: 65536\noperator: \"{}\"\nsystem_account: {system}\nresolver: MEMORY\n\
             resolver_preload: {{\n{preload}}}",
            self.jwt
        )
    }
}

impl Account {
    pub(super) fn new(name: &'static str) -> Self {
        Self { keys: KeyPair::new_account(), name, revoked: Vec::new() }
    }

    fn jwt(&self, operator: &Operator) -> String {
        let revocations = self.revoked.iter().map(|user| (user.clone(), now().into()));
        let mut limits = json!({ "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
                                 "wildcards": true, "conn": -1, "leaf": -1 });
        // The system account has no JetStream.
        if self.name != "SYS" {
            for limit in ["mem_storage", "disk_storage", "streams", "consumer"] {
                limits[limit] = (-1).into();
            }
        }
        let facts = json!({
            "type": "account", "version": 2,
            "limits": limits,
            "revocations": revocations.collect::<serde_json::Map<_, _>>(),
        });
        jwt(&operator.keys, &self.keys.public_key(), self.name, None, &facts)
    }

    /// What this user has been given until now counts no longer, once the server knows the account anew.
    pub(super) fn revoke(&mut self, user: &User) {
        self.revoked.push(user.public_key.clone());
    }

    /// A new user, whose JWT ends at this second, or never.
    pub(super) fn user(&self, name: &str, expires: Option<u64>) -> User {
        let keys = KeyPair::new_user();
        let facts = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {} });
        let jwt = jwt(&self.keys, &keys.public_key(), name, expires, &facts);
        let seed = keys.seed().unwrap();
        let signature = jwt.rsplit_once('.').unwrap().1.to_owned();
        let credentials = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             ************************* IMPORTANT *************************\n\
             NKEY Seed printed below can be used to sign and prove identity.\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        User { public_key: keys.public_key(), credentials, secrets: [seed, signature] }
    }
}

impl User {
    /// Writes the credentials.
    pub(super) fn write(&self, file: &Path) -> PathBuf {
        std::fs::write(file, &self.credentials).unwrap();
        file.to_owned()
    }

    /// Options of the tests' own client.
    pub(super) fn options(&self) -> async_nats::ConnectOptions {
        async_nats::ConnectOptions::with_credentials(&self.credentials).unwrap()
    }
}
