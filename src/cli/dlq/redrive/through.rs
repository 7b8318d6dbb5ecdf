//! A redrive straight through the configured gate and into the sink: other consumers of the stream see nothing.
//!
//! Each message keeps its identity (stream, sequence and time of its original), so a sink that remembers writes it once,
//! whatever was committed before a crash. A letter is deleted only with the commit in hand; one that is rejected again stays.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Arguments, Outcome};
use crate::app::open_sink;
use crate::checks::Gate;
use crate::cli::dlq::failure::Failure;
use crate::cli::dlq::letters::{Letter, recovered};
use crate::cli::dlq::progress::Progress;
use crate::cli::dlq::source::Source;
use crate::cli::dlq::target::Opened;
use crate::cli::output;
use crate::config::Settings;
use crate::dead_letter::Recovered;
use crate::delivery::{Admitted, Committed, Sink, Turn, write};
use crate::disposition::Fault;
use crate::envelope::{Body, Envelope, Identity, SharedMetadata, SourceNames};
use crate::nats::{Answer, NatsError, Requests, StreamPages, chain, replayed};
use crate::telemetry::Health;

/// How long the sink may take to open: a daemon that writes into the same place holds its lock.
const OPEN: Duration = Duration::from_secs(10);
const WRITE: Duration = Duration::from_secs(60);
const CLOSE: Duration = Duration::from_secs(10);
const BATCH: usize = 200;
const BATCH_BYTES: usize = 4 << 20;
/// Waits between tries of a write that may pass next time.
const TRIES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

struct Through<'a> {
    settings: Settings,
    sink: Arc<dyn Sink>,
    gate: Gate,
    stream: String,
    requests: Requests,
    patience: Duration,
    outcome: Outcome,
    progress: &'a mut Progress,
}

/// Letters whose messages passed the gate, by identity; no identity twice.
#[derive(Default)]
struct Batch {
    admitted: Vec<Admitted>,
    letters: Vec<(Identity, Letter)>,
    bytes: usize,
}

/// Redrives every letter; what was done is told also when it ends early.
pub(super) async fn redrive(
    arguments: &Arguments,
    opened: &mut Opened,
    mut source: Source<'_>,
    progress: &mut Progress,
) -> Result<(Outcome, Result<(), Failure>), Failure> {
    let Some(settings) = opened.settings.clone() else {
        return Err(Failure::refused("--through-pipeline needs the configuration of the pipeline: -c FILE"));
    };
    let gate = Gate::open(settings.gate.clone()).map_err(|error| Failure::refused(chain(&error)))?;
    let sink = open(&settings).await?;
    let mut through = Through {
        settings,
        sink: Arc::clone(&sink),
        gate,
        stream: opened.pages.stream().to_owned(),
        requests: Requests::open(&opened.connection).await?,
        patience: opened.request_timeout,
        outcome: Outcome::default(),
        progress,
    };
    let ended = through.all(arguments, &mut opened.pages, &mut source).await;
    let outcome = through.outcome;
    through.progress.clear();
    if let Err(fault) = sink.close(CLOSE).await {
        output::to_stderr(&format!("the sink could not finish everything: {}\n", fault.detail()));
    }
    output::to_stderr(&source.tally().remarks());
    Ok((outcome, ended))
}

async fn open(settings: &Settings) -> Result<Arc<dyn Sink>, Failure> {
    let health = Health::new();
    let stop = CancellationToken::new();
    let late = stop.clone();
    let opening = open_sink(settings, &health, &stop);
    let opened = tokio::select! {
        opened = opening => opened,
        () = async { sleep(OPEN).await; late.cancel(); std::future::pending().await } => Ok(None),
    };
    match opened {
        Ok(Some(sink)) => Ok(sink),
        Ok(None) => {
            let reasons = health.reasons().into_iter().filter(|(_, detail)| !detail.is_empty());
            let reasons: Vec<_> =
                reasons.map(|(reason, detail)| format!("{}: {detail}", reason.as_str())).collect();
            Err(Failure::refused(format!(
                "the sink cannot be opened (a daemon that writes into it has to be stopped first): {}",
                reasons.join("; ")
            )))
        }
        Err(error) => Err(Failure::refused(chain(&*error))),
    }
}

