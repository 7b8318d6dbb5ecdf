//! The NATS room on its own, against a real server: what its tests share.

use std::time::Duration;

use jetsink::delivery::{Budget, Received, Source, SourceError};
use jetsink::nats::{
    BindMode, BindPlan, BoundConsumer, Connection, ConnectionSettings, ConsumerSettings, NatsError, Observer,
    OnGone, PullSettings, PullSource, PullStatusClass, SignIn, TlsSettings, bind,
};
use tokio::time::{Instant, timeout_at};

use crate::harness::Server;

pub(crate) const PLENTY: Budget = Budget { messages: 10_000, bytes: 64 << 20 };

/// Nobody listens to the news of the connection.
#[derive(Debug)]
struct Quiet;

impl Observer for Quiet {
    fn connected(&self) {}
    fn disconnected(&self, _detail: &str) {}
    fn permission_violation(&self, _text: &str) {}
    fn pull_status(&self, _class: PullStatusClass) {}
    fn missed_heartbeat(&self) {}
}

pub(crate) fn connection_settings(server: &Server) -> ConnectionSettings {
    ConnectionSettings {
        servers: vec![server.url()],
        name: "test".into(),
        sign_in: SignIn::Anonymous,
        context: None,
        tls: TlsSettings::default(),
        inbox_prefix: None,
        domain: None,
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(5),
        ping_interval: Duration::from_secs(20),
    }
}

pub(crate) async fn connect(settings: &ConnectionSettings) -> Connection {
    Connection::open(settings, std::sync::Arc::new(Quiet)).await.unwrap()
}

/// Durable `w` of stream `SRC`, nothing else said about it.
pub(crate) fn consumer_settings(mode: BindMode) -> ConsumerSettings {
    ConsumerSettings {
        stream: "SRC".into(),
        durable: "w".into(),
        mode,
        on_gone: OnGone::Wait,
        filter_subjects: Vec::new(),
        deliver_policy: None,
        ack_wait: None,
        max_deliver: None,
        max_ack_pending: None,
        backoff: Vec::new(),
        replicas: None,
        headers_only_expected: false,
        expires: Duration::from_secs(2),
    }
}

pub(crate) async fn bind_with(
    connection: &Connection,
    settings: &ConsumerSettings,
) -> Result<BoundConsumer, NatsError> {
    bind(connection, settings, BindPlan { bound_before: None, wanted_ack_pending: 1000 }).await
}

/// A connection and the durable bound on it.
pub(crate) async fn bound(server: &Server) -> (Connection, BoundConsumer) {
    let connection = connect(&connection_settings(server)).await;
    let bound = bind_with(&connection, &consumer_settings(BindMode::Bind)).await.unwrap();
    (connection, bound)
}

pub(crate) async fn source(bound: &BoundConsumer, messages: usize, bytes: usize) -> PullSource {
    PullSource::open(bound, PullSettings { messages, bytes, expires: Duration::from_secs(2) }).await.unwrap()
}

/// Pulls until `count` deliveries are there; every refusal on the way is returned as well.
pub(crate) async fn pull_until(
    source: &mut PullSource,
    count: usize,
    deadline: Duration,
) -> (Vec<Received>, Vec<SourceError>) {
    let end = Instant::now() + deadline;
    let (mut received, mut refused) = (Vec::new(), Vec::new());
    while received.len() < count {
        let pulled = timeout_at(end, source.pull(PLENTY)).await;
        match pulled.unwrap_or_else(|_| panic!("{} of {count}, {refused:?}", received.len())) {
            Ok(some) => received.extend(some),
            Err(error @ SourceError::Again { .. }) => refused.push(error),
            Err(error) => panic!("{error}, after {} of {count}", received.len()),
        }
    }
    (received, refused)
}

/// Pulls until it fails for good.
pub(crate) async fn pull_until_it_ends(source: &mut PullSource, deadline: Duration) -> SourceError {
    let end = Instant::now() + deadline;
    loop {
        match timeout_at(end, source.pull(PLENTY)).await.expect("pulling does not end") {
            Ok(_) | Err(SourceError::Again { .. }) => {}
            Err(error) => return error,
        }
    }
}

pub(crate) fn stream_sequences(received: &[Received]) -> Vec<u64> {
    received.iter().map(|delivery| delivery.envelope().stream_sequence).collect()
}
