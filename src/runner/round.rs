//! One round of one batch: gate → write → settle. All of a batch's control flow is here.
//!
//! A round ends with every record in one of four places: acknowledged, handed to the parking, given back, or in the
//! outcome, for another round later. So no batch sleeps: records that wait for their next try wait in the loop, and join
//! the next batch, whose other records are the witnesses that the sink works.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

use super::admit::{Admission, admit};
use super::attempts::History;
use super::core::Core;
use super::lanes::FirstTry;
use super::parking::Parking;
use super::settings::TemporaryFailureAction;
use super::settle::{release, settle};
use crate::delivery::{self, Admitted, CommitProof, Committed, Received, Rejected, Rejection, Turn};
use crate::disposition::{Disposition, Failure, Fault, Witness, decide};
use crate::envelope::Identity;
use crate::reason::{ErrorType, ReasonCode, Stage};

/// A record on its way to the sink.
#[derive(Debug)]
pub(super) enum Work {
    /// Not judged yet.
    New(Received),
    /// Admitted and tried before.
    Again(Tried),
}

/// A record that waits for another try.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) record: Admitted,
    pub(super) history: History,
    /// Not before this.
    pub(super) due: Instant,
    /// It raised, or was part of, the fault that began the present hold.
    pub(super) raised_hold: bool,
}

impl Work {
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::New(received) => received.envelope().weight(),
            Self::Again(tried) => tried.record.envelope().weight(),
        }
    }

    /// The largest batch it may be written in.
    pub(super) const fn company(&self) -> usize {
        match self {
            Self::New(_) => usize::MAX,
            Self::Again(tried) => tried.history.company,
        }
    }

    pub(super) const fn identity(&self) -> Identity {
        match self {
            Self::New(received) => received.identity(),
            Self::Again(tried) => tried.record.identity(),
        }
    }
}

/// What one round left over.
#[derive(Debug, Default)]
pub(super) struct RoundOutcome {
    /// Records for another round.
    pub(super) again: Vec<Tried>,
    /// The sink is down.
    pub(super) sink_down: Option<String>,
    /// Copies of messages that were given back: they take the place of the first.
    pub(super) copies: Vec<Received>,
    /// Whether the sink committed anything.
    pub(super) committed: bool,
}

/// Runs one round.
pub(super) async fn run_round(
    core: Arc<Core>,
    parking: Arc<Parking>,
    work: Vec<Work>,
    turn: Turn,
    first_try: FirstTry,
) -> RoundOutcome {
    let Admission { records, histories } = admit(&core, &parking, work).await;
    let size = records.len();
    let mut outcome = RoundOutcome::default();
    if size == 0 {
        turn.wait().await;
        return outcome;
    }
    let (committed, failed) = write(&core, &parking, records, turn).await;
    // In a strict lane nothing may pass a record that failed: its first try ends with the round.
    let _until_the_end = if core.settings.strict {
        Some(first_try)
    } else {
        drop(first_try);
        None
    };
    outcome.committed = !committed.is_empty();
    let witness = witness(&core, outcome.committed, size, &failed).await;
    let mut given_back = Vec::new();
    let mut head_judged = false;
    for (record, fault) in failed {
        let history = histories.get(&record.identity()).copied().unwrap_or_default();
        if core.settings.strict && std::mem::replace(&mut head_judged, true) {
            // It stood behind the record that failed and was not tried at all.
            outcome.again.push(Tried { record, history, due: Instant::now(), raised_hold: false });
            continue;
        }
        judge(&core, &parking, record, fault, history, witness, &mut outcome, &mut given_back);
    }
    give_back(&core, given_back, &mut outcome).await;
    acknowledge(&core, committed, &mut outcome).await;
    outcome
}

type Failed = Vec<(Admitted, Fault)>;