impl Through<'_> {
    async fn all(
        &mut self,
        arguments: &Arguments,
        pages: &mut StreamPages,
        source: &mut Source<'_>,
    ) -> Result<(), Failure> {
        let pause = arguments.rate.map(|rate| Duration::from_secs(1) / rate);
        let mut next_at = Instant::now();
        let limits = self.sink.limits();
        // With a rate each letter goes alone, or they would come in bursts.
        let most = if pause.is_some() { 1 } else { BATCH.min(limits.max_records) };
        let most_bytes = BATCH_BYTES.min(limits.max_bytes);
        let mut batch = Batch::default();
        let mut tried = 0;
        while tried < arguments.limit() {
            let Some((letter, stored)) = source.next(pages).await? else { break };
            let original = recovered(pages, &letter, stored.as_ref()).await?;
            let envelope = match original.and_then(|original| self.envelope(&letter, original)) {
                Ok(envelope) => envelope,
                Err(why) => {
                    self.keep(&letter, &why);
                    continue;
                }
            };
            if let Some(pause) = pause {
                sleep_until(next_at).await;
                next_at = next_at.max(Instant::now() - pause) + pause;
            }
            tried += 1;
            let weight = envelope.weight();
            let identity = envelope.identity();
            let is_there = batch.letters.iter().any(|(own, _)| *own == identity);
            if is_there || batch.bytes + weight > most_bytes {
                self.write(std::mem::take(&mut batch)).await?;
            }
            self.admit(&mut batch, letter, envelope).await?;
            if batch.letters.len() >= most {
                self.write(std::mem::take(&mut batch)).await?;
            }
            let (done, total) = source.progress();
            self.progress.show(done, total);
        }
        self.write(batch).await
    }

    /// The delivery as the pipeline would have it now.
    fn envelope(&self, letter: &Letter, original: Recovered) -> Result<Envelope, String> {
        let summary = &letter.summary;
        let consumer = &self.settings.consumer;
        if original.stream != consumer.stream {
            return Err(format!(
                "it is of stream {}, and the pipeline of stream {}",
                original.stream, consumer.stream
            ));
        }
        let stored_at = summary.stored_at.ok_or("it does not tell when its original was stored")?;
        if !original.redacted.is_empty() {
            return Err(format!(
                "it has marks in place of the values of {} (dead_letter.redact_headers): it is not what was sent",
                original.redacted.join(", ")
            ));
        }
        let payload = original.body.ok_or("it does not carry the body")?;
        let headers = original.headers.ok_or("it does not carry the original's headers")?;
        let durable = summary.consumer.clone().unwrap_or_else(|| consumer.durable.clone());
        Ok(Envelope {
            subject: original.subject,
            headers,
            payload,
            body: Body::Present,
            source: SourceNames::shared(original.stream, durable),
            stream_sequence: original.stream_sequence,
            consumer_sequence: 0,
            delivery_count: summary.delivery_count.unwrap_or(1).max(1),
            stored_at,
            pending: 0,
            metadata: SharedMetadata::NONE,
        })
    }

    async fn admit(&mut self, batch: &mut Batch, letter: Letter, envelope: Envelope) -> Result<(), Failure> {
        let weight = envelope.weight();
        let identity = envelope.identity();
        let received = match replayed(envelope).recall(&*self.sink).await {
            Ok(committed) => {
                self.outcome.already_there += 1;
                return self.delete(&committed, &letter).await;
            }
            Err(received) => received,
        };
        match received.admit(&self.gate) {
            Ok(admitted) => {
                batch.bytes += weight;
                batch.admitted.push(admitted);
                batch.letters.push((identity, letter));
            }
            Err(rejected) => {
                let rejection = rejected.rejection();
                let (stage, reason) = (rejection.stage.as_str(), rejection.reason);
                let why = format!("rejected again, {stage}: {reason}: {}", rejection.detail);
                self.keep(&letter, &why);
            }
        }
        Ok(())
    }

    async fn write(&mut self, batch: Batch) -> Result<(), Failure> {
        let Batch { admitted, letters, .. } = batch;
        let mut rounds = vec![admitted];
        let mut tries = TRIES.iter();
        while let Some(records) = rounds.pop() {
            if records.is_empty() {
                continue;
            }
            let alone = records.len() == 1;
            let outcome = write(records, &*self.sink, Turn::now(), WRITE, false).await;
            for committed in &outcome.committed {
                let identity = committed.identity();
                if let Some((_, letter)) = letters.iter().find(|(own, _)| *own == identity) {
                    self.delete(committed, letter).await?;
                }
            }
            let mut again = Vec::new();
            let mut trouble = None;
            for (record, fault) in outcome.failed {
                let letter =
                    letters.iter().find(|(own, _)| *own == record.identity()).map(|(_, letter)| letter);
                match fault {
                    Fault::Refused(refusal) => self.refused(letter, refusal.reason.as_str(), &refusal.detail),
                    Fault::RefusedSomewhere(refusal) if alone => {
                        self.refused(letter, refusal.reason.as_str(), &refusal.detail);
                    }
                    // Which one it is shows when each goes alone.
                    Fault::RefusedSomewhere(_) => rounds.push(vec![record]),
                    Fault::SinkDown { detail } => return Err(self.stopped(&detail)),
                    Fault::Transient { detail, .. } => {
                        trouble = Some(detail);
                        again.push(record);
                    }
                }
            }
            if let Some(detail) = trouble {
                let Some(wait) = tries.next() else { return Err(self.stopped(&detail)) };
                sleep(*wait).await;
                rounds.push(again);
            }
        }
        Ok(())
    }

    fn stopped(&self, detail: &str) -> Failure {
        Failure::refused(format!(
            "stopped, what was not written stays: the {} sink: {detail}",
            self.sink.name()
        ))
    }

    fn refused(&mut self, letter: Option<&Letter>, reason: &str, detail: &str) {
        if let Some(letter) = letter {
            self.keep(letter, &format!("refused by the sink: {reason}: {detail}"));
        }
    }

    /// The commit is the proof by which the letter may go.
    async fn delete(&mut self, _proof: &Committed, letter: &Letter) -> Result<(), Failure> {
        let mut refused = None;
        for sequence in letter.sequences() {
            let sent = self.requests.delete(&self.stream, sequence).await;
            sent.map_err(|error| NatsError::Connect(error.to_string()))?;
            if let Some((_, Answer::Deleted(Err(error)))) = self.requests.next(self.patience).await? {
                refused = Some(error);
            }
        }
        match refused {
            None => self.outcome.redriven += 1,
            Some(error) => {
                self.outcome.not_deleted += 1;
                self.progress.line(&format!("{}: written, and not deleted: {error}", letter.sequence));
            }
        }
        Ok(())
    }

    fn keep(&mut self, letter: &Letter, why: &str) {
        self.outcome.kept += 1;
        self.progress.line(&format!("{}: kept: {why}", letter.sequence));
    }
}
