//! The connection: sign-in, TLS, reconnects, and what the server says out of turn.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{AuthError, Client, ConnectOptions, Event, ServerAddr, ServerError};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use crate::disposition::{Backoff, Rng};
use crate::nats::advisories::reader::AdvisoryOutcome;
use crate::nats::client::api::Api;
use crate::nats::client::sign_in::sign;
use crate::nats::client::tls_files;
use crate::nats::client::trouble::{Rounds, explained, key_of_sign_in};
use crate::nats::error::{NatsError, chain};
use crate::nats::pulls::status::PullStatusClass;
use crate::nats::settings::ConnectionSettings;

/// Learns what happens on the connection; implemented where metrics and health are at hand. What it does not ask for it is spared.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// A connection was made, the first or a later one.
    fn connected(&self) {}
    /// The connection is lost, and why, if the server has said so; the client tries to get it back.
    fn disconnected(&self, _detail: &str) {}
    /// A round of attempts to get it back has failed, and why.
    fn unreachable(&self, _detail: &str) {}
    /// The server denied something. Such a denial comes in no other way (design §11).
    fn permission_violation(&self, _text: &str) {}
    /// A status line about a pull came.
    fn pull_status(&self, _class: PullStatusClass) {}
    /// The idle heartbeat did not come.
    fn missed_heartbeat(&self) {}
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
        let _readable = sign(&settings.sign_in, &[]).map_err(|error| {
            NatsError::Settings(format!("{}: {}", key_of_sign_in(settings), chain(&error)))
        })?;
        tls_files::check(&settings.tls)?;
        let addresses = addresses(settings)?;
        let closed = Arc::new(Notify::new());
        let lost_soon = LostSoon::default();
        let options = options(settings, Arc::clone(&observer), Arc::clone(&closed), Arc::clone(&lost_soon));
        let client = options.connect(addresses).await.map_err(|error| {
            let text = explained(&chain(&error), settings);
            NatsError::Connect(format!("{}: {text}", settings.servers.join(", ")))
        })?;
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
    let rounds = Arc::new(Rounds::new(settings.clone(), Arc::clone(&observer)));
    let events = Events { observer, closed, rounds: Arc::clone(&rounds), last_word: Mutex::default() };
    let mut options = ConnectOptions::with_auth_callback(move |nonce| {
        let sign_in = sign_in.clone();
        async move { sign(&sign_in, &nonce).map_err(|error| AuthError::new(chain(&error))) }
    })
    .name(&settings.name)
    .connection_timeout(settings.connect_timeout)
    .request_timeout(Some(settings.request_timeout))
    .ping_interval(settings.ping_interval)
    .subscription_capacity(SUBSCRIPTION_CAPACITY)
    .client_capacity(CLIENT_CAPACITY)
    .skip_subject_validation(true)
    .reconnect_delay_callback(reconnect_delays(lost_soon))
    .reconnect_to_server_callback(move |servers, _info| {
        rounds.begins(&servers);
        // The choice is the client's own.
        std::future::ready(None)
    })
    .event_callback(move |event| {
        events.take(&event);
        std::future::ready(())
    });
    if let Some(prefix) = &settings.inbox_prefix {
        options = options.custom_inbox_prefix(prefix);
    }
    // A server that the first one tells of comes without a scheme: it must not undo what the list says.
    if settings.tls.required || settings.servers.iter().all(|server| server.starts_with("tls://")) {
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

/// What the client tells, in the order in which it happens.
struct Events {
    observer: Arc<dyn Observer>,
    closed: Arc<Notify>,
    rounds: Arc<Rounds>,
    /// What the server has reported last on this connection: it may be why it ends it.
    last_word: Mutex<Option<String>>,
}

impl Events {
    fn take(&self, event: &Event) {
        let observer = &*self.observer;
        match event {
            Event::Connected => {
                info!("connected");
                self.rounds.ended();
                self.last_word().take();
                observer.connected();
            }
            Event::Disconnected => {
                let detail = match self.last_word().take() {
                    Some(word) => format!("the connection is lost ({word}); connecting again"),
                    None => "the connection is lost; connecting again".into(),
                };
                warn!("{detail}");
                observer.disconnected(&detail);
            }
            Event::LameDuckMode => warn!("the server is about to stop (lame duck)"),
            Event::SlowConsumer(_) => {
                warn!(
                    "the client dropped messages of a full subscription; they come back after the ack wait"
                );
            }
            Event::ServerError(ServerError::Other(text)) if text.contains("ermissions Violation") => {
                if self.rounds.may_be_denied(text) {
                    return debug!(text, "the server denies what is only asked to make sure");
                }
                let text = self.rounds.denied(text);
                warn!(text, "the server denies");
                observer.permission_violation(&text);
            }
            Event::ServerError(error) => {
                warn!(%error, "the server reports an error");
                *self.last_word() = Some(error.to_string());
            }
            Event::ClientError(error) => warn!(%error, "the client reports an error"),
            Event::Closed => self.closed.notify_waiters(),
            Event::Draining => {}
        }
    }

    fn last_word(&self) -> MutexGuard<'_, Option<String>> {
        self.last_word.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
