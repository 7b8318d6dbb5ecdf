//! A sink in memory that fails as told.
//!
//! What is stored lives in the [`Warehouse`] and survives the daemon; a [`ScriptedSink`] is one daemon's way to it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::journal::{Journal, Step};
use crate::delivery::{BoxFuture, Guarantee, Sink, SinkLimits, Turn, WriteBatch, WriteReport};
use crate::disposition::{Fault, Refusal};
use crate::envelope::{Envelope, Identity};
use crate::reason::ReasonCode;

/// How the whole sink behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conduct {
    /// As it should.
    #[default]
    Works,
    /// Every record is transient.
    Transient {
        /// What the probe says meanwhile.
        probe_passes: bool,
    },
    /// Every record raises *sink down*, and the probe fails.
    Down,
    /// Neither a write nor a probe ends.
    Hangs,
    /// The first half of a batch is stored, the rest is transient.
    StoresHalf,
    /// All is stored, and then the answer is lost: every record is transient.
    LosesAnswer,
    /// All is stored, and then the write does not end.
    HangsAfterStoring,
}

/// How one record behaves, in a sink that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// It is refused for good.
    Refused,
    /// Its batch is refused, and the destination cannot say for which record.
    RefusedSomewhere,
    /// It is transient for ever.
    Transient,
    /// It is transient so many times.
    TransientTimes(u32),
    /// Its whole batch is transient for ever.
    SpoilsBatch,
    /// It raises *sink down* while the probe passes.
    Down,
}

/// A record in the warehouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// The message.
    pub identity: Identity,
    /// Its subject.
    pub subject: String,
    /// Its body.
    pub payload: Bytes,
}

#[derive(Debug)]
struct Contents {
    records: Vec<StoredRecord>,
    identities: HashSet<Identity>,
    conduct: Conduct,
    faults: HashMap<u64, RecordFault>,
    latency: Duration,
    writes: u64,
    probes: u64,
}

/// What outlives the daemons: the stored records, and the script.
#[derive(Clone, Debug)]
pub struct Warehouse {
    contents: Arc<Mutex<Contents>>,
    journal: Journal,
    guarantee: Guarantee,
    limits: SinkLimits,
}

impl Warehouse {
    /// An empty one that works. With [`Guarantee::EffectivelyOnce`] a record that is there already is not stored again.
    #[must_use]
    pub fn new(journal: Journal, guarantee: Guarantee) -> Self {
        let contents = Contents {
            records: Vec::new(),
            identities: HashSet::new(),
            conduct: Conduct::Works,
            faults: HashMap::new(),
            latency: Duration::from_millis(1),
            writes: 0,
            probes: 0,
        };
        let limits = SinkLimits { max_records: 10_000, max_bytes: 64 << 20 };
        Self { contents: Arc::new(Mutex::new(contents)), journal, guarantee, limits }
    }

    /// The same with other limits for one write.
    #[must_use]
    pub const fn with_limits(mut self, limits: SinkLimits) -> Self {
        self.limits = limits;
        self
    }

    /// One daemon's sink.
    #[must_use]
    pub fn open(&self) -> Arc<ScriptedSink> {
        Arc::new(ScriptedSink { warehouse: self.clone(), dead: AtomicBool::new(false) })
    }

    /// Changes how the sink behaves.
    pub fn set_conduct(&self, conduct: Conduct) {
        self.lock().conduct = conduct;
    }

    /// Changes how the record of this stream sequence behaves; `None` = as it should.
    pub fn set_record_fault(&self, sequence: u64, fault: Option<RecordFault>) {
        let mut contents = self.lock();
        match fault {
            Some(fault) => contents.faults.insert(sequence, fault),
            None => contents.faults.remove(&sequence),
        };
    }

    /// Changes how long a write takes.
    pub fn set_latency(&self, latency: Duration) {
        self.lock().latency = latency;
    }

    /// Everything stored, in order.
    #[must_use]
    pub fn records(&self) -> Vec<StoredRecord> {
        self.lock().records.clone()
    }

    /// How many records are stored.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().records.is_empty()
    }

    /// Whether this message is stored.
    #[must_use]
    pub fn holds(&self, identity: Identity) -> bool {
        self.lock().identities.contains(&identity)
    }

    /// How many writes there were, failed ones included.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// How many probes there were.
    #[must_use]
    pub fn probes(&self) -> u64 {
        self.lock().probes
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One daemon's way into a [`Warehouse`].
pub struct ScriptedSink {
    warehouse: Warehouse,
    dead: AtomicBool,
}

impl fmt::Debug for ScriptedSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ScriptedSink").finish_non_exhaustive()
    }
}

/// What a write does once its records are looked at.
enum Ending {
    Answer(WriteReport),
    Hang,
}

