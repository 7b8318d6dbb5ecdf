//! The model against the real server: the same schedule on both gives the same deliveries.
//!
//! Everything is done in the first 50 ms of a turn, ack waits end between 160 and 210 ms and delays of naks between 280 and
//! 330 ms of a later one, so that no two things are ever near one another.

mod on_model;
mod on_server;
#[path = "../../integration/harness/ports.rs"]
mod ports;
#[path = "../../integration/harness/server.rs"]
#[expect(dead_code, reason = "the integration tests do more with a server")]
mod server;
#[path = "../../integration/harness/wait.rs"]
#[expect(dead_code, reason = "the integration tests wait in more ways")]
mod wait;

use std::time::Duration;

use jetsink::disposition::Rng;

use self::ports::free_port;
use self::server::{Server, ServerPlan};
use self::wait::eventually;

/// Between two turns of a schedule.
const TURN: Duration = Duration::from_millis(400);
const ACK_WAIT: Duration = Duration::from_millis(960);
const NAK_DELAY: Duration = Duration::from_millis(680);
/// How long a pull stays open: what is there comes at once.
const EXPIRES: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
enum Verb {
    Ack,
    Nak,
    NakLater,
    Term,
    InProgress,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Publish,
    /// Asks for so many messages.
    Pull(usize),
    /// Says something about the n-th message in hand, counted in a circle; nothing when there is none.
    Say(usize, Verb),
}

#[derive(Clone, Debug)]
struct Schedule {
    name: String,
    max_deliver: Option<u64>,
    max_ack_pending: usize,
    work_queue: bool,
    turns: Vec<Vec<Move>>,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Every pull: stream sequence and delivered count, sorted.
    pulls: Vec<Vec<(u64, u64)>>,
    /// What the durable says at the end: unsettled, undelivered, ack floor, delivered.
    facts: (u64, u64, u64, u64),
    /// Messages left in the stream.
    kept: u64,
}

impl Schedule {
    /// The ack floor, where it is comparable: the server moves it past exhausted messages at a time of its own.
    fn floor(&self, floor: u64) -> u64 {
        if self.max_deliver.is_none() { floor } else { 0 }
    }

    fn seeded(seed: u64) -> Self {
        let rng = &mut Rng::seeded(seed);
        let below = |rng: &mut Rng, bound: u64| usize::try_from(rng.below(bound)).unwrap();
        let turns = (0..16)
            .map(|_| {
                (0..=below(rng, 4))
                    .map(|_| match rng.below(10) {
                        0..2 => Move::Publish,
                        2..6 => Move::Pull(1 + below(rng, 4)),
                        _ => {
                            let verb = [Verb::Ack, Verb::Nak, Verb::NakLater, Verb::Term, Verb::InProgress]
                                [below(rng, 5)];
                            Move::Say(below(rng, 8), verb)
                        }
                    })
                    .collect()
            })
            .collect();
        Self {
            name: format!("seed{seed}"),
            max_deliver: [None, None, Some(2), Some(3)][below(rng, 4)],
            max_ack_pending: [2, 4, 1000][below(rng, 3)],
            work_queue: below(rng, 3) == 0,
            turns,
        }
    }
}

/// Some messages first, then silence, so that ack waits end; a delayed nak, in progress, a term and an ack between.
fn by_hand() -> Schedule {
    let quiet = Vec::new;
    Schedule {
        name: "by-hand".into(),
        max_deliver: Some(3),
        max_ack_pending: 4,
        work_queue: false,
        turns: vec![
            vec![Move::Publish, Move::Publish, Move::Publish, Move::Publish, Move::Publish, Move::Pull(5)],
            vec![
                Move::Say(0, Verb::Ack),
                Move::Say(0, Verb::NakLater),
                Move::Say(1, Verb::InProgress),
                Move::Pull(5),
            ],
            vec![Move::Pull(5), Move::Say(2, Verb::Term)],
            vec![Move::Pull(2)],
            vec![Move::Pull(5)],
            quiet(),
            quiet(),
            vec![Move::Pull(1), Move::Say(0, Verb::Nak), Move::Pull(5)],
            quiet(),
            quiet(),
            quiet(),
            vec![Move::Pull(5)],
            quiet(),
            quiet(),
            quiet(),
            vec![Move::Pull(5)],
        ],
    }
}

#[test]
fn the_model_does_what_the_real_server_does() {
    let schedules: Vec<_> = std::iter::once(by_hand()).chain((1..=20).map(Schedule::seeded)).collect();
    let expected = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(on_server::play_all(&schedules));
    for (schedule, expected) in schedules.iter().zip(expected) {
        let seen = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime")
            .block_on(on_model::play(schedule));
        assert_eq!(seen, expected, "left the model, right the server: {schedule:#?}");
    }
}
