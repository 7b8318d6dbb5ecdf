//! The connection: sign-in, TLS, reconnects, and what the server says out of turn.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Auth, AuthError, Client, ConnectOptions, Event, ServerAddr, ServerError};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::disposition::{Backoff, Rng};
use crate::nats::advisories::reader::AdvisoryOutcome;
use crate::nats::client::api::Api;
use crate::nats::error::{NatsError, chain};
use crate::nats::pulls::status::PullStatusClass;
use crate::nats::settings::{ConnectionSettings, SignIn};

/// Learns what happens on the connection; implemented where metrics and health are at hand.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// A connection was made, the first or a later one.
    fn connected(&self);
    /// The connection is lost; the client tries to get it back.
    fn disconnected(&self);
    /// The server denied something. Such a denial comes in no other way (design §11).
    fn permission_violation(&self, text: &str);
    /// A status line about a pull came.
    fn pull_status(&self, class: PullStatusClass);
    /// The idle heartbeat did not come.
    fn missed_heartbeat(&self);
    /// The connection, or the client, ended while deliveries were outstanding.
    fn client_died(&self) {}
    /// Something may kill the client and is looked for, or is known and cannot be read: what is to be said about it.
    /// `None`: this is over.
    fn isolating(&self, _detail: Option<&str>) {}
    /// So many messages were found that no client can be handed.
    fn undeliverable_found(&self, _count: usize) {}
    /// So many are kept from being delivered, since they cannot be read.
    fn undeliverable_held(&self, _count: usize) {}
    /// What became of an advisory.
    fn advisory(&self, _outcome: AdvisoryOutcome) {}
    /// Whether the durable of the advisory stream is bound.
    fn advisory_stream(&self, _is_bound: bool) {}
    /// So many messages of a work queue are delivered no more and still stored.
    fn exhausted(&self, _count: u64) {}
}

/// Messages that the subscription buffers; the open pulls of one pipeline stay far below.
const SUBSCRIPTION_CAPACITY: usize = 65_536;
const CLIENT_CAPACITY: usize = 8_192;

/// A connection to the servers.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(in crate::nats) client: Client,
    pub(in crate::nats) api: Api,
    pub(in crate::nats) observer: Arc<dyn Observer>,
    closed: Arc<Notify>,
    round_trip: Arc<Mutex<Option<String>>>,
    lost_soon: LostSoon,
    inbox_prefix: String,
}

impl Connection {
    /// Connects. Every secret is read now, and again at each reconnect.
    ///
    /// # Errors
    /// A secret or file cannot be read, an address is wrong, or no server accepts us.
    pub async fn open(settings: &ConnectionSettings, observer: Arc<dyn Observer>) -> Result<Self, NatsError> {
        // Another library in this process may have installed the same provider: that is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let _readable = sign(&settings.sign_in, &[])?;
        let addresses = addresses(settings)?;
        let closed = Arc::new(Notify::new());
        let lost_soon = LostSoon::default();
        let options = options(settings, Arc::clone(&observer), Arc::clone(&closed), Arc::clone(&lost_soon));
        let client = options.connect(addresses).await.map_err(|error| NatsError::Connect(chain(&error)))?;
        let api = Api::new(client.clone(), settings.domain.as_deref(), settings.request_timeout);
        Ok(Self {
            client,
            api,
            observer,
            closed,
            round_trip: Arc::default(),
            lost_soon,
            inbox_prefix: settings.inbox_prefix.clone().unwrap_or_else(|| "_INBOX".into()),
        })
    }

