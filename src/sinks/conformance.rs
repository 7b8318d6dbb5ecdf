//! What every sink must do, run for each of them (design §9), and the few builders it needs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::delivery::{
    Admitted, Gate, Guarantee, Judgement, Received, Sink, Turn, TurnQueue, Verdict, WriteOutcome, write,
};
use crate::disposition::Fault;
use crate::envelope::{Body, Envelope, Headers, Incarnation, SharedMetadata, SourceNames};
use crate::reason::ReasonCode;

/// When the message of sequence 0 was stored; the others follow by 50 µs.
pub(crate) const EPOCH: i64 = 1_796_078_187_322_511_484;
const DEADLINE: Duration = Duration::from_secs(30);

struct Open;

impl Gate for Open {
    fn judge(&self, _: &Envelope) -> Judgement {
        Verdict::Permitted.into()
    }
}

/// A message of stream ORDERS with a JSON payload that holds its sequence.
pub(crate) fn message(sequence: u64) -> Envelope {
    Envelope {
        subject: format!("orders.{}", sequence % 3),
        headers: Headers::new(),
        payload: Bytes::from(format!("{{\"n\":{sequence}}}")),
        body: Body::Present,
        source: SourceNames::shared("ORDERS", "sink"),
        stream_sequence: sequence,
        consumer_sequence: sequence,
        delivery_count: 1,
        stored_at: Timestamp(EPOCH + i64::try_from(sequence).unwrap() * 50_000),
        pending: 0,
        metadata: SharedMetadata::NONE,
    }
}

pub(crate) fn messages(sequences: impl IntoIterator<Item = u64>) -> Vec<Envelope> {
    sequences.into_iter().map(message).collect()
}

pub(crate) fn admit(envelopes: Vec<Envelope>) -> Vec<Admitted> {
    envelopes
        .into_iter()
        .map(|envelope| {
            Received::new(envelope, Bytes::from_static(b"reply"), Incarnation(1)).admit(&Open).unwrap()
        })
        .collect()
}

pub(crate) async fn write_with(sink: &dyn Sink, envelopes: Vec<Envelope>, turn: Turn) -> WriteOutcome {
    write(admit(envelopes), sink, turn, DEADLINE, false).await
}

/// Writes and gives the faults by sequence.
pub(crate) async fn write_now(sink: &dyn Sink, envelopes: Vec<Envelope>) -> Vec<(u64, Fault)> {
    let count = envelopes.len();
    let outcome = write_with(sink, envelopes, Turn::now()).await;
    assert_eq!(outcome.committed.len() + outcome.failed.len(), count);
    outcome.failed.into_iter().map(|(record, fault)| (record.identity().sequence, fault)).collect()
}

/// A sink under test: `payload_mode` is `json_only`.
pub(crate) struct Rig {
    pub(crate) sink: Arc<dyn Sink>,
    /// The sequences that are stored, in the order of the destination, each as often as it is there.
    pub(crate) stored: Box<dyn Fn() -> Vec<u64> + Send + Sync>,
    /// Records come out in the order they were written in.
    pub(crate) ordered: bool,
}

/// Runs the suite; each part gets a new rig.
pub(crate) async fn run(rig: impl Fn() -> Rig + Sync) {
    for part in 0..6 {
        let rig = rig();
        match part {
            0 => partial_failure(&rig).await,
            1 => duplicates(&rig).await,
            2 => oversize(&rig).await,
            3 => cancellation(&rig).await,
            4 => turns(&rig).await,
            _ => probe(&rig).await,
        }
        // Nothing may still be at work when the rig goes.
        let stored = sorted((rig.stored)());
        assert_eq!(rig.sink.close(DEADLINE).await, Ok(()));
        assert_eq!(sorted((rig.stored)()), stored);
    }
}

fn sorted(mut sequences: Vec<u64>) -> Vec<u64> {
    sequences.sort_unstable();
    sequences
}

async fn partial_failure(rig: &Rig) {
    let mut batch = messages(1..=5);
    batch[2].payload = Bytes::from_static(b"{\"n\":3,\"n\":3}");
    let failed = write_now(rig.sink.as_ref(), batch).await;
    assert_eq!(failed.len(), 1);
    assert!(
        matches!(&failed[0], (3, Fault::Refused(refusal)) if refusal.reason == ReasonCode::PayloadNotJson)
    );
    assert_eq!(sorted((rig.stored)()), [1, 2, 4, 5]);
}

async fn duplicates(rig: &Rig) {
    for batch in [messages([1, 2]), messages([2, 3, 3]), messages([1, 2, 3])] {
        assert_eq!(write_now(rig.sink.as_ref(), batch).await, []);
    }
    let stored = sorted((rig.stored)());
    match rig.sink.guarantee() {
        Guarantee::EffectivelyOnce => assert_eq!(stored, [1, 2, 3]),
        Guarantee::AtLeastOnce => {
            for sequence in 1..=3 {
                assert!(stored.contains(&sequence));
            }
        }
    }
}

async fn oversize(rig: &Rig) {
    assert!(rig.sink.limits().max_records >= 1 && rig.sink.limits().max_bytes >= 1 << 20);
    let mut large = message(2);
    large.payload = Bytes::from(format!("{{\"n\":2,\"text\":\"{}\"}}", "x".repeat(9 << 20)));
    assert_eq!(write_now(rig.sink.as_ref(), vec![message(1), large, message(3)]).await, []);
    assert_eq!(sorted((rig.stored)()), [1, 2, 3]);
}

/// A write that nobody waits for any more may be there or not; written again, it is there.
async fn cancellation(rig: &Rig) {
    for round in 0..20_u64 {
        let batch = || messages(round * 10..round * 10 + 10);
        let mut first = Box::pin(write_with(rig.sink.as_ref(), batch(), Turn::now()));
        for _ in 0..round / 4 {
            if futures_util::poll!(first.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(first);
        assert_eq!(write_now(rig.sink.as_ref(), batch()).await, []);
    }
    let mut stored = sorted((rig.stored)());
    if rig.sink.guarantee() == Guarantee::AtLeastOnce {
        stored.dedup();
    }
    assert_eq!(stored, (0..200).collect::<Vec<_>>());
}

async fn turns(rig: &Rig) {
    let mut queue = TurnQueue::default();
    let (one, one_over) = queue.take();
    let (two, two_over) = queue.take();
    let second = async {
        assert!(write_with(rig.sink.as_ref(), messages(11..=20), two).await.failed.is_empty());
        drop(two_over);
    };
    let first = async {
        assert!(write_with(rig.sink.as_ref(), messages(1..=10), one).await.failed.is_empty());
        drop(one_over);
    };
    tokio::join!(second, first);
    let stored = (rig.stored)();
    let expected: Vec<u64> = (1..=20).collect();
    if rig.ordered {
        assert_eq!(stored, expected);
    } else {
        assert_eq!(sorted(stored), expected);
    }
}

async fn probe(rig: &Rig) {
    assert_eq!(write_now(rig.sink.as_ref(), messages(1..=3)).await, []);
    assert_eq!(rig.sink.probe().await, Ok(()));
    rig.sink.note_ack_floor(3).await;
    assert_eq!(sorted((rig.stored)()), [1, 2, 3]);
}
