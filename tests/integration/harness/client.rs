//! The tests' own connection: JetStream by plain requests, so that each says exactly what it sends.

use std::time::Duration;

use async_nats::{ConnectOptions, HeaderMap};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Server, eventually};

const ANSWER: Duration = Duration::from_secs(20);
/// Publishes under way at once.
const PIPELINE: usize = 500;

/// A connection to a test server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    inner: async_nats::Client,
}

/// One stored message.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) sequence: u64,
    pub(crate) subject: String,
    /// The header block as stored.
    pub(crate) headers: String,
    pub(crate) payload: Vec<u8>,
}

impl Stored {
    /// The first value of a header, the name in its exact case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found == name).then_some(value.trim())
        })
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.payload).unwrap()
    }
}

impl Client {
    pub(crate) async fn connect(server: &Server, options: ConnectOptions) -> Self {
        Self::connect_to(vec![server.url()], options).await
    }

    /// To any of these servers.
    pub(crate) async fn connect_to(urls: Vec<String>, options: ConnectOptions) -> Self {
        let options = options.request_timeout(Some(Duration::from_secs(5)));
        Self { inner: options.connect(urls).await.unwrap() }
    }

    /// A JetStream API request; the error object of the answer becomes the error.
    pub(crate) async fn try_api(&self, subject: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let answer = self
            .inner
            .request(format!("$JS.API.{subject}"), body.into())
            .await
            .map_err(|error| format!("{subject}: {error}"))?;
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
        if answer["error"].is_null() { Ok(answer) } else { Err(answer["error"].to_string()) }
    }

    /// A JetStream API request that must succeed in the end: a server that has just started may need a moment.
    pub(crate) async fn api(&self, subject: &str, body: &Value) -> Value {
        eventually(ANSWER, subject, async || self.try_api(subject, body).await).await
    }

    /// Creates a stream.
    pub(crate) async fn create_stream(&self, config: &Value) {
        self.api(&format!("STREAM.CREATE.{}", config["name"].as_str().unwrap()), config).await;
    }

    /// Changes a stream.
    pub(crate) async fn update_stream(&self, config: &Value) {
        self.api(&format!("STREAM.UPDATE.{}", config["name"].as_str().unwrap()), config).await;
    }

    /// Creates a durable consumer.
    pub(crate) async fn create_consumer(&self, stream: &str, config: &Value) {
        let durable = config["durable_name"].as_str().unwrap();
        let body = json!({ "stream_name": stream, "config": config });
        self.api(&format!("CONSUMER.DURABLE.CREATE.{stream}.{durable}"), &body).await;
    }

    /// `state` and `config` of a stream.
    pub(crate) async fn stream_info(&self, stream: &str) -> Value {
        self.api(&format!("STREAM.INFO.{stream}"), &Value::Null).await
    }

    /// What the server says about a durable.
    pub(crate) async fn consumer_info(&self, stream: &str, durable: &str) -> Value {
        self.api(&format!("CONSUMER.INFO.{stream}.{durable}"), &Value::Null).await
    }

    /// Publishes and awaits the stream's confirmation; gives the sequence.
    pub(crate) async fn publish(&self, subject: &str, payload: impl Into<Vec<u8>>) -> u64 {
        self.publish_with(subject, HeaderMap::new(), payload).await
    }

    pub(crate) async fn publish_with(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: impl Into<Vec<u8>>,
    ) -> u64 {
        let payload = payload.into();
        eventually(ANSWER, "the stream confirms a publish", async || {
            let sent = if headers.is_empty() {
                self.inner.request(subject.to_owned(), payload.clone().into()).await
            } else {
                self.inner
                    .request_with_headers(subject.to_owned(), headers.clone(), payload.clone().into())
                    .await
            };
            let answer = sent.map_err(|error| error.to_string())?;
            let answer: Value = serde_json::from_slice(&answer.payload).map_err(|error| error.to_string())?;
            answer["seq"].as_u64().ok_or_else(|| answer.to_string())
        })
        .await
    }

    /// Publishes many, in this order, and awaits every confirmation; gives the sequences.
    pub(crate) async fn publish_many(&self, subject: &str, payloads: Vec<Vec<u8>>) -> Vec<u64> {
        // Whatever is sent now reaches a server: a connection that has just died would swallow it.
        self.api("INFO", &Value::Null).await;
        let inbox = self.inner.new_inbox();
        let mut answers = self.inner.subscribe(inbox.clone()).await.unwrap();
        let mut sequences = Vec::with_capacity(payloads.len());
        for chunk in payloads.chunks(PIPELINE) {
            for payload in chunk {
                let payload = payload.clone().into();
                self.inner.publish_with_reply(subject.to_owned(), inbox.clone(), payload).await.unwrap();
            }
            for _ in chunk {
                let answer = timeout(ANSWER, answers.next()).await.expect("no confirmation in time").unwrap();
                let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
                sequences.push(answer["seq"].as_u64().unwrap_or_else(|| panic!("not stored: {answer}")));
            }
        }
        sequences
    }

    /// Deletes messages of a stream, many requests under way at once.
    pub(crate) async fn delete_many(&self, stream: &str, sequences: &[u64]) {
        let inbox = self.inner.new_inbox();
        let mut answers = self.inner.subscribe(inbox.clone()).await.unwrap();
        for chunk in sequences.chunks(PIPELINE) {
            for sequence in chunk {
                let body = json!({ "seq": sequence, "no_erase": true }).to_string();
                let subject = format!("$JS.API.STREAM.MSG.DELETE.{stream}");
                self.inner.publish_with_reply(subject, inbox.clone(), body.into()).await.unwrap();
            }
            for _ in chunk {
                let answer = timeout(ANSWER, answers.next()).await.expect("no answer in time").unwrap();
                let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
                assert_eq!(answer["success"], true, "{answer}");
            }
        }
    }

    /// One stored message; `None` if it is not there.
    pub(crate) async fn message(&self, stream: &str, sequence: u64) -> Option<Stored> {
        let answer =
            self.try_api(&format!("STREAM.MSG.GET.{stream}"), &json!({ "seq": sequence })).await.ok()?;
        let message = &answer["message"];
        let decode = |field: &Value| STANDARD.decode(field.as_str().unwrap_or_default()).unwrap();
        Some(Stored {
            sequence,
            subject: message["subject"].as_str().unwrap().to_owned(),
            headers: String::from_utf8_lossy(&decode(&message["hdrs"])).into_owned(),
            payload: decode(&message["data"]),
        })
    }

    /// Every stored message.
    pub(crate) async fn messages(&self, stream: &str) -> Vec<Stored> {
        let info = self.stream_info(stream).await;
        let (first, last) = (info["state"]["first_seq"].as_u64(), info["state"]["last_seq"].as_u64());
        let mut stored = Vec::new();
        for sequence in first.unwrap()..=last.unwrap() {
            stored.extend(self.message(stream, sequence).await);
        }
        stored
    }

    /// Tells the server about one delivery, or anything else that is a plain request.
    pub(crate) const fn core(&self) -> &async_nats::Client {
        &self.inner
    }
}
