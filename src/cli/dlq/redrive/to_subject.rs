//! A redrive by publishing: in the order of the letters, many under way at once, each confirmed before its letter goes.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::message::{Message, Place, rebuild};
use super::{Arguments, Outcome, Plan};
use crate::cli::dlq::failure::Failure;
use crate::cli::dlq::letters::{Letter, recovered};
use crate::cli::dlq::print::visible;
use crate::cli::dlq::progress::Progress;
use crate::cli::dlq::source::Source;
use crate::cli::dlq::target::Opened;
use crate::nats::{Answer, NatsError, Refused, Requests, SendError, Stored, StreamPages, Ticket};
use crate::subject::SubjectPattern;

/// Publishes and deletions under way at once.
const UNDER_WAY: usize = 256;
/// Bytes of bodies under way at once; a single one may be larger.
const BYTES_UNDER_WAY: usize = 8 << 20;
/// So many refusals in a row are not the letters' fault.
const IN_A_ROW: u32 = 20;

/// What a request was for.
#[derive(Debug)]
enum Step {
    Publish(Box<(Letter, Message)>),
    /// The last of `left` deletions of one letter ends it.
    Delete {
        sequence: u64,
        already_there: bool,
    },
}

#[derive(Debug)]
struct Redrive<'a> {
    stream: String,
    forbidden: Vec<SubjectPattern>,
    plan: Plan,
    requests: Requests,
    patience: Duration,
    steps: BTreeMap<Ticket, Step>,
    /// Deletions that are still to come of letters with two parts, and whether one was refused.
    halves: BTreeMap<u64, bool>,
    bytes: usize,
    refusals: u32,
    outcome: Outcome,
    progress: &'a mut Progress,
}

/// Redrives every letter; what was done is told also when it ends early.
pub(super) async fn redrive(
    arguments: &Arguments,
    opened: &mut Opened,
    mut source: Source<'_>,
    progress: &mut Progress,
) -> (Outcome, Result<(), Failure>) {
    let requests = match Requests::open(&opened.connection).await {
        Ok(requests) => requests,
        Err(error) => return (Outcome::default(), Err(error.into())),
    };
    let subjects = opened.state.subjects.iter();
    let mut redrive = Redrive {
        stream: opened.pages.stream().to_owned(),
        forbidden: subjects.filter_map(|subject| SubjectPattern::parse(subject).ok()).collect(),
        plan: arguments.plan(opened),
        requests,
        patience: opened.request_timeout,
        steps: BTreeMap::new(),
        halves: BTreeMap::new(),
        bytes: 0,
        refusals: 0,
        outcome: Outcome::default(),
        progress,
    };
    let ended = redrive.all(arguments, &mut opened.pages, &mut source).await;
    // What is under way is waited for in any case: its letter goes only with the confirmation in hand.
    let finished = redrive.finish(&mut opened.pages).await;
    let outcome = redrive.outcome;
    redrive.progress.clear();
    crate::cli::output::to_stderr(&source.tally().remarks());
    (outcome, ended.and(finished))
}

