//! The measure: the best loop that async-nats gives without a daemon around it. It runs in a process of its own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{self, Message};
use futures_util::StreamExt as _;

/// The first word of the child's command line.
pub(crate) const ROLE: &str = "--bare";
const BATCH: usize = 500;

/// Starts the loop as a child process.
pub(crate) fn spawn(url: &str, durable: &str, file: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([ROLE, url, durable])
        .arg(file)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// fetch → write → fdatasync → ack every message, the next fetch overlapped; until it is killed.
pub(crate) async fn carry(words: Vec<String>) {
    let [url, durable, path] = &words[..] else { panic!("{ROLE} URL DURABLE FILE") };
    let client = async_nats::connect(url).await.unwrap();
    let stream = jetstream::new(client).get_stream("BENCH").await.unwrap();
    let consumer: PullConsumer = stream.get_consumer(durable).await.unwrap();
    let mut file = std::fs::File::create(path).unwrap();
    let mut lines = Vec::new();
    let mut next = tokio::spawn(fetch(consumer.clone()));
    loop {
        let batch = next.await.unwrap();
        next = tokio::spawn(fetch(consumer.clone()));
        for message in &batch {
            lines.extend_from_slice(&message.payload);
            lines.push(b'\n');
        }
        (file, lines) = tokio::task::spawn_blocking(move || {
            file.write_all(&lines).unwrap();
            file.sync_data().unwrap();
            lines.clear();
            (file, lines)
        })
        .await
        .unwrap();
        for message in batch {
            #[expect(
                clippy::disallowed_methods,
                reason = "this is the bare loop, without the daemon's seal"
            )]
            message.ack().await.unwrap();
        }
    }
}

async fn fetch(consumer: PullConsumer) -> Vec<Message> {
    let batch =
        consumer.batch().max_messages(BATCH).expires(Duration::from_secs(5)).messages().await.unwrap();
    batch.map(Result::unwrap).collect().await
}
