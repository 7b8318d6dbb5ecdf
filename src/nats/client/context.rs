//! Contexts of the `nats` command: how to reach and sign in, as its users have set it up already.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::nats::error::NatsError;
use crate::nats::settings::{ConnectionSettings, SignIn, TlsSettings};
use crate::secret::{Secret, SecretSource};

/// A context file. Every key is optional and an empty text means "not set"; unknown keys are for other tools.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    url: String,
    token: String,
    user: String,
    password: String,
    creds: String,
    nkey: String,
    cert: String,
    key: String,
    ca: String,
    nsc: String,
    jetstream_domain: String,
    inbox_prefix: String,
    tls_first: bool,
}

/// Reads the context `name` from the user's configuration and lays it under `settings`: what these set already wins.
///
/// # Errors
/// The name is no plain name; the file is missing or not a context; it asks for an external program (`nsc`).
pub fn apply_context(name: &str, settings: &mut ConnectionSettings) -> Result<(), NatsError> {
    let directory = directory()
        .ok_or_else(|| wrong(name, "neither XDG_CONFIG_HOME nor HOME is set, so contexts cannot be found"))?;
    apply_from(&directory, name, settings)
}

/// Sets the servers, separated by commas, and takes a sign-in out of them that stands before an `@`.
///
/// # Errors
/// The sign-in is not percent-encoded text.
pub fn apply_urls(urls: &str, settings: &mut ConnectionSettings) -> Result<(), NatsError> {
    let (servers, in_url) =
        servers(urls).map_err(|detail| NatsError::Settings(format!("server: {detail}")))?;
    settings.servers = servers;
    if let Some(sign_in) = in_url {
        settings.sign_in = sign_in;
    }
    Ok(())
}

fn directory() -> Option<PathBuf> {
    let set = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(base.join("nats").join("context"))
}

fn apply_from(directory: &Path, name: &str, settings: &mut ConnectionSettings) -> Result<(), NatsError> {
    if name.is_empty() || name.contains("..") || name.contains(['/', '\\']) {
        return Err(wrong(name, "the name of a context has no path in it"));
    }
    let path = directory.join(format!("{name}.json"));
    let bytes = std::fs::read(&path)
        .map_err(|error| wrong(name, &format!("{} cannot be read: {error}", path.display())))?;
    // serde's text would quote a value, which may be a secret.
    let context: Context = serde_json::from_slice(&bytes).map_err(|error| {
        wrong(
            name,
            &format!(
                "{} is not a context (line {}, column {})",
                path.display(),
                error.line(),
                error.column()
            ),
        )
    })?;
    if !context.nsc.is_empty() {
        return Err(wrong(name, "it names an nsc user, for which an external program would be run"));
    }
    let (servers, in_url) = servers(&context.url).map_err(|detail| wrong(name, detail))?;
    settings.servers = servers;
    settings.sign_in = sign_in(&context).or(in_url).unwrap_or(SignIn::Anonymous);
    settings.context = Some(name.to_owned());
    apply_tls(name, &context, &mut settings.tls)?;
    let set = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    settings.inbox_prefix = settings.inbox_prefix.take().or_else(|| set(&context.inbox_prefix));
    settings.domain = settings.domain.take().or_else(|| set(&context.jetstream_domain));
    Ok(())
}

fn apply_tls(name: &str, context: &Context, tls: &mut TlsSettings) -> Result<(), NatsError> {
    let file = |text: &String| Some(path_of(text)).filter(|_| !text.is_empty());
    tls.first |= context.tls_first;
    tls.ca_file = tls.ca_file.take().or_else(|| file(&context.ca));
    match (file(&context.cert), file(&context.key)) {
        (Some(certificate), Some(key)) => tls.client_certificate = Some((certificate, key)),
        (None, None) => {}
        (Some(_), None) | (None, Some(_)) => return Err(wrong(name, "of cert and key it has only one")),
    }
    Ok(())
}

fn wrong(name: &str, detail: &str) -> NatsError {
    NatsError::Settings(format!("nats.context {name:?}: {detail}"))
}

/// The servers without what stands before an `@`, and the first such sign-in: the client ignores it in a URL (design §11).
fn servers(urls: &str) -> Result<(Vec<String>, Option<SignIn>), &'static str> {
    let mut servers = Vec::new();
    let mut in_url = None;
    for url in urls.split(',').map(str::trim).filter(|url| !url.is_empty()) {
        let (scheme, rest) = url.split_once("://").map_or((None, url), |(scheme, rest)| (Some(scheme), rest));
        let (user_info, host) =
            rest.rsplit_once('@').map_or((None, rest), |(user_info, host)| (Some(user_info), host));
        servers.push(scheme.map_or_else(|| host.to_owned(), |scheme| format!("{scheme}://{host}")));
        if let Some(user_info) = user_info.filter(|user_info| !user_info.is_empty())
            && in_url.is_none()
        {
            in_url = Some(sign_in_of(user_info)?);
        }
    }
    if servers.is_empty() {
        servers.push("nats://127.0.0.1:4222".into());
    }
    Ok((servers, in_url))
}

