//! The measure: letters published as fast as async-nats confirms them, without a daemon around it. A process of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use async_nats::HeaderMap;
use async_nats::jetstream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use serde_json::Value;

/// The first word of the child's command line.
pub(crate) const ROLE: &str = "--bare";
/// Publishes under way at once.
const PIPELINE: usize = 1_000;

/// Starts the loop as a child process.
pub(crate) fn spawn(url: &str, letter: &Path, messages: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([ROLE, url, &messages.to_string()])
        .arg(letter)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// Publishes one letter again and again, each with a message id of its own, and awaits every confirmation.
pub(crate) async fn publish_all(words: Vec<String>) {
    let [url, messages, letter] = &words[..] else { panic!("{ROLE} URL MESSAGES LETTER") };
    let messages: u64 = messages.parse().unwrap();
    let letter: Value = serde_json::from_slice(&std::fs::read(letter).unwrap()).unwrap();
    let body = Bytes::from(STANDARD.decode(letter["body"].as_str().unwrap()).unwrap());
    let mut headers = HeaderMap::new();
    for (name, value) in letter["headers"].as_object().unwrap() {
        headers.append(name.as_str(), value.as_str().unwrap());
    }
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let publishes = stream::iter(0..messages).map(|number| {
        let mut headers = headers.clone();
        headers.insert("Nats-Msg-Id", format!("bare.{number}"));
        let sent = context.publish_with_headers("bare.letters", headers, body.clone());
        async move { sent.await.unwrap().await.unwrap() }
    });
    publishes.buffer_unordered(PIPELINE).for_each(async |ack| assert!(!ack.duplicate)).await;
}