impl ScriptedSink {
    /// The daemon has died: no write of it has any effect any more.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    async fn hang_if_dead(&self) {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    async fn store(&self, batch: &WriteBatch, turn: Turn) -> WriteReport {
        turn.wait().await;
        let latency = {
            let mut contents = self.warehouse.lock();
            contents.writes += 1;
            contents.latency
        };
        // A write that is dropped half-way may or may not have stored its records.
        tokio::time::sleep(latency / 2).await;
        self.hang_if_dead().await;
        let (ending, committed) = self.store_now(batch);
        let sequences = batch.envelopes().map(|envelope| envelope.stream_sequence).collect();
        self.warehouse.journal.write(Step::Wrote { sequences, committed });
        tokio::time::sleep(latency / 2).await;
        self.hang_if_dead().await;
        match ending {
            Ending::Answer(report) => report,
            Ending::Hang => std::future::pending().await,
        }
    }

    /// Stores what the script lets pass; also says how many records are reported as durable.
    fn store_now(&self, batch: &WriteBatch) -> (Ending, usize) {
        let mut contents = self.warehouse.lock();
        let faults: Vec<_> = batch
            .envelopes()
            .map(|envelope| contents.faults.get(&envelope.stream_sequence).copied())
            .collect();
        let everybody = match contents.conduct {
            Conduct::Hangs => return (Ending::Hang, 0),
            Conduct::Transient { .. } => Some(Fault::transient("scripted: connection lost")),
            Conduct::Down => Some(Fault::sink_down("scripted: disk full")),
            Conduct::Works | Conduct::StoresHalf | Conduct::LosesAnswer | Conduct::HangsAfterStoring => {
                spoiled(&faults)
            }
        };
        if let Some(fault) = everybody {
            return (Ending::Answer(WriteReport::all(batch, &fault)), 0);
        }
        let mut report = WriteReport::new(batch);
        let mut committed = 0;
        let half = batch.len().div_ceil(2);
        for (index, (envelope, fault)) in batch.envelopes().zip(faults).enumerate() {
            let cut = contents.conduct == Conduct::StoresHalf && index >= half;
            let own = fault.and_then(|fault| contents.own_fault(envelope.stream_sequence, fault));
            let failed = match own {
                Some(Fault::Refused(refusal)) => {
                    report.refuse(index, refusal);
                    false
                }
                Some(fault) => {
                    report.fail(index, fault);
                    true
                }
                None if cut => {
                    report.fail(index, Fault::transient("scripted: cut half-way"));
                    true
                }
                None => {
                    self.keep(&mut contents, envelope);
                    report.commit(index);
                    committed += 1;
                    false
                }
            };
            if failed && batch.stops_at_first_failure() {
                break;
            }
        }
        match contents.conduct {
            Conduct::LosesAnswer => {
                let lost = Fault::transient("scripted: answer lost");
                (Ending::Answer(WriteReport::all(batch, &lost)), 0)
            }
            Conduct::HangsAfterStoring => (Ending::Hang, 0),
            Conduct::Works
            | Conduct::Transient { .. }
            | Conduct::Down
            | Conduct::Hangs
            | Conduct::StoresHalf => (Ending::Answer(report), committed),
        }
    }

    fn keep(&self, contents: &mut Contents, envelope: &Envelope) {
        let identity = envelope.identity();
        let known = !contents.identities.insert(identity);
        if known && self.warehouse.guarantee == Guarantee::EffectivelyOnce {
            return;
        }
        contents.records.push(StoredRecord {
            identity,
            subject: envelope.subject.clone(),
            payload: envelope.payload.clone(),
        });
        self.warehouse.journal.write(Step::Committed { identity });
    }

    async fn try_out(&self) -> Result<(), Fault> {
        self.hang_if_dead().await;
        let conduct = {
            let mut contents = self.warehouse.lock();
            contents.probes += 1;
            contents.conduct
        };
        match conduct {
            Conduct::Works
            | Conduct::Transient { probe_passes: true }
            | Conduct::StoresHalf
            | Conduct::LosesAnswer
            | Conduct::HangsAfterStoring => Ok(()),
            Conduct::Transient { probe_passes: false } => Err(Fault::transient("scripted: no connection")),
            Conduct::Down => Err(Fault::sink_down("scripted: disk full")),
            Conduct::Hangs => std::future::pending().await,
        }
    }
}

impl Contents {
    /// What this record's own fault is in this write.
    fn own_fault(&mut self, sequence: u64, fault: RecordFault) -> Option<Fault> {
        match fault {
            RecordFault::Refused => Some(Fault::Refused(refusal())),
            RecordFault::Transient => Some(Fault::transient("scripted: this record only")),
            RecordFault::TransientTimes(0) => None,
            RecordFault::TransientTimes(times) => {
                self.faults.insert(sequence, RecordFault::TransientTimes(times - 1));
                Some(Fault::transient("scripted: this record, for a while"))
            }
            RecordFault::Down => Some(Fault::sink_down("scripted: no table for this record")),
            RecordFault::RefusedSomewhere | RecordFault::SpoilsBatch => None,
        }
    }
}

