//! Messages that keep coming whatever happens to the servers, and the ledger of what they confirmed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::{ConnectOptions, HeaderMap};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// What the stream has confirmed: per sequence, whether the message breaks the size policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    confirmed: Arc<Mutex<BTreeMap<u64, bool>>>,
}

impl Ledger {
    pub(crate) fn note(&self, sequence: u64, breaks_the_policy: bool) {
        self.confirmed.lock().unwrap().insert(sequence, breaks_the_policy);
    }

    /// The highest sequence so far.
    pub(crate) fn last(&self) -> u64 {
        self.confirmed.lock().unwrap().last_key_value().map_or(0, |(sequence, _)| *sequence)
    }

    /// The sequences of messages that break the policy (`true`), or do not.
    pub(crate) fn sequences(&self, breaking: bool) -> Vec<u64> {
        let confirmed = self.confirmed.lock().unwrap();
        confirmed.iter().filter(|(_, breaks)| **breaks == breaking).map(|(sequence, _)| *sequence).collect()
    }
}

/// A publisher of its own connection; one in twenty of its messages breaks a size policy of 1 KiB.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) ledger: Ledger,
    stop: CancellationToken,
    publishing: JoinHandle<()>,
}

impl Traffic {
    /// Starts to publish to `src.a`, at most one message each `pause`.
    pub(crate) async fn start(urls: Vec<String>, pause: Duration) -> Self {
        let options = ConnectOptions::new()
            .request_timeout(Some(Duration::from_secs(2)))
            .reconnect_delay_callback(|_| Duration::from_millis(100));
        let client = options.connect(urls).await.unwrap();
        let (ledger, stop) = (Ledger::default(), CancellationToken::new());
        let publishing = tokio::spawn(publish_on(client, ledger.clone(), pause, stop.clone()));
        Self { ledger, stop, publishing }
    }

    /// Ends once the message under way is confirmed; gives what was.
    pub(crate) async fn stop(self) -> Ledger {
        self.stop.cancel();
        self.publishing.await.unwrap();
        self.ledger
    }
}

/// One message after the other, each with an id and again and again until it is confirmed.
async fn publish_on(client: async_nats::Client, ledger: Ledger, pause: Duration, stop: CancellationToken) {
    let mut tick = interval(pause);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0_u64;
    while !stop.is_cancelled() {
        tick.tick().await;
        number += 1;
        let breaks = number.is_multiple_of(20);
        let pad = "p".repeat(if breaks { 2000 } else { 200 });
        let body = format!("{{\"number\":{number},\"pad\":\"{pad}\"}}");
        let sequence = loop {
            if let Some(sequence) = publish(&client, number, &body).await {
                break sequence;
            }
            tick.tick().await;
        };
        ledger.note(sequence, breaks);
    }
}

/// The sequence, if the stream has confirmed it.
async fn publish(client: &async_nats::Client, number: u64, body: &str) -> Option<u64> {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", number.to_string());
    let answer = client.request_with_headers("src.a", headers, body.to_owned().into()).await.ok()?;
    let answer: Value = serde_json::from_slice(&answer.payload).ok()?;
    answer["seq"].as_u64()
}