/// `user:password` or `token`, percent-encoded.
fn sign_in_of(user_info: &str) -> Result<SignIn, &'static str> {
    let inline = |text| SecretSource::Inline(Secret::new(text));
    match user_info.split_once(':') {
        Some((user, password)) => {
            Ok(SignIn::UserPassword { user: decoded(user)?, password: inline(decoded(password)?) })
        }
        None => Ok(SignIn::Token(inline(decoded(user_info)?))),
    }
}

fn decoded(text: &str) -> Result<String, &'static str> {
    const WRONG: &str = "the user or password in its url is not percent-encoded text";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().ok_or(WRONG)?, rest.next().ok_or(WRONG)?];
            let digits = std::str::from_utf8(&digits).map_err(|_| WRONG)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| WRONG)?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| WRONG)
}

/// The `nats` command's order: user, creds, nkey, token.
fn sign_in(context: &Context) -> Option<SignIn> {
    let inline = |text: &String| SecretSource::Inline(Secret::new(text.clone()));
    if !context.user.is_empty() {
        Some(SignIn::UserPassword { user: context.user.clone(), password: inline(&context.password) })
    } else if !context.creds.is_empty() {
        Some(SignIn::Credentials(SecretSource::File(path_of(&context.creds))))
    } else if !context.nkey.is_empty() {
        Some(SignIn::Nkey(SecretSource::File(path_of(&context.nkey))))
    } else if !context.token.is_empty() {
        Some(SignIn::Token(inline(&context.token)))
    } else {
        None
    }
}

fn path_of(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        (Some(_) | None, _) => PathBuf::from(text),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn settings() -> ConnectionSettings {
        ConnectionSettings {
            servers: Vec::new(),
            name: "jetsink".into(),
            sign_in: SignIn::Anonymous,
            context: None,
            tls: TlsSettings::default(),
            inbox_prefix: None,
            domain: None,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(1),
            ping_interval: Duration::from_secs(20),
        }
    }

    fn apply(text: &str) -> Result<ConnectionSettings, String> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("one.json"), text).unwrap();
        let mut settings = settings();
        apply_from(directory.path(), "one", &mut settings).map_err(|error| error.to_string())?;
        Ok(settings)
    }

    fn inline(text: &str) -> SecretSource {
        SecretSource::Inline(Secret::new(text.into()))
    }

    #[test]
    fn the_kinds_of_sign_in_have_the_order_of_the_nats_command() {
        let all = r#""creds":"/c","nkey":"/n","token":"t""#;
        let user = apply(&format!(r#"{{"user":"u","password":"p",{all}}}"#)).unwrap().sign_in;
        assert_eq!(user, SignIn::UserPassword { user: "u".into(), password: inline("p") });
        let creds = apply(&format!(r#"{{"user":"",{all}}}"#)).unwrap().sign_in;
        assert_eq!(creds, SignIn::Credentials(SecretSource::File("/c".into())));
        let nkey = apply(r#"{"nkey":"/n","token":"t"}"#).unwrap().sign_in;
        assert_eq!(nkey, SignIn::Nkey(SecretSource::File("/n".into())));
        assert_eq!(apply(r#"{"token":"t"}"#).unwrap().sign_in, SignIn::Token(inline("t")));
    }

    #[test]
    fn servers_are_listed_and_lose_their_sign_in() {
        let settings = apply(r#"{"url":"nats://u:p%40@a:1, tls://b", "unknown": 1}"#).unwrap();
        assert_eq!(settings.servers, ["nats://a:1", "tls://b"]);
        assert_eq!(settings.sign_in, SignIn::UserPassword { user: "u".into(), password: inline("p@") });
        assert_eq!(apply("{}").unwrap().servers, ["nats://127.0.0.1:4222"]);
    }

    #[test]
    fn what_would_run_a_program_or_leave_the_directory_is_refused() {
        assert!(apply(r#"{"nsc":"nsc://o/a/u"}"#).unwrap_err().contains("external program"));
        for name in ["../one", "a/b", "", "..", "a\\b"] {
            let error = apply_from(Path::new("/nowhere"), name, &mut settings()).unwrap_err();
            assert!(error.to_string().contains("no path"), "{name}: {error}");
        }
    }

    #[test]
    fn nothing_of_a_broken_context_is_quoted() {
        for text in
            [r#"{"token": "CANARY", "user": 7}"#, r#"{"token": CANARY}"#, r#"{"url":"nats://CANARY%zz@a"}"#]
        {
            let error = apply(text).unwrap_err();
            assert!(!error.contains("CANARY"), "{error}");
        }
    }
}