impl Redrive<'_> {
    async fn all(
        &mut self,
        arguments: &Arguments,
        pages: &mut StreamPages,
        source: &mut Source<'_>,
    ) -> Result<(), Failure> {
        let pause = arguments.rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate);
        let mut next_at = Instant::now();
        let mut sent = 0;
        while sent < arguments.limit() {
            let Some((letter, stored)) = source.next(pages).await? else { break };
            let original = recovered(pages, &letter, stored.as_ref()).await?;
            drop(stored);
            let place =
                Place { stream: &self.stream, sequence: letter.sequence, stored_at: letter.stored_at };
            let message = original.and_then(|original| rebuild(original, place, &self.plan));
            let message = match message.and_then(|message| self.permitted(message)) {
                Ok(message) => message,
                Err(why) => {
                    self.keep(&letter, &why);
                    continue;
                }
            };
            // Answers are taken while it waits: a letter must not stay longer than its successor's id is known.
            self.wait_until(pages, next_at).await?;
            next_at = next_at.max(Instant::now()) + pause;
            sent += 1;
            self.send(pages, letter, message).await?;
            let (done, total) = source.progress();
            self.progress.show(done, total);
        }
        Ok(())
    }

    /// A letter that is sent to its own stream would come back for ever.
    fn permitted(&self, message: Message) -> Result<Message, String> {
        if self.forbidden.iter().any(|pattern| pattern.matches(&message.subject)) {
            return Err(format!(
                "{} is captured by the dead-letter stream itself",
                visible(&message.subject)
            ));
        }
        Ok(message)
    }

    async fn send(
        &mut self,
        pages: &mut StreamPages,
        letter: Letter,
        message: Message,
    ) -> Result<(), Failure> {
        let weight = message.body.len();
        while self.steps.len() >= UNDER_WAY || (self.bytes > 0 && self.bytes + weight > BYTES_UNDER_WAY) {
            self.take_answer(pages).await?;
        }
        if message.bare {
            // A repeat of this one cannot be told: it goes alone, so that a crash repeats one at the most.
            self.finish(pages).await?;
            let sequence = letter.sequence;
            self.progress.line(&format!(
                "{sequence}: it fills max_payload, so it is sent without a message id and without {}",
                super::message::COUNT
            ));
        }
        let sent = self.requests.publish(&message.subject, &message.headers, message.body.clone()).await;
        match sent {
            Ok(ticket) => {
                self.bytes += weight;
                let bare = message.bare;
                self.steps.insert(ticket, Step::Publish(Box::new((letter, message))));
                if bare { self.finish(pages).await } else { Ok(()) }
            }
            Err(SendError::Dead) => Err(NatsError::Connect("the connection is dead".into()).into()),
            Err(error @ SendError::Header(_)) => {
                self.keep(&letter, &format!("{error}; --without-headers sends the body only"));
                Ok(())
            }
            Err(error @ SendError::TooLarge) => {
                self.keep(&letter, &error.to_string());
                Ok(())
            }
        }
    }

    async fn finish(&mut self, pages: &mut StreamPages) -> Result<(), Failure> {
        while !self.steps.is_empty() {
            self.take_answer(pages).await?;
        }
        Ok(())
    }

    /// Takes the answers that come until then; of a time that is over, those that are there.
    async fn wait_until(&mut self, pages: &mut StreamPages, at: Instant) -> Result<(), Failure> {
        while !self.steps.is_empty() {
            match timeout_at(at, self.requests.next(self.patience)).await {
                Ok(answer) => self.take(pages, answer).await?,
                Err(_elapsed) => return Ok(()),
            }
        }
        sleep_until(at).await;
        Ok(())
    }

    async fn take_answer(&mut self, pages: &mut StreamPages) -> Result<(), Failure> {
        let answer = self.requests.next(self.patience).await;
        self.take(pages, answer).await
    }

    async fn take(
        &mut self,
        pages: &mut StreamPages,
        answer: Result<Option<(Ticket, Answer)>, NatsError>,
    ) -> Result<(), Failure> {
        let answer = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                self.steps.clear();
                return Ok(());
            }
            Err(error) => {
                let unconfirmed = u64::try_from(self.steps.len()).unwrap_or(u64::MAX);
                self.outcome.kept = self.outcome.kept.saturating_add(unconfirmed);
                self.steps.clear();
                return Err(error.into());
            }
        };
        match (self.steps.remove(&answer.0), answer.1) {
            (Some(Step::Publish(sent)), Answer::Published(published)) => {
                let (letter, message) = *sent;
                self.bytes = self.bytes.saturating_sub(message.body.len());
                self.published(pages, letter, &message, published).await
            }
            (Some(Step::Delete { sequence, already_there }), Answer::Deleted(deleted)) => {
                self.deleted(sequence, already_there, &deleted);
                Ok(())
            }
            (_, Answer::Published(_) | Answer::Deleted(_) | Answer::Read(_)) => Ok(()),
        }
    }

    async fn published(
        &mut self,
        pages: &mut StreamPages,
        letter: Letter,
        message: &Message,
        published: Result<Stored, Refused>,
    ) -> Result<(), Failure> {
        let stored = match published {
            Ok(stored) => stored,
            Err(refused) => {
                self.keep(&letter, &format!("{}: {refused}", visible(&message.subject)));
                self.refusals += 1;
                if self.refusals >= IN_A_ROW {
                    return Err(Failure::refused(format!(
                        "stopped: {IN_A_ROW} publishes in a row were refused, the last one with: {refused}"
                    )));
                }
                return Ok(());
            }
        };
        self.refusals = 0;
        if stored.duplicate && self.plan.keep_message_id && !self.is_successor(pages, message, &stored).await
        {
            let Stored { stream, sequence, .. } = stored;
            self.keep(
                &letter,
                &format!("{stream} saw its Nats-Msg-Id within its window, as message {sequence}, and did not store it"),
            );
            return Ok(());
        }
        for sequence in letter.sequences() {
            let sent = self.requests.delete(&self.stream, sequence).await;
            let ticket = sent.map_err(|error| NatsError::Connect(error.to_string()))?;
            let already_there = stored.duplicate;
            self.steps.insert(ticket, Step::Delete { sequence: letter.sequence, already_there });
        }
        Ok(())
    }

    /// Whether the message that the stream has under this id is the one that an earlier redrive of this letter sent.
    async fn is_successor(&self, pages: &StreamPages, message: &Message, stored: &Stored) -> bool {
        let Ok(Some(found)) = pages.get_from(&stored.stream, stored.sequence).await else { return false };
        let count = |headers: &crate::envelope::Headers| headers.get(super::message::COUNT).cloned();
        found.body == message.body && count(&found.headers) == count(&message.headers)
    }

    fn deleted(&mut self, sequence: u64, already_there: bool, deleted: &Result<bool, Refused>) {
        if let Err(refused) = deleted {
            self.progress.line(&format!("{sequence}: sent again, and not deleted: {refused}"));
        }
        // Of two parts the first answer is only noted.
        let is_of = |step: &Step| matches!(step, Step::Delete { sequence: own, .. } if *own == sequence);
        if self.steps.values().any(is_of) {
            *self.halves.entry(sequence).or_default() |= deleted.is_err();
            return;
        }
        let refused_before = self.halves.remove(&sequence).unwrap_or(false);
        if deleted.is_err() || refused_before {
            self.outcome.not_deleted += 1;
        } else {
            self.outcome.redriven += 1;
            self.outcome.already_there += u64::from(already_there);
        }
    }

    fn keep(&mut self, letter: &Letter, why: &str) {
        self.outcome.kept += 1;
        self.progress.line(&format!("{}: kept: {why}", letter.sequence));
    }
}
