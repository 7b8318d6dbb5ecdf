//! Why no server was reached, and what helps: the client's own texts name neither keys nor files.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::Server;
use tracing::warn;

use crate::clock::{Clock as _, SystemClock};
use crate::nats::client::connect::Observer;
use crate::nats::client::sign_in;
use crate::nats::settings::{ConnectionSettings, SignIn};
use crate::secret::SecretSource;

/// What went wrong, as far as the client's text tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    SignIn,
    Secret,
    UnknownIssuer,
    ServerExpired,
    OtherName,
    ClientCertificate,
    NoTls,
    Silent,
    NoName,
    NobodyListens,
    NoStore,
}

/// Texts of the client, of its TLS library and of the operating system, in lower case. The first that is found counts.
const TEXTS: [(&str, Cause); 18] = [
    ("autherror", Cause::Secret),
    ("authorization violation", Cause::SignIn),
    ("authentication expired", Cause::SignIn),
    ("authentication revoked", Cause::SignIn),
    ("unknownissuer", Cause::UnknownIssuer),
    ("badsignature", Cause::UnknownIssuer),
    ("certificate expired", Cause::ServerExpired),
    ("not valid for name", Cause::OtherName),
    ("received fatal alert", Cause::ClientCertificate),
    ("connection reset", Cause::ClientCertificate),
    ("broken pipe", Cause::ClientCertificate),
    ("corrupt message", Cause::NoTls),
    ("got nothing", Cause::Silent),
    ("timed out", Cause::Silent),
    ("dns error", Cause::NoName),
    ("failed to lookup address", Cause::NoName),
    ("connection refused", Cause::NobodyListens),
    ("platform certs", Cause::NoStore),
];

/// The client's text, and what to do.
pub(super) fn explained(text: &str, settings: &ConnectionSettings) -> String {
    let lower = text.to_lowercase();
    match TEXTS.iter().find(|(part, _)| lower.contains(part)) {
        Some((_, cause)) => format!("{text}: {}", advice(*cause, settings)),
        None => text.to_owned(),
    }
}

fn advice(cause: Cause, settings: &ConnectionSettings) -> String {
    let tls = &settings.tls;
    match cause {
        Cause::SignIn => refused(settings),
        Cause::Secret => {
            format!("write it there ({}); it is read again at each attempt", key_of_sign_in(settings))
        }
        Cause::UnknownIssuer => match &tls.ca_file {
            Some(file) => format!(
                "no CA of nats.tls.ca_file ({}) has signed the server's certificate; write the CA that has into it",
                file.display()
            ),
            None => "no CA of this machine's store has signed the server's certificate; name the one that has by \
                     nats.tls.ca_file"
                .into(),
        },
        Cause::ServerExpired => "the server's certificate is over; give the server a new one".into(),
        Cause::OtherName => {
            "write a name or address in nats.servers that the server's certificate holds, or give the server a \
             certificate that holds this one"
                .into()
        }
        Cause::ClientCertificate => match &tls.client_certificate {
            Some((certificate, key)) => format!(
                "the server ends the connection; if it asks for client certificates, does it accept \
                 nats.tls.certificate_file ({}, key {})?",
                certificate.display(),
                key.display()
            ),
            None => "the server ends the connection; if it asks for client certificates, set \
                     nats.tls.certificate_file and nats.tls.key_file"
                .into(),
        },
        Cause::NoTls if tls.first => {
            "the server does not start with TLS: unset nats.tls.first, or set handshake_first at the server".into()
        }
        Cause::NoTls => "the server speaks no TLS: set it up there, or unset nats.tls.required and write nats:// for \
                         tls:// in nats.servers"
            .into(),
        Cause::Silent if tls.first => "the server says nothing".into(),
        Cause::Silent => {
            "the server says nothing; if it waits for TLS (handshake_first), set nats.tls.first = true".into()
        }
        Cause::NoName => "a host name in nats.servers cannot be resolved".into(),
        Cause::NobodyListens => "no server listens there; look at nats.servers".into(),
        Cause::NoStore => {
            "this machine's store of CA certificates cannot be read; name the server's CA by nats.tls.ca_file".into()
        }
    }
}