/// The fault that one record brings upon its whole batch.
fn spoiled(faults: &[Option<RecordFault>]) -> Option<Fault> {
    faults.iter().flatten().find_map(|fault| match fault {
        RecordFault::RefusedSomewhere => Some(Fault::RefusedSomewhere(refusal())),
        RecordFault::SpoilsBatch => Some(Fault::transient("scripted: unknown driver error")),
        RecordFault::Refused
        | RecordFault::Transient
        | RecordFault::TransientTimes(_)
        | RecordFault::Down => None,
    })
}

fn refusal() -> Refusal {
    Refusal { reason: ReasonCode::SinkRefused, detail: "scripted: data error".into() }
}

impl Sink for ScriptedSink {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn limits(&self) -> SinkLimits {
        self.warehouse.limits
    }

    fn guarantee(&self) -> Guarantee {
        self.warehouse.guarantee
    }

    fn write<'a>(&'a self, batch: &'a WriteBatch, turn: Turn) -> BoxFuture<'a, WriteReport> {
        Box::pin(self.store(batch, turn))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.try_out())
    }

    fn close(&self, _deadline: Duration) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::{WriteOutcome, write};
    use crate::testing::builders;

    async fn outcome(warehouse: &Warehouse, sequences: std::ops::RangeInclusive<u64>) -> WriteOutcome {
        let records = sequences.map(|sequence| builders::envelope(sequence).admitted()).collect();
        write(records, &*warehouse.open(), Turn::now(), Duration::from_secs(5), false).await
    }

    fn failed(outcome: &WriteOutcome) -> Vec<u64> {
        outcome.failed.iter().map(|(record, _)| record.identity().sequence).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_record_fails_alone_for_as_long_as_told() {
        let warehouse = Warehouse::new(Journal::open(), Guarantee::EffectivelyOnce);
        warehouse.set_record_fault(2, Some(RecordFault::TransientTimes(1)));
        warehouse.set_record_fault(3, Some(RecordFault::Refused));
        assert_eq!(failed(&outcome(&warehouse, 1..=4).await), [2, 3]);
        assert_eq!(failed(&outcome(&warehouse, 1..=4).await), [3]);
        assert_eq!(warehouse.len(), 3, "a record that is there already is not stored again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_can_spoil_its_batch() {
        let warehouse = Warehouse::new(Journal::open(), Guarantee::AtLeastOnce);
        warehouse.set_record_fault(2, Some(RecordFault::RefusedSomewhere));
        let outcome = outcome(&warehouse, 1..=3).await;
        assert_eq!(failed(&outcome), [1, 2, 3]);
        assert!(outcome.failed.iter().all(|(_, fault)| matches!(fault, Fault::RefusedSomewhere(_))));
        assert!(warehouse.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_leaves_the_records_stored() {
        let warehouse = Warehouse::new(Journal::open(), Guarantee::AtLeastOnce);
        warehouse.set_conduct(Conduct::LosesAnswer);
        assert_eq!(outcome(&warehouse, 1..=3).await.committed.len(), 0);
        warehouse.set_conduct(Conduct::HangsAfterStoring);
        assert_eq!(outcome(&warehouse, 1..=3).await.committed.len(), 0);
        assert_eq!(warehouse.len(), 6);
        warehouse.set_conduct(Conduct::StoresHalf);
        assert_eq!(failed(&outcome(&warehouse, 4..=7).await), [6, 7]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_dead_daemon_writes_is_not_stored() {
        let warehouse = Warehouse::new(Journal::open(), Guarantee::AtLeastOnce);
        let sink = warehouse.open();
        sink.kill();
        let records = vec![builders::envelope(1).admitted()];
        let outcome = write(records, &*sink, Turn::now(), Duration::from_secs(5), false).await;
        assert_eq!((outcome.committed.len(), warehouse.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_probe_says_what_the_script_says() {
        let warehouse = Warehouse::new(Journal::open(), Guarantee::AtLeastOnce);
        let sink = warehouse.open();
        for (conduct, passes) in [
            (Conduct::Works, true),
            (Conduct::Transient { probe_passes: true }, true),
            (Conduct::Transient { probe_passes: false }, false),
            (Conduct::Down, false),
        ] {
            warehouse.set_conduct(conduct);
            assert_eq!(sink.probe().await.is_ok(), passes, "{conduct:?}");
        }
        assert_eq!(warehouse.probes(), 4);
    }
}
