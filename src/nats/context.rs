//! Contexts of the `nats` command: how to reach and sign in, as its users have set it up already.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::NatsError;
use super::settings::{ConnectionSettings, SignIn};
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
    settings.servers = servers(&context.url);
    settings.sign_in = sign_in(&context);
    settings.tls.first |= context.tls_first;
    if !context.ca.is_empty() {
        settings.tls.ca_file = Some(path_of(&context.ca));
    }
    if !context.cert.is_empty() && !context.key.is_empty() {
        settings.tls.client_certificate = Some((path_of(&context.cert), path_of(&context.key)));
    }
    let set = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    settings.inbox_prefix = settings.inbox_prefix.take().or_else(|| set(&context.inbox_prefix));
    settings.domain = settings.domain.take().or_else(|| set(&context.jetstream_domain));
    Ok(())
}

fn wrong(name: &str, detail: &str) -> NatsError {
    NatsError::Settings(format!("nats context {name:?}: {detail}"))
}

fn servers(urls: &str) -> Vec<String> {
    let listed: Vec<String> =
        urls.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect();
    if listed.is_empty() { vec!["nats://127.0.0.1:4222".into()] } else { listed }
}

/// The `nats` command's order: user, creds, nkey, token.
fn sign_in(context: &Context) -> SignIn {
    let inline = |text: &String| SecretSource::Inline(Secret::new(text.clone()));
    if !context.user.is_empty() {
        SignIn::UserPassword { user: context.user.clone(), password: inline(&context.password) }
    } else if !context.creds.is_empty() {
        SignIn::Credentials(SecretSource::File(path_of(&context.creds)))
    } else if !context.nkey.is_empty() {
        SignIn::Nkey(SecretSource::File(path_of(&context.nkey)))
    } else if !context.token.is_empty() {
        SignIn::Token(inline(&context.token))
    } else {
        SignIn::Anonymous
    }
}

fn path_of(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        (Some(_) | None, _) => PathBuf::from(text),
    }
}