/// What the server refuses, and where it stands.
fn refused(settings: &ConnectionSettings) -> String {
    let (what, source) = match &settings.sign_in {
        SignIn::Anonymous if settings.tls.client_certificate.is_some() => {
            return "the server does not take the certificate of nats.tls.certificate_file for a user of its own, or asks \
                    for a sign-in beside it (nats.user, nats.token_file, nats.nkey_seed_file, nats.credentials_file)"
                .into();
        }
        SignIn::Anonymous => {
            return "the server asks for a sign-in and none is set: set nats.user and nats.password_file, \
                    nats.token_file, nats.nkey_seed_file or nats.credentials_file"
                .into();
        }
        SignIn::UserPassword { user, password } => (format!("user {user:?}, or the password"), password),
        SignIn::Token(token) => ("the token".into(), token),
        SignIn::Nkey(seed) => ("the nkey".into(), seed),
        SignIn::Credentials(text) => ("the JWT".into(), text),
    };
    let (place, key) = (place(settings, source), key_of_sign_in(settings));
    let again = renewal(source);
    let now = i128::from(SystemClock.now().0);
    match sign_in::expiry(&settings.sign_in).filter(|end| end.as_nanosecond() <= now) {
        Some(end) => {
            format!("the JWT in {place} ({key}) has expired at {end}: write new credentials there; {again}")
        }
        None => format!(
            "the server does not know {what} in {place} ({key}), or does not accept it any more; {again}"
        ),
    }
}

fn place(settings: &ConnectionSettings, source: &SecretSource) -> String {
    match (source, &settings.context) {
        (SecretSource::Inline(_), Some(_)) => "the context".into(),
        (
            SecretSource::File(_)
            | SecretSource::Environment(_)
            | SecretSource::Credential(_)
            | SecretSource::Inline(_),
            _,
        ) => source.place(),
    }
}

/// What makes a new secret count. Nobody changes the variables of a running process, and the configuration is read once.
const fn renewal(source: &SecretSource) -> &'static str {
    match source {
        SecretSource::File(_) | SecretSource::Credential(_) => "it is read again at each attempt",
        SecretSource::Environment(_) | SecretSource::Inline(_) => "then start jetsink anew",
    }
}

/// What the server denies, and the key that helps where it is one of ours.
fn denied(text: &str, settings: &ConnectionSettings) -> String {
    let prefix = settings.inbox_prefix.as_deref().unwrap_or("_INBOX");
    if text.contains(&format!("Subscription to \"{prefix}.")) {
        return format!(
            "{text}: replies come to {prefix}.>; let the user subscribe to it, or set nats.inbox_prefix to what it may \
             subscribe to"
        );
    }
    text.to_owned()
}

/// The key that the secret of the sign-in stands behind.
pub(super) fn key_of_sign_in(settings: &ConnectionSettings) -> String {
    let (source, key) = match &settings.sign_in {
        SignIn::Anonymous => return "nats".into(),
        SignIn::UserPassword { password, .. } => (password, "nats.password"),
        SignIn::Token(token) => (token, "nats.token"),
        SignIn::Nkey(seed) => (seed, "nats.nkey_seed"),
        SignIn::Credentials(text) => (text, "nats.credentials"),
    };
    match (&settings.context, source) {
        (Some(context), _) => format!("nats.context {context:?}"),
        (None, SecretSource::File(_)) => format!("{key}_file"),
        (None, SecretSource::Environment(_)) => format!("{key}_env"),
        (None, SecretSource::Credential(_)) => format!("{key}_credential"),
        (None, SecretSource::Inline(_)) => "nats.servers".into(),
    }
}

/// Tells the observer why the attempts of a round failed. The client's own events hold the kind of a fault alone, so this looks
/// at what the client keeps of each server, before the next round.
#[derive(Debug)]
pub(super) struct Rounds {
    settings: ConnectionSettings,
    observer: Arc<dyn Observer>,
    /// Rounds that have begun since the last connection.
    begun: AtomicU32,
    /// What was logged last, so that each fault is logged once.
    said: Mutex<String>,
}

