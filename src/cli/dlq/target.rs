//! Which server and which dead-letter stream.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use crate::cli::{ConfigFile, output};
use crate::config::Settings;
use crate::nats::{
    Connection, ConnectionSettings, NatsError, Observer, SignIn, StreamPages, StreamState, TlsSettings,
    apply_context, apply_urls, find_capturing_stream,
};
use crate::secret::SecretSource;

const PATIENCE: Duration = Duration::from_secs(5);
const CLOSE: Duration = Duration::from_secs(2);

/// Flags that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server and stream")]
pub(super) struct Target {
    /// The daemon's configuration: its [nats] and [dead_letter] sections are used
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The dead-letter stream; found by dead_letter.subject of the configuration when not given
    #[arg(long, value_name = "NAME")]
    pub(super) stream: Option<String>,
    /// Servers, separated by commas; else NATS_URL
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    server: Option<String>,
    /// A context of the nats command; else NATS_CONTEXT
    #[arg(long, value_name = "NAME", conflicts_with_all = ["config", "server"])]
    context: Option<String>,
    /// Credentials file
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    creds: Option<PathBuf>,
    /// File with an nkey seed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "creds"])]
    nkey: Option<PathBuf>,
    /// User; the password comes from --password-file, else from NATS_PASSWORD
    #[arg(long, conflicts_with_all = ["config", "creds", "nkey"])]
    user: Option<String>,
    /// File with the password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// CA certificates (PEM), instead of the machine's store
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    tls_ca: Option<PathBuf>,
    /// Prefix of reply subjects, for users with few permissions
    #[arg(long, value_name = "PREFIX", conflicts_with = "config")]
    inbox_prefix: Option<String>,
    /// JetStream domain
    #[arg(long, conflicts_with = "config")]
    domain: Option<String>,
    /// Read each message by a request of its own: slower; for streams with messages that cut the client's connection
    #[arg(long)]
    one_by_one: bool,
}

/// The open connection and what is known of the stream.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) pages: StreamPages,
    pub(super) state: StreamState,
    pub(super) settings: Option<Settings>,
    pub(super) request_timeout: Duration,
}

impl Target {
    /// Connects and looks at the stream.
    pub(super) async fn open(&self) -> Result<Opened, Failure> {
        let (connection, settings, request_timeout) = self.connect().await?;
        let stream = self.stream(&connection, settings.as_ref()).await?;
        let (pages, state) = StreamPages::open(&connection, &stream, self.one_by_one).await?;
        Ok(Opened { connection, pages, state, settings, request_timeout })
    }

    /// Connects only.
    pub(super) async fn connect(&self) -> Result<(Connection, Option<Settings>, Duration), Failure> {
        let settings = self.settings()?;
        let connection = match &settings {
            Some(settings) => {
                let mut connection = settings.connection.clone();
                if let Some(context) = &settings.context {
                    apply_context(context, &mut connection)?;
                }
                connection
            }
            None => self.without_file()?,
        };
        let connection = ConnectionSettings { name: format!("{} dlq", connection.name), ..connection };
        let request_timeout = connection.request_timeout;
        let opened = Connection::open(&connection, Arc::new(Denials::default())).await?;
        Ok((opened, settings, request_timeout))
    }

    /// The settings of the configuration, if one is given.
    pub(super) fn settings(&self) -> Result<Option<Settings>, Failure> {
        let Some(config) = &self.config else { return Ok(None) };
        let loaded = ConfigFile { config: config.clone() }.load().map_err(|_| Failure::Configuration)?;
        Ok(Some(loaded.settings))
    }

    async fn stream(&self, connection: &Connection, settings: Option<&Settings>) -> Result<String, Failure> {
        if let Some(stream) = &self.stream {
            return Ok(stream.clone());
        }
        let Some(settings) = settings else {
            return Err(Failure::refused(
                "which stream? Name it by --stream, or give the daemon's file by -c",
            ));
        };
        let Some(dead_letter) = &settings.dead_letter else {
            return Err(Failure::refused(
                "the configuration has no [dead_letter] section: name the stream by --stream",
            ));
        };
        if let Some(stream) = &dead_letter.stream {
            return Ok(stream.clone());
        }
        let mut subject = dead_letter.subject.clone();
        if !dead_letter.subject_tokens.is_empty() {
            subject.push_str(".>");
        }
        find_capturing_stream(connection, &subject).await?.ok_or_else(|| {
            NatsError::Missing(format!("no stream captures {subject}; make one with jetsink dlq init")).into()
        })
    }

    fn without_file(&self) -> Result<ConnectionSettings, Failure> {
        let mut settings = ConnectionSettings {
            servers: Vec::new(),
            name: "jetsink".into(),
            sign_in: SignIn::Anonymous,
            context: None,
            tls: TlsSettings { ca_file: self.tls_ca.clone(), ..TlsSettings::default() },
            inbox_prefix: self.inbox_prefix.clone(),
            domain: self.domain.clone(),
            connect_timeout: PATIENCE,
            request_timeout: PATIENCE,
            ping_interval: Duration::from_secs(10),
        };
        let of = |variable: &str| std::env::var(variable).ok().filter(|value| !value.is_empty());
        let server = self.server.clone().or_else(|| self.context.is_none().then(|| of("NATS_URL")).flatten());
        let context = self.context.clone().or_else(|| server.is_none().then(|| of("NATS_CONTEXT")).flatten());
        match (server, context) {
            (Some(server), _) => apply_urls(&server, &mut settings)?,
            (None, Some(context)) => apply_context(&context, &mut settings)?,
            (None, None) => apply_urls("", &mut settings)?,
        }
        if let Some(sign_in) = self.sign_in() {
            settings.sign_in = sign_in;
        }
        Ok(settings)
    }

    fn sign_in(&self) -> Option<SignIn> {
        if let Some(creds) = &self.creds {
            return Some(SignIn::Credentials(SecretSource::File(creds.clone())));
        }
        if let Some(nkey) = &self.nkey {
            return Some(SignIn::Nkey(SecretSource::File(nkey.clone())));
        }
        let user = self.user.clone()?;
        let password = self
            .password_file
            .clone()
            .map_or_else(|| SecretSource::Environment("NATS_PASSWORD".into()), SecretSource::File);
        Some(SignIn::UserPassword { user, password })
    }
}

impl Opened {
    /// Ends the connection in good order.
    pub(super) async fn close(self) {
        self.connection.close(CLOSE).await;
    }
}

/// Says once what the server denies; a denial comes in no other way.
#[derive(Debug, Default)]
struct Denials {
    said: Mutex<BTreeSet<String>>,
}

impl Observer for Denials {
    fn permission_violation(&self, text: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < 8 && said.insert(text.to_owned()) {
            output::to_stderr(&format!("jetsink dlq: the server denies: {text}\n"));
        }
    }
}