    /// The largest message the server takes, headers included.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.client.max_payload()
    }

    /// The server's version.
    #[must_use]
    pub fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// Whether the client is connected right now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// The same connection for somebody whose pulls tell another observer.
    pub(in crate::nats) fn with_observer(&self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self.clone() }
    }

    /// How many connections were made so far.
    pub(in crate::nats) fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Acquire)
    }

    /// The server's id, and whether it is one of a cluster.
    pub(in crate::nats) fn server(&self) -> (String, bool) {
        let info = self.client.server_info();
        (info.server_id, info.cluster.is_some())
    }

    /// What ended the last connections was found: the next lost one is a first one again.
    pub(in crate::nats) fn forgive(&self) {
        self.lost_soon.lock().unwrap_or_else(PoisonError::into_inner).1 = 0;
    }

    /// The durable whose facts are the round trip of [`close`](Self::close): its user may ask for them, and perhaps for
    /// nothing else.
    pub(in crate::nats) fn remember_durable(&self, stream: &str, durable: &str) {
        let operation = format!("CONSUMER.INFO.{stream}.{durable}");
        *self.round_trip.lock().unwrap_or_else(PoisonError::into_inner) = Some(operation);
    }

    /// Ends the connection: a round trip first, so that everything sent has been read by the server (a socket that is closed
    /// with unread data is reset, and acks are lost), then the drain.
    pub async fn close(self, deadline: Duration) {
        let ended = timeout(deadline, async {
            let operation = self.round_trip.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(operation) = operation.filter(|_| self.is_connected()) {
                // Any answer will do, also an error.
                let answer = self.api.call::<serde_json::Value>(&operation, &serde_json::Value::Null);
                let _answered = timeout(deadline / 2, answer).await;
            }
            let closed = self.closed.notified();
            if self.client.drain().await.is_ok() {
                closed.await;
            }
        });
        if ended.await.is_err() {
            warn!("the connection was not closed in time");
        }
    }

    /// A fresh reply subject.
    pub(in crate::nats) fn new_inbox(&self) -> String {
        let mut random = [0u8; 12];
        let filled = getrandom::fill(&mut random).is_ok();
        let token = if filled { u128_of(&random) } else { u128::from(u64::from(std::process::id())) };
        format!("{}.{token:024x}", self.inbox_prefix)
    }
}

fn u128_of(bytes: &[u8; 12]) -> u128 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}

fn addresses(settings: &ConnectionSettings) -> Result<Vec<ServerAddr>, NatsError> {
    let parse = |server: &String| {
        server
            .parse::<ServerAddr>()
            .map_err(|_| NatsError::Settings(format!("{server} is not a server address")))
    };
    settings.servers.iter().map(parse).collect()
}

fn options(
    settings: &ConnectionSettings,
    observer: Arc<dyn Observer>,
    closed: Arc<Notify>,
    lost_soon: LostSoon,
) -> ConnectOptions {
    let sign_in = settings.sign_in.clone();
    let mut options = ConnectOptions::with_auth_callback(move |nonce| {
        let sign_in = sign_in.clone();
        async move { sign(&sign_in, &nonce).map_err(|error| AuthError::new(error.to_string())) }
    })
    .name(&settings.name)
    .connection_timeout(settings.connect_timeout)
    .request_timeout(Some(settings.request_timeout))
    .ping_interval(settings.ping_interval)
    .subscription_capacity(SUBSCRIPTION_CAPACITY)
    .client_capacity(CLIENT_CAPACITY)
    .skip_subject_validation(true)
    .reconnect_delay_callback(reconnect_delays(lost_soon))
    .event_callback(move |event| {
        take_event(&event, &*observer, &closed);
        std::future::ready(())
    });
    if let Some(prefix) = &settings.inbox_prefix {
        options = options.custom_inbox_prefix(prefix);
    }
    if settings.tls.required {
        options = options.require_tls(true);
    }
    if settings.tls.first {
        options = options.tls_first();
    }
    if let Some(file) = &settings.tls.ca_file {
        options = options.add_root_certificates(file.clone());
    }
    if let Some((certificate, key)) = &settings.tls.client_certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    options
}

/// A connection that is lost again within this time counts as one more failure.
const STEADY: Duration = Duration::from_secs(10);
/// When a connection was lost last, and how many were lost soon after they were made.
type LostSoon = Arc<Mutex<(Option<Instant>, u32)>>;