/// Servers that are named with their faults; a cluster may have many.
const NAMED: usize = 4;

impl Rounds {
    pub(super) fn new(settings: ConnectionSettings, observer: Arc<dyn Observer>) -> Self {
        Self { settings, observer, begun: AtomicU32::new(0), said: Mutex::default() }
    }

    /// Whether this is the look for a namesake outside the domain, which nobody has to permit.
    pub(super) fn may_be_denied(&self, text: &str) -> bool {
        self.settings.domain.is_some() && text.contains("\"$JS.API.CONSUMER.INFO.")
    }

    /// What the server denies, and what helps.
    pub(super) fn denied(&self, text: &str) -> String {
        denied(text, &self.settings)
    }

    /// A connection was made.
    pub(super) fn ended(&self) {
        self.begun.store(0, Ordering::Release);
    }

    /// The client begins a round of attempts.
    pub(super) fn begins(&self, servers: &[Server]) {
        // What stands there before the first round is over is of an earlier time.
        if self.begun.fetch_add(1, Ordering::AcqRel) == 0 {
            self.said().clear();
            return;
        }
        let text = self.faults(servers);
        let mut said = self.said();
        if *said != text {
            warn!(detail = text, "no server accepts the connection; trying on");
            said.clone_from(&text);
        }
        drop(said);
        self.observer.unreachable(&text);
    }

    fn said(&self) -> MutexGuard<'_, String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self, servers: &[Server]) -> String {
        let faults: Vec<String> = servers
            .iter()
            .filter_map(|server| Some((server, server.last_error.as_ref()?)))
            .take(NAMED)
            .map(|(server, error)| format!("{server}: {}", explained(error, &self.settings)))
            .collect();
        // The client keeps no word of a name that it cannot resolve.
        if faults.is_empty() { advice(Cause::NoName, &self.settings) } else { faults.join("; ") }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::nats::settings::TlsSettings;
    use crate::secret::Secret;

    fn settings(sign_in: SignIn) -> ConnectionSettings {
        ConnectionSettings {
            servers: vec!["nats://a:4222".into()],
            name: "jetsink".into(),
            sign_in,
            context: None,
            tls: TlsSettings::default(),
            inbox_prefix: None,
            domain: None,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(1),
            ping_interval: Duration::from_secs(20),
        }
    }

    #[test]
    fn the_key_and_the_place_of_a_secret_are_named() {
        let inline = || SecretSource::Inline(Secret::new("CANARY".into()));
        let file = || SecretSource::File("/run/s".into());
        let cases = [
            (SignIn::Token(file()), None, ["nats.token_file", "/run/s", "read again"]),
            (
                SignIn::Nkey(SecretSource::Environment("SEED".into())),
                None,
                ["nats.nkey_seed_env", "SEED", "anew"],
            ),
            (
                SignIn::Credentials(SecretSource::Credential("c".into())),
                None,
                ["nats.credentials_credential", "the credential c", "read again"],
            ),
            (SignIn::Token(inline()), None, ["nats.servers", "the token", "anew"]),
            (SignIn::Token(inline()), Some("p"), ["nats.context \"p\"", "in the context", "anew"]),
            (SignIn::Nkey(file()), Some("p"), ["nats.context \"p\"", "/run/s", "read again"]),
        ];
        for (sign_in, context, words) in cases {
            let settings = ConnectionSettings { context: context.map(str::to_owned), ..settings(sign_in) };
            let text = explained("authorization violation: nats: authorization violation", &settings);
            assert!(words.iter().all(|word| text.contains(word)) && !text.contains("CANARY"), "{text}");
        }
    }

    #[test]
    fn what_nobody_can_explain_stays_as_it_is() {
        assert_eq!(explained("something else", &settings(SignIn::Anonymous)), "something else");
        let other = "Permissions Violation for Publish to \"$JS.ACK.S.C.1\"";
        assert_eq!(denied(other, &settings(SignIn::Anonymous)), other);
    }
}
