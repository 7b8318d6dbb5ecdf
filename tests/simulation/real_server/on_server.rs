//! A schedule on a real server, over the plain protocol: what is compared must not depend on a library's own pull loop.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{self, RetentionPolicy};
use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until, timeout};

use super::{ACK_WAIT, EXPIRES, Move, NAK_DELAY, Schedule, Seen, Server, ServerPlan, TURN, Verb};

/// Times a schedule is played anew because the machine was too busy to keep its pace. What was seen at the wrong time
/// says nothing; a difference seen in time is never played again.
const TRIES: u32 = 5;

/// When a turn must be over.
const LATEST: Duration = Duration::from_millis(100);

/// Plays every schedule, a few at once, each on a stream of its own.
pub(super) async fn play_all(schedules: &[Schedule]) -> Vec<Seen> {
    let server = Server::start(&ServerPlan::default()).await;
    let client = async_nats::connect(server.url()).await.expect("it connects");
    let mut seen = Vec::with_capacity(schedules.len());
    for group in schedules.chunks(21) {
        seen.extend(join_all(group.iter().map(|schedule| play_in_time(&client, schedule))).await);
    }
    seen
}

async fn play_in_time(client: &Client, schedule: &Schedule) -> Seen {
    for number in 0..TRIES {
        if let Some(seen) = play(client, schedule, &format!("{}-{number}", schedule.name)).await {
            return seen;
        }
    }
    panic!("this machine is too busy: a turn of {} took more than {LATEST:?}", schedule.name)
}

struct Player<'a> {
    client: &'a Client,
    name: &'a str,
    /// The reply subjects of the latest deliveries, by stream sequence.
    in_hand: BTreeMap<u64, Subject>,
}

/// `None` when a turn took too long.
async fn play(client: &Client, schedule: &Schedule, name: &str) -> Option<Seen> {
    let jetstream = async_nats::jetstream::new(client.clone());
    let retention = if schedule.work_queue { RetentionPolicy::WorkQueue } else { RetentionPolicy::Limits };
    let config = stream::Config {
        name: name.into(),
        subjects: vec![format!("{name}.>")],
        retention,
        ..stream::Config::default()
    };
    let mut stream = jetstream.create_stream(config).await.expect("the stream is created");
    let config = pull::Config {
        durable_name: Some("w".into()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_deliver: schedule.max_deliver.map_or(-1, |most| i64::try_from(most).expect("a small number")),
        max_ack_pending: i64::try_from(schedule.max_ack_pending).expect("a small number"),
        ..pull::Config::default()
    };
    let mut consumer = stream.create_consumer(config).await.expect("the durable is created");
    let mut player = Player { client, name, in_hand: BTreeMap::new() };
    let start = Instant::now();
    let mut seen = Seen::default();
    for (turn, moves) in (0u32..).zip(&schedule.turns) {
        sleep_until(start + TURN * turn).await;
        for one in moves {
            match one {
                Move::Publish => {
                    let stored =
                        jetstream.publish(format!("{name}.a"), "{}".into()).await.expect("it is sent");
                    stored.await.expect("it is stored");
                }
                Move::Pull(batch) => seen.pulls.push(player.pull(*batch).await),
                Move::Say(index, verb) => player.say(*index, *verb).await,
            }
        }
        if Instant::now() > start + TURN * turn + LATEST {
            return None;
        }
    }
    // One more turn: the durable learns of the last message a little later than its publisher.
    sleep_until(start + TURN * u32::try_from(schedule.turns.len()).expect("a small number")).await;
    let facts = consumer.info().await.expect("the durable is there");
    seen.facts = (
        facts.num_ack_pending as u64,
        facts.num_pending,
        schedule.floor(facts.ack_floor.stream_sequence),
        facts.delivered.stream_sequence,
    );
    seen.kept = stream.info().await.expect("the stream is there").state.messages;
    Some(seen)
}

impl Player<'_> {
    async fn pull(&mut self, batch: usize) -> Vec<(u64, u64)> {
        let inbox = self.client.new_inbox();
        let mut arrivals = self.client.subscribe(inbox.clone()).await.expect("it subscribes");
        let request = format!("{{\"batch\":{batch},\"expires\":{}}}", EXPIRES.as_nanos());
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.w", self.name);
        self.client.publish_with_reply(subject, inbox, request.into()).await.expect("it is sent");
        let mut seen = Vec::new();
        while seen.len() < batch {
            let arrival = timeout(Duration::from_secs(5), arrivals.next()).await;
            let message = arrival.expect("the pull ends in time").expect("the connection lives");
            let Some(reply) = message.reply.filter(|_| message.status.is_none()) else { break };
            let number = |index: usize| reply.split('.').nth(index).and_then(|text| text.parse().ok());
            let (count, sequence) = (number(4).expect("a count"), number(5).expect("a sequence"));
            seen.push((sequence, count));
            self.in_hand.insert(sequence, reply);
        }
        seen.sort_unstable();
        seen
    }

    async fn say(&mut self, index: usize, verb: Verb) {
        let Some(&sequence) = self.in_hand.keys().nth(index % self.in_hand.len().max(1)) else { return };
        let text: Bytes = match verb {
            Verb::Ack => "+ACK".into(),
            Verb::Nak => "-NAK".into(),
            Verb::NakLater => format!("-NAK {{\"delay\":{}}}", NAK_DELAY.as_nanos()).into(),
            Verb::Term => "+TERM".into(),
            Verb::InProgress => "+WPI".into(),
        };
        let reply = self.in_hand[&sequence].clone();
        if !matches!(verb, Verb::InProgress) {
            self.in_hand.remove(&sequence);
        }
        // A request: its answer means that the server has handled it.
        let answer = self.client.request(reply, text).await.expect("the server answers");
        assert_eq!(answer.status, None);
    }
}
