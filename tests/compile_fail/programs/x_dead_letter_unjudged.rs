//! Only what was rejected is dead-lettered.

use jetsink::clock::Timestamp;
use jetsink::delivery::{Admitted, DeadLetterPublisher};

async fn publish(delivery: Admitted, publisher: &dyn DeadLetterPublisher) {
    let _published = delivery.dead_letter(publisher, Timestamp(0)).await;
}

fn main() {}