/// Growing, jittered delays between reconnects, from 50 ms to 4 s. The client counts attempts anew after each success; where
/// every connection is lost soon after (a message that the client cannot read does that), the delays grow on.
fn reconnect_delays(lost_soon: LostSoon) -> impl Fn(usize) -> Duration + Send + Sync + 'static {
    let backoff = Backoff {
        initial: Duration::from_millis(100),
        max: Duration::from_secs(4),
        multiplier: 2.0,
        jitter: 0.5,
    };
    let mut seed = [0u8; 12];
    let _fixed_seed_is_fine_too = getrandom::fill(&mut seed);
    let rng = Mutex::new(Rng::seeded(u64::try_from(u128_of(&seed) & 0xFFFF_FFFF).unwrap_or(1)));
    move |attempt| {
        let attempt = u32::try_from(attempt).unwrap_or(u32::MAX);
        let now = Instant::now();
        let mut lost_soon = lost_soon.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, count) = *lost_soon;
        let count = match before {
            _ if attempt > 1 => count,
            Some(before) if now.duration_since(before) < STEADY => count.saturating_add(1),
            Some(_) | None => 0,
        };
        *lost_soon = (Some(now), count);
        backoff.delay(attempt.saturating_add(count), &mut rng.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn take_event(event: &Event, observer: &dyn Observer, closed: &Notify) {
    match event {
        Event::Connected => {
            info!("connected");
            observer.connected();
        }
        Event::Disconnected => {
            warn!("disconnected; connecting again");
            observer.disconnected();
        }
        Event::LameDuckMode => warn!("the server is about to stop (lame duck)"),
        Event::SlowConsumer(_) => {
            warn!("the client dropped messages of a full subscription; they come back after the ack wait");
        }
        Event::ServerError(ServerError::Other(text)) if text.contains("ermissions Violation") => {
            warn!(text, "the server denies");
            observer.permission_violation(text);
        }
        Event::ServerError(error) => warn!(%error, "the server reports an error"),
        Event::ClientError(error) => warn!(%error, "the client reports an error"),
        Event::Closed => closed.notify_waiters(),
        Event::Draining => {}
    }
}

/// Reads the secrets and answers the server's nonce.
fn sign(sign_in: &SignIn, nonce: &[u8]) -> Result<Auth, NatsError> {
    let mut auth = Auth::new();
    match sign_in {
        SignIn::Anonymous => {}
        SignIn::UserPassword { user, password } => {
            auth.username = Some(user.clone());
            auth.password = Some(password.read()?.expose().to_owned());
        }
        SignIn::Token(token) => auth.token = Some(token.read()?.expose().to_owned()),
        SignIn::Nkey(seed) => {
            let seed = seed.read()?;
            let keys = key_pair(seed.expose().trim(), "nkey seed")?;
            auth.nkey = Some(keys.public_key());
            auth.signature = Some(signature(&keys, nonce)?);
        }
        SignIn::Credentials(file) => {
            let text = file.read()?;
            let jwt = decorated(text.expose(), "NATS USER JWT")?;
            let keys = key_pair(decorated(text.expose(), "USER NKEY SEED")?, "seed of the credentials")?;
            auth.jwt = Some(jwt.to_owned());
            auth.signature = Some(signature(&keys, nonce)?);
        }
    }
    Ok(auth)
}

fn key_pair(seed: &str, what: &str) -> Result<nkeys::KeyPair, NatsError> {
    nkeys::KeyPair::from_seed(seed)
        .map_err(|_| NatsError::Settings(format!("the {what} is not a valid nkey seed")))
}

fn signature(keys: &nkeys::KeyPair, nonce: &[u8]) -> Result<Vec<u8>, NatsError> {
    keys.sign(nonce).map_err(|_| NatsError::Settings("the nkey seed cannot sign".into()))
}

/// The text between `-----BEGIN label-----` and the line of dashes that ends it.
fn decorated<'a>(text: &'a str, label: &str) -> Result<&'a str, NatsError> {
    let missing = || NatsError::Settings(format!("the credentials hold no {label}"));
    let (_, after) = text.split_once(&format!("BEGIN {label}")).ok_or_else(missing)?;
    after
        .lines()
        .skip(1)
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('-'))
        .ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{Secret, SecretSource};

    #[test]
    fn credentials_are_taken_apart() {
        let text = "-----BEGIN NATS USER JWT-----\neyJ0.x.y\n------END NATS USER JWT------\n\n\
                    -----BEGIN USER NKEY SEED-----\nSUA\n------END USER NKEY SEED------\n";
        assert_eq!(decorated(text, "NATS USER JWT").unwrap(), "eyJ0.x.y");
        assert_eq!(decorated(text, "USER NKEY SEED").unwrap(), "SUA");
        assert!(decorated("nothing", "USER NKEY SEED").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn delays_grow_when_every_connection_is_lost_soon() {
        let delays = reconnect_delays(LostSoon::default());
        let mut last = Duration::ZERO;
        for _ in 0..8 {
            last = delays(1);
            tokio::time::advance(last).await;
        }
        assert!(last >= Duration::from_secs(2), "{last:?}");
        tokio::time::advance(STEADY).await;
        assert!(delays(1) <= Duration::from_millis(100));
    }

    #[test]
    fn a_bad_seed_is_named_and_not_shown() {
        let sign_in = SignIn::Nkey(SecretSource::Inline(Secret::new("CANARY".into())));
        let error = sign(&sign_in, b"nonce").err().unwrap().to_string();
        assert!(error.contains("nkey seed") && !error.contains("CANARY"));
    }
}
