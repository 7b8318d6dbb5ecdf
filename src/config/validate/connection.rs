//! `[nats]` → [`ConnectionSettings`].

use std::path::PathBuf;
use std::time::Duration;

use super::secrets::source;
use super::{Validator, names};
use crate::config::raw::{Nats, Tls};
use crate::config::server_url::{self, UserInfo};
use crate::nats::{ConnectionSettings, SignIn, TlsSettings};
use crate::secret::SecretSource;
use crate::subject::SubjectPattern;

pub(super) fn validate(raw: &Nats, validator: &mut Validator<'_>) -> (ConnectionSettings, Option<String>) {
    let (servers, user_info) = servers(raw, validator);
    let sign_in = sign_in(raw, user_info, validator);
    check_context(raw, validator);
    let shortest = Duration::from_millis(100);
    validator.at_least("nats.connect_timeout", raw.connect_timeout.0, shortest);
    validator.at_least("nats.request_timeout", raw.request_timeout.0, shortest);
    validator.at_least("nats.ping_interval", raw.ping_interval.0, Duration::from_secs(1));
    if let Some(prefix) = &raw.inbox_prefix {
        check_inbox_prefix(prefix, validator);
    }
    if let Some(fault) = raw.domain.as_deref().and_then(names::fault_of) {
        validator.refuse(&["nats.domain"], fault, "write the domain of the server's jetstream block");
    }
    warn_about_plain_servers(raw, &servers, validator);
    let settings = ConnectionSettings {
        servers,
        name: raw.name.clone(),
        sign_in,
        context: None,
        tls: tls(&raw.tls, validator),
        inbox_prefix: raw.inbox_prefix.clone(),
        domain: raw.domain.clone(),
        connect_timeout: raw.connect_timeout.0,
        request_timeout: raw.request_timeout.0,
        ping_interval: raw.ping_interval.0,
    };
    (settings, raw.context.clone())
}

/// Addresses, and the sign-in that stood in them.
fn servers(raw: &Nats, validator: &mut Validator<'_>) -> (Vec<String>, Option<UserInfo>) {
    if raw.servers.is_empty() && raw.context.is_none() {
        validator.missing("nats.servers", "write servers = [\"nats://host:4222\"], or name a context");
    }
    let mut addresses = Vec::new();
    let mut sign_in: Option<UserInfo> = None;
    for (index, text) in raw.servers.iter().enumerate() {
        let key = format!("nats.servers[{index}]");
        match server_url::parse(text) {
            Err(error) => {
                validator.refuse(&[&key], error.to_string(), "write it as \"nats://host:4222\"");
            }
            Ok(server) => {
                addresses.push(server.address);
                let differs = server.user_info.is_some() && sign_in.is_some() && server.user_info != sign_in;
                if differs {
                    validator.refuse(
                        &[&key],
                        "its user and password differ from those of a server before it",
                        "use one sign-in for all servers: nats.user and nats.password_file",
                    );
                }
                sign_in = sign_in.or(server.user_info);
            }
        }
    }
    if sign_in.is_some() {
        validator.warn(
            "nats.servers holds a secret in the clear; nats.password_file or nats.token_file keeps it apart",
        );
    }
    (addresses, sign_in)
}

/// One of the ways to sign in, and the key that asks for it.
struct Way {
    key: &'static str,
    sign_in: SignIn,
}

fn sign_in(raw: &Nats, user_info: Option<UserInfo>, validator: &mut Validator<'_>) -> SignIn {
    let password = source(
        "password",
        [
            ("nats.password_file", &raw.password_file),
            ("nats.password_env", &raw.password_env),
            ("nats.password_credential", &raw.password_credential),
        ],
        validator,
    );
    let token = source(
        "token",
        [
            ("nats.token_file", &raw.token_file),
            ("nats.token_env", &raw.token_env),
            ("nats.token_credential", &raw.token_credential),
        ],
        validator,
    );
    let seed = source(
        "nkey seed",
        [
            ("nats.nkey_seed_file", &raw.nkey_seed_file),
            ("nats.nkey_seed_env", &raw.nkey_seed_env),
            ("nats.nkey_seed_credential", &raw.nkey_seed_credential),
        ],
        validator,
    );
    let credentials = source(
        "credentials",
        [
            ("nats.credentials_file", &raw.credentials_file),
            ("nats.credentials_env", &raw.credentials_env),
            ("nats.credentials_credential", &raw.credentials_credential),
        ],
        validator,
    );
    let mut ways: Vec<Way> = Vec::new();
    ways.extend(user_info.map(|info| Way { key: "nats.servers", sign_in: of_url(info) }));
    ways.extend(user_password(raw, password, validator));
    ways.extend(token.map(|(key, source)| Way { key, sign_in: SignIn::Token(source) }));
    ways.extend(seed.map(|(key, source)| Way { key, sign_in: SignIn::Nkey(source) }));
    ways.extend(credentials.map(|(key, source)| Way { key, sign_in: SignIn::Credentials(source) }));
    only_way(ways, validator)
}

