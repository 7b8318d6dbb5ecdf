//! A delivery that was handed to the sink cannot be given back as well.

use std::time::Duration;

use jetsink::delivery::{Admitted, Settlement, Sink, Turn, write};

async fn settle(delivery: Admitted, sink: &dyn Sink) -> Settlement {
    let _outcome = write(vec![delivery], sink, Turn::now(), Duration::from_secs(1), false).await;
    delivery.release(None)
}

fn main() {}