/// Writes the records; where the sink cannot say which one it refuses, the batch is bisected.
async fn write(
    core: &Core,
    parking: &Parking,
    records: Vec<Admitted>,
    turn: Turn,
) -> (Vec<Committed>, Failed) {
    let mut committed = Vec::new();
    let mut failed = Vec::new();
    let mut turn = Some(turn);
    let mut groups = vec![records];
    while let Some(group) = groups.pop() {
        let began = Instant::now();
        core.metrics.batch_records.observe(group.len());
        let turn = turn.take().unwrap_or_else(Turn::now);
        let (deadline, strict) = (core.settings.write_timeout, core.settings.strict);
        let written = delivery::write(group, &*core.ports.sink, turn, deadline, strict).await;
        core.metrics.write_seconds.observe(began.elapsed());
        committed.extend(written.committed);
        let mut undecided = Vec::new();
        for (record, fault) in written.failed {
            match fault {
                Fault::Refused(refusal) => parking.take(core, refuse(core, record, refusal)),
                Fault::RefusedSomewhere(refusal) => undecided.push((record, refusal)),
                Fault::Transient { .. } | Fault::SinkDown { .. } => failed.push((record, fault)),
            }
        }
        if undecided.len() > 1 {
            let right = undecided.split_off(undecided.len() / 2);
            groups.push(right.into_iter().map(|(record, _)| record).collect());
            groups.push(undecided.into_iter().map(|(record, _)| record).collect());
        } else if let Some((record, refusal)) = undecided.pop() {
            parking.take(core, refuse(core, record, refusal));
        }
        while core.settings.strict
            && !failed.is_empty()
            && let Some(behind) = groups.pop()
        {
            let fault = Fault::transient("it stands behind a record that failed");
            failed.extend(behind.into_iter().map(|record| (record, fault.clone())));
        }
    }
    (committed, failed)
}

fn refuse(core: &Core, record: Admitted, refusal: crate::disposition::Refusal) -> Rejected {
    warn!(
        stream_sequence = record.identity().sequence,
        reason = %refusal.reason,
        sink = core.ports.sink.name(),
        "the sink refuses the record"
    );
    record.refuse(refusal)
}

/// Who says that the sink works: another record of this round, or a probe right after a record that was alone.
async fn witness(core: &Core, committed: bool, size: usize, failed: &Failed) -> Witness {
    if committed {
        return Witness::AnotherCommitted;
    }
    if size == 1 && failed.len() == 1 && probe(core).await.is_ok() {
        return Witness::ProbePassed;
    }
    Witness::Nobody
}

/// Probes the sink, with the deadline of a write.
pub(super) async fn probe(core: &Core) -> Result<(), Fault> {
    let deadline = core.settings.write_timeout;
    tokio::time::timeout(deadline, core.ports.sink.probe())
        .await
        .unwrap_or_else(|_| Err(Fault::transient(format!("the probe did not end within {deadline:?}"))))
}

#[expect(clippy::too_many_arguments, reason = "one failed record and where its next place may be")]
fn judge(
    core: &Core,
    parking: &Parking,
    record: Admitted,
    fault: Fault,
    mut history: History,
    witness: Witness,
    outcome: &mut RoundOutcome,
    given_back: &mut Vec<(Admitted, Option<Duration>)>,
) {
    let History { attempts, downs_disproved, uncounted_rounds, .. } = history;
    let uncounted_rounds = uncounted_rounds.saturating_add(1);
    let failure = Failure { fault, attempts, witness, uncounted_rounds, downs_disproved };
    let disposition = decide(&failure, core.settings.max_attempts);
    let asked = match &failure.fault {
        Fault::Transient { retry_after, .. } => *retry_after,
        Fault::Refused(_) | Fault::RefusedSomewhere(_) | Fault::SinkDown { .. } => None,
    };
    debug!(
        stream_sequence = record.identity().sequence,
        ?disposition,
        detail = failure.fault.detail(),
        "not committed"
    );
    match disposition {
        Disposition::Refuse(refusal) => parking.take(core, refuse(core, record, refusal)),
        Disposition::Exhausted => {
            core.metrics.attempts_counted.increment();
            parking.take(core, exhaust(record, history.attempts + 1, &failure.fault));
        }
        Disposition::Retry { counted, alone } => {
            let failures = if counted {
                core.metrics.attempts_counted.increment();
                history.attempts += 1;
                history.uncounted_rounds = 0;
                history.attempts
            } else {
                history.uncounted_rounds = uncounted_rounds;
                uncounted_rounds
            };
            if alone {
                history.company = 1;
            }
            // With only the probe as a witness the sink may still be everybody's trouble: the slowest pace.
            let floor = if alone { core.settings.retry.max } else { Duration::ZERO };
            let delay = core.delay(failures).max(floor).max(asked.unwrap_or_default().min(LONGEST_WAIT));
            keep_or_give_back(core, record, history, delay, outcome, given_back);
        }
        Disposition::Hold => {
            history.uncounted_rounds = uncounted_rounds;
            outcome.sink_down.get_or_insert_with(|| failure.fault.detail().to_owned());
            outcome.again.push(Tried { record, history, due: Instant::now(), raised_hold: true });
        }
    }
}

