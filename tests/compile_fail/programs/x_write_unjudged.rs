//! What did not pass the gate cannot be written.

use std::time::Duration;

use jetsink::delivery::{Received, Sink, Turn, write};

async fn store(delivery: Received, sink: &dyn Sink) {
    let _outcome = write(vec![delivery], sink, Turn::now(), Duration::from_secs(1), false).await;
}

fn main() {}
