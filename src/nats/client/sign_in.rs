//! Signing in: at each connect the secrets are read anew and the server's nonce is answered.

use async_nats::Auth;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;

use crate::nats::error::NatsError;
use crate::nats::settings::SignIn;

/// Reads the secrets and answers the server's nonce.
pub(super) fn sign(sign_in: &SignIn, nonce: &[u8]) -> Result<Auth, NatsError> {
    let mut auth = Auth::new();
    match sign_in {
        SignIn::Anonymous => {}
        SignIn::UserPassword { user, password } => {
            auth.username = Some(user.clone());
            auth.password = Some(password.read()?.expose().to_owned());
        }
        SignIn::Token(token) => auth.token = Some(token.read()?.expose().to_owned()),
        SignIn::Nkey(source) => {
            let text = source.read()?;
            let what = || format!("{} holds no valid nkey seed", source.place());
            let keys = key_pair(seed_of(text.expose()).ok_or_else(|| NatsError::Settings(what()))?, what)?;
            auth.nkey = Some(keys.public_key());
            auth.signature = Some(signature(&keys, nonce)?);
        }
        SignIn::Credentials(source) => {
            let text = source.read()?;
            let part = |label| {
                decorated(text.expose(), label)
                    .ok_or_else(|| NatsError::Settings(format!("{} holds no {label}", source.place())))
            };
            let jwt = part("NATS USER JWT")?;
            let keys = key_pair(part("USER NKEY SEED")?, || {
                format!("{} holds no valid seed beside its JWT", source.place())
            })?;
            auth.jwt = Some(jwt.to_owned());
            auth.signature = Some(signature(&keys, nonce)?);
        }
    }
    Ok(auth)
}

/// When the credentials that would be used now stop being good, if they say so.
pub(super) fn expiry(sign_in: &SignIn) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: i64,
    }
    let SignIn::Credentials(source) = sign_in else { return None };
    let text = source.read().ok()?;
    let claims = decorated(text.expose(), "NATS USER JWT")?.split('.').nth(1)?;
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    Timestamp::from_second(claims.exp).ok().filter(|_| claims.exp > 0)
}

fn key_pair(seed: &str, wrong: impl Fn() -> String) -> Result<nkeys::KeyPair, NatsError> {
    nkeys::KeyPair::from_seed(seed).map_err(|_| NatsError::Settings(wrong()))
}

fn signature(keys: &nkeys::KeyPair, nonce: &[u8]) -> Result<Vec<u8>, NatsError> {
    keys.sign(nonce).map_err(|_| NatsError::Settings("the nkey seed cannot sign".into()))
}

/// The line with the seed: files of nkeys have comments, or lines of dashes as credentials have them.
fn seed_of(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| line.starts_with('S') && !line.contains([' ', '-']))
}

/// The text between `-----BEGIN label-----` and the line of dashes that ends it.
fn decorated<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("BEGIN {label}"))?;
    after.lines().skip(1).map(str::trim).find(|line| !line.is_empty() && !line.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{Secret, SecretSource};

    fn inline(text: &str) -> SecretSource {
        SecretSource::Inline(Secret::new(text.into()))
    }

    fn credentials(jwt: &str, seed: &str) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }

    #[test]
    fn credentials_are_taken_apart() {
        let text = credentials("eyJ0.x.y", "SUA");
        assert_eq!(decorated(&text, "NATS USER JWT"), Some("eyJ0.x.y"));
        assert_eq!(decorated(&text, "USER NKEY SEED"), Some("SUA"));
        assert_eq!(decorated("nothing", "USER NKEY SEED"), None);
    }

    #[test]
    fn a_seed_is_found_in_every_form_of_its_file() {
        for text in ["SUA", " SUA \n", "# mine\nSUA\n", "-----BEGIN USER NKEY SEED-----\nSUA\n------END\n"] {
            assert_eq!(seed_of(text), Some("SUA"), "{text:?}");
        }
        assert_eq!(seed_of("UAB\n"), None);
    }

    #[test]
    fn a_bad_seed_is_named_and_not_shown() {
        let bad = [
            SignIn::Nkey(inline("CANARY")),
            SignIn::Nkey(inline("SUCANARY")),
            SignIn::Credentials(inline("CANARY")),
            SignIn::Credentials(inline(&credentials("CANARY", "SUCANARY"))),
        ];
        for sign_in in bad {
            let error = sign(&sign_in, b"nonce").err().unwrap().to_string();
            assert!(error.contains("holds no") && !error.contains("CANARY"), "{error}");
        }
    }

    #[test]
    fn credentials_say_when_they_expire() {
        let of = |claims: &str| {
            let jwt = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
            expiry(&SignIn::Credentials(inline(&credentials(&jwt, "SUA"))))
        };
        assert_eq!(of(r#"{"exp":1796078187}"#), Timestamp::from_second(1_796_078_187).ok());
        assert_eq!(of(r#"{"exp":0}"#), None);
        assert_eq!(of("{}"), None);
        assert_eq!(expiry(&SignIn::Nkey(inline("SUA"))), None);
    }
}