fn only_way(ways: Vec<Way>, validator: &mut Validator<'_>) -> SignIn {
    if ways.len() > 1 {
        let keys: Vec<&str> = ways.iter().map(|way| way.key).collect();
        validator.refuse(
            &keys,
            format!("more than one way to sign in: {}", keys.join(", ")),
            "keep one of user and password, token, nkey seed, credentials",
        );
    }
    ways.into_iter().next().map_or(SignIn::Anonymous, |way| way.sign_in)
}

fn of_url(info: UserInfo) -> SignIn {
    match info {
        UserInfo::Token(token) => SignIn::Token(SecretSource::Inline(token)),
        UserInfo::UserPassword(user, password) => {
            SignIn::UserPassword { user, password: SecretSource::Inline(password) }
        }
    }
}

fn user_password(
    raw: &Nats,
    password: Option<(&'static str, SecretSource)>,
    validator: &mut Validator<'_>,
) -> Option<Way> {
    match (&raw.user, password) {
        (None, None) => None,
        (Some(user), Some((_, password))) => {
            Some(Way { key: "nats.user", sign_in: SignIn::UserPassword { user: user.clone(), password } })
        }
        (Some(_), None) => {
            let password = ["nats.password_file", "nats.password_env", "nats.password_credential"];
            let wrong_already = password.iter().any(|key| validator.findings.is_bad(key));
            if !wrong_already {
                validator.refuse(
                    &["nats.user"],
                    "a user without a password",
                    "add nats.password_file, nats.password_env or nats.password_credential",
                );
            }
            None
        }
        (None, Some((key, _))) => {
            validator.refuse(&[key, "nats.user"], "a password without a user", "add nats.user");
            None
        }
    }
}

/// A context brings servers, sign-in and TLS files: the same from here as well would leave open which one counts.
fn check_context(raw: &Nats, validator: &mut Validator<'_>) {
    const ALSO_FROM_CONTEXT: [&str; 17] = [
        "nats.servers",
        "nats.user",
        "nats.password_file",
        "nats.password_env",
        "nats.password_credential",
        "nats.token_file",
        "nats.token_env",
        "nats.token_credential",
        "nats.nkey_seed_file",
        "nats.nkey_seed_env",
        "nats.nkey_seed_credential",
        "nats.credentials_file",
        "nats.credentials_env",
        "nats.credentials_credential",
        "nats.tls.ca_file",
        "nats.tls.certificate_file",
        "nats.tls.key_file",
    ];
    let Some(name) = &raw.context else { return };
    if name.contains(['/', '\\']) || name.contains("..") {
        validator.refuse(
            &["nats.context"],
            "is not the name of a context",
            "write a name that `nats context ls` shows",
        );
    }
    let both: Vec<&str> = ALSO_FROM_CONTEXT.into_iter().filter(|key| validator.is_written(key)).collect();
    if !both.is_empty() {
        validator.refuse(
            &["nats.context"],
            format!("the context gives this already: {}", both.join(", ")),
            "remove these keys, or remove nats.context",
        );
    }
}

fn check_inbox_prefix(prefix: &str, validator: &mut Validator<'_>) {
    let fault = match SubjectPattern::parse(prefix) {
        Err(error) => Some(error.to_string()),
        Ok(pattern) if !pattern.is_literal() => Some("it holds a wildcard".into()),
        Ok(_) => None,
    };
    if let Some(fault) = fault {
        validator.refuse(
            &["nats.inbox_prefix"],
            format!("is not a subject: {fault}"),
            "write a subject such as \"_INBOX_jetsink\", without a dot at the end",
        );
    }
}

/// Whoever names certificates means TLS; whoever sits between could leave it out of the server's first line.
fn warn_about_plain_servers(raw: &Nats, servers: &[String], validator: &mut Validator<'_>) {
    let tls = &raw.tls;
    let means_tls = tls.ca_file.is_some() || tls.certificate_file.is_some();
    let is_plain = |server: &String| !server.starts_with("tls://");
    if means_tls && !tls.required && !tls.first && servers.iter().any(is_plain) {
        validator.warn(
            "nats.tls names certificates, yet a server that offers no TLS is accepted as well; set nats.tls.required = true, \
             or write every server as tls://",
        );
    }
}

fn tls(raw: &Tls, validator: &mut Validator<'_>) -> TlsSettings {
    let client_certificate = match (&raw.certificate_file, &raw.key_file) {
        (Some(certificate), Some(key)) => Some((PathBuf::from(certificate), PathBuf::from(key))),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            validator.refuse(
                &["nats.tls.certificate_file", "nats.tls.key_file"],
                "certificate and key go together, and one of them is missing",
                "set both nats.tls.certificate_file and nats.tls.key_file",
            );
            None
        }
    };
    TlsSettings {
        required: raw.required,
        first: raw.first,
        ca_file: raw.ca_file.clone().map(PathBuf::from),
        client_certificate,
    }
}
