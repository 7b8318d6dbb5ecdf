//! The first part of a round: judging what is new.
//!
//! A light gate judges in the task of the round. A heavy one (a public-key signature takes tens of microseconds) would hold
//! up everything else that the thread has to do, so it judges on the blocking pool, in chunks, a few of them at once. The
//! order stays. A panic in there ends the round as a panic in the round itself does: the loop ends, everything in hand
//! comes back by redelivery, and the crash limit finds the message that is to blame.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::attempts::History;
use super::core::Core;
use super::parking::Parking;
use super::round::{Tried, Work};
use crate::delivery::{Admitted, Gate, Rejected};
use crate::envelope::Identity;

/// Deliveries judged by one thread in one go: some milliseconds of work.
const CHUNK: usize = 64;

/// What may be written.
#[derive(Debug, Default)]
pub(super) struct Admission {
    pub(super) records: Vec<Admitted>,
    pub(super) histories: HashMap<Identity, History>,
}

/// A record on its way to the sink that the gate has seen.
#[derive(Debug)]
enum Judged {
    New(Result<Admitted, Box<Rejected>>),
    Again(Tried),
}

/// Judges what is new; rejections go to the parking.
pub(super) async fn admit(core: &Core, parking: &Parking, work: Vec<Work>) -> Admission {
    let mut admission = Admission { records: Vec::with_capacity(work.len()), histories: HashMap::new() };
    let gate = &core.ports.gate;
    if gate.is_heavy() && work.iter().any(|one| matches!(one, Work::New(_))) {
        for judged in judge_on_the_pool(gate, &core.judges, work).await {
            admission.take(core, parking, judged);
        }
    } else {
        for one in work {
            admission.take(core, parking, judge(one, &**gate));
        }
    }
    admission
}

fn judge(one: Work, gate: &dyn Gate) -> Judged {
    match one {
        Work::New(received) => {
            // Stands for whatever in a message may end the process before anything can be said about it.
            #[cfg(feature = "failpoints")]
            if received.envelope().payload.as_ref() == b"BOOM" {
                crate::failpoint::hit("gate.boom");
            }
            Judged::New(received.admit(gate))
        }
        Work::Again(tried) => Judged::Again(tried),
    }
}

async fn judge_on_the_pool(gate: &Arc<dyn Gate>, judges: &Semaphore, work: Vec<Work>) -> Vec<Judged> {
    let mut chunks = Vec::with_capacity(work.len().div_ceil(CHUNK));
    let mut work = work.into_iter();
    loop {
        let chunk: Vec<_> = work.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        chunks.push(judge_chunk(gate, judges, chunk));
    }
    join_all(chunks).await.into_iter().flatten().collect()
}

async fn judge_chunk(gate: &Arc<dyn Gate>, judges: &Semaphore, chunk: Vec<Work>) -> Vec<Judged> {
    // Nobody closes it.
    let _permit = judges.acquire().await;
    let gate = Arc::clone(gate);
    let judged = spawn_blocking(move || chunk.into_iter().map(|one| judge(one, &*gate)).collect()).await;
    judged.unwrap_or_else(|error| {
        std::panic::resume_unwind(error.try_into_panic().unwrap_or_else(|ended| Box::new(ended)))
    })
}

impl Admission {
    fn take(&mut self, core: &Core, parking: &Parking, judged: Judged) {
        match judged {
            Judged::Again(tried) => {
                core.metrics.retries.increment();
                self.histories.insert(tried.record.identity(), tried.history);
                self.records.push(tried.record);
            }
            Judged::New(Ok(record)) => {
                if let Some(warning) = record.warning() {
                    core.metrics.policy_warnings.increment(warning.reason);
                    core.notices.warned(record.envelope(), warning);
                }
                if let Some(history) = core.take_history(&record.identity()) {
                    self.histories.insert(record.identity(), history);
                }
                core.breaker.note_passed();
                self.records.push(record);
            }
            Judged::New(Err(rejected)) => {
                core.notices.rejected(rejected.envelope(), rejected.rejection());
                parking.take(core, *rejected);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::thread::ThreadId;

    use super::*;
    use crate::delivery::{Judgement, Verdict};
    use crate::envelope::Envelope;
    use crate::testing::builders;

    /// Rejects every third message, panics at one, and notes who judges.
    #[derive(Default)]
    struct HeavyGate {
        panics_at: Option<u64>,
        threads: Mutex<HashSet<ThreadId>>,
    }

    impl Gate for HeavyGate {
        fn judge(&self, envelope: &Envelope) -> Judgement {
            self.threads.lock().unwrap().insert(std::thread::current().id());
            assert_ne!(Some(envelope.stream_sequence), self.panics_at, "the gate panics");
            if envelope.stream_sequence.is_multiple_of(3) {
                return Verdict::Rejected(builders::too_large()).into();
            }
            Verdict::Permitted.into()
        }

        fn is_heavy(&self) -> bool {
            true
        }
    }

    fn work() -> Vec<Work> {
        (1..=1000).map(|sequence| Work::New(builders::envelope(sequence).received())).collect()
    }

    #[tokio::test]
    async fn chunks_are_judged_elsewhere_and_the_order_stays() {
        let gate = Arc::new(HeavyGate::default());
        let judged =
            judge_on_the_pool(&(Arc::clone(&gate) as Arc<dyn Gate>), &Semaphore::new(2), work()).await;
        let sequences = judged.iter().map(|one| match one {
            Judged::New(Ok(admitted)) => (admitted.identity().sequence, true),
            Judged::New(Err(rejected)) => (rejected.identity().sequence, false),
            Judged::Again(tried) => panic!("{tried:?} was not there"),
        });
        let expected = (1..=1000).map(|sequence| (sequence, sequence % 3 != 0));
        assert!(sequences.eq(expected));
        assert!(!gate.threads.lock().unwrap().contains(&std::thread::current().id()));
    }

    #[tokio::test]
    async fn a_panic_of_the_gate_ends_the_round() {
        let round = tokio::spawn(async {
            let gate: Arc<dyn Gate> = Arc::new(HeavyGate { panics_at: Some(500), ..HeavyGate::default() });
            judge_on_the_pool(&gate, &Semaphore::new(2), work()).await.len()
        });
        assert!(round.await.unwrap_err().is_panic());
    }
}