/// The longest wait that a destination can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

fn keep_or_give_back(
    core: &Core,
    record: Admitted,
    history: History,
    delay: Duration,
    outcome: &mut RoundOutcome,
    given_back: &mut Vec<(Admitted, Option<Duration>)>,
) {
    match core.settings.temporary_failure_action {
        TemporaryFailureAction::HoldBatch => {
            outcome.again.push(Tried { record, history, due: Instant::now() + delay, raised_hold: false });
        }
        TemporaryFailureAction::Nak => {
            core.keep_history(record.identity(), history);
            given_back.push((record, Some(delay)));
        }
        TemporaryFailureAction::LeaveUnacked => {
            core.keep_history(record.identity(), history);
            given_back.push((record, None));
        }
    }
}

/// A record that used up its attempts.
fn exhaust(record: Admitted, attempts: u32, fault: &Fault) -> Rejected {
    warn!(stream_sequence = record.identity().sequence, attempts, "every attempt is used up");
    record.reject(Rejection {
        stage: Stage::Delivery,
        reason: ReasonCode::AttemptsExhausted,
        error_type: ErrorType::AttemptsExhausted,
        detail: format!(
            "{attempts} attempts failed while the sink worked for others; the last: {}",
            fault.detail()
        ),
    })
}

async fn give_back(core: &Core, given_back: Vec<(Admitted, Option<Duration>)>, outcome: &mut RoundOutcome) {
    if given_back.is_empty() {
        return;
    }
    let identities: Vec<_> = given_back.iter().map(|(record, _)| record.identity()).collect();
    let mut naks = Vec::new();
    for (record, delay) in given_back {
        match delay {
            Some(delay) => naks.push(record.release(Some(delay))),
            None => {
                core.metrics.deliveries_dropped.increment();
                drop(record);
            }
        }
    }
    release(core, naks).await;
    outcome.copies.extend(core.in_hand.leave(identities));
}

/// Acknowledges what is durable, and every copy of it that came meanwhile.
pub(super) async fn acknowledge(core: &Arc<Core>, mut committed: Vec<Committed>, outcome: &mut RoundOutcome) {
    if committed.is_empty() {
        return;
    }
    #[cfg(feature = "failpoints")]
    crate::failpoint::hit("runner.before_ack");
    core.metrics.messages_committed.add(committed.len());
    let proofs: Vec<CommitProof> = committed.iter().map(Committed::proof).collect();
    let mut identities: Vec<Identity> = proofs.iter().map(CommitProof::identity).collect();
    loop {
        let settlements = committed.into_iter().map(Committed::acknowledge).collect();
        settle(core, settlements, core.confirm()).await;
        #[cfg(feature = "failpoints")]
        crate::failpoint::hit("runner.after_ack");
        let copies = core.in_hand.leave(std::mem::take(&mut identities));
        if copies.is_empty() {
            return;
        }
        committed = Vec::new();
        for copy in copies {
            match proofs.iter().find(|proof| proof.identity() == copy.identity()) {
                Some(proof) => committed.extend(proof.share(copy).ok()),
                None => outcome.copies.push(copy),
            }
        }
    }
}

/// Ends the way of a message at the crash limit, unread. Where the sink remembers it, it is acknowledged: servers and
/// daemons that were killed between commit and ack raise the count as well. Else it is dead-lettered.
pub(super) async fn end_at_crash_limit(core: &Arc<Core>, parking: &Parking, received: Received) {
    let deliveries = received.envelope().delivery_count;
    let identity = received.identity();
    let remembered = tokio::time::timeout(core.settings.write_timeout, received.recall(&*core.ports.sink));
    match remembered.await {
        Ok(Ok(committed)) => {
            let mut outcome = RoundOutcome::default();
            acknowledge(core, vec![committed], &mut outcome).await;
        }
        Ok(Err(received)) => {
            warn!(stream_sequence = identity.sequence, deliveries, "crash limit: dead-lettered unread");
            parking.take(core, received.reject_unread(suspected_crash(deliveries)));
        }
        // The sink does not answer: the message comes again.
        Err(_) => {
            core.metrics.deliveries_dropped.increment();
            drop(core.in_hand.leave([identity]));
        }
    }
}

fn suspected_crash(count: u64) -> Rejection {
    Rejection {
        stage: Stage::Delivery,
        reason: ReasonCode::SuspectedCrash,
        error_type: ErrorType::UndeliverableMessage,
        detail: format!("delivered {count} times and never settled; dead-lettered unread"),
    }
}
