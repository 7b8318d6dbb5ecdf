//! Settlements: what is written on the reply subjects, and how it is confirmed (design §11).
//!
//! A confirmed settlement is a request on the reply subject whose answer is looked at. The client's own confirmed ack says
//! Ok to `503 No Responders` and opens a subscription for each call.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Request, RequestErrorKind, Subject};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::timeout;
use tracing::debug;

use super::advisories::advisory::own_reason;
use super::advisories::claims::{Claims, Ticket};
use super::client::connect::Connection;
use super::durable::bind::BoundConsumer;
use super::durable::guard::{Guard, Standing};
use super::isolation::quarantine::Quarantine;
use super::reply;
use crate::delivery::{Acker, BoxFuture, Confirm, Lease, Settled, Settlement, SettlementKind};
use crate::envelope::Identity;

/// How long a confirmation is awaited (design §6).
const CONFIRMATION: Duration = Duration::from_secs(1);
/// How long a question about the durable is awaited before settlements count as unconfirmed.
const VERIFICATION: Duration = Duration::from_secs(3);
/// How long the client may take to take settlements in; without a connection its queue fills up.
const SEND: Duration = Duration::from_secs(5);
/// Requests under way at once when every settlement is confirmed.
const PIPELINE: usize = 256;

const ACK: Bytes = Bytes::from_static(b"+ACK");
const NAK: Bytes = Bytes::from_static(b"-NAK");
const IN_PROGRESS: Bytes = Bytes::from_static(b"+WPI");
const TERM: Bytes = Bytes::from_static(b"+TERM");

/// Settles the deliveries of one bound durable.
#[derive(Debug)]
pub struct NatsAcker {
    connection: Connection,
    guard: Arc<Guard>,
    quarantine: Arc<Quarantine>,
    claims: Arc<Claims>,
    knows_term_reasons: bool,
    backoff: Vec<Duration>,
}

enum Answer {
    Confirmed,
    Silent,
    /// Nobody listens for the acks of this durable: it is gone, or its leader is not there yet.
    NobodyListens,
}

impl NatsAcker {
    /// The acker of a bound durable.
    #[must_use]
    pub fn new(bound: &BoundConsumer) -> Self {
        Self {
            connection: bound.connection.clone(),
            guard: Arc::clone(&bound.guard),
            quarantine: Arc::clone(&bound.quarantine),
            claims: Arc::clone(&bound.claims),
            knows_term_reasons: knows_term_reasons(&bound.connection.server_version()),
            backoff: bound.backoff.clone(),
        }
    }

    async fn standing(&self) -> Standing {
        if self.guard.is_verified() {
            return Standing::Same;
        }
        timeout(VERIFICATION, self.guard.verify()).await.unwrap_or(Standing::Unknown)
    }

    async fn settle_all(&self, settlements: Vec<Settlement>, confirm: Confirm) -> Settled {
        match self.standing().await {
            Standing::Same => {}
            Standing::Gone | Standing::SetBack => return Settled::Gone,
            Standing::Unknown => return Settled::Unconfirmed(settlements),
        }
        if settlements.iter().any(|settlement| settlement.incarnation() != self.guard.incarnation()) {
            return Settled::Gone;
        }
        let isolated = self.isolated(&settlements);
        let noted = self.claims.note(&settlements);
        // A message that may not be settled, or is gone, came with an empty reply: its dead letter is all there is to it.
        let settlements: Vec<_> =
            settlements.into_iter().filter(|settlement| !settlement.reply().is_empty()).collect();
        let tickets = self.claims.tickets(&noted);
        if !tickets.is_empty() {
            self.settle_given_up(&settlements, &tickets).await;
        }
        let settled = match confirm {
            Confirm::Every => self.request_every(settlements).await,
            Confirm::Last => self.request_last(settlements).await,
            Confirm::Nothing => self.send_all(settlements).await,
        };
        if matches!(settled, Settled::Done) && !isolated.is_empty() {
            self.quarantine.settled(isolated.into_iter());
        }
        self.claims.sent(noted, &settled);
        settled
    }

    /// Settles messages of advisories, and acknowledges these right behind, in one go: a kill between the two would make the
    /// advisory of a work queue's message look like a loss. The settlement goes out again with its confirmation, which is not a
    /// second one; an ack that is lost means an advisory that is judged anew.
    async fn settle_given_up(&self, settlements: &[Settlement], tickets: &[(Identity, Arc<Ticket>)]) {
        let sent = timeout(SEND, async {
            for (identity, ticket) in tickets {
                // None where nothing may be settled.
                for settlement in settlements.iter().filter(|own| own.identity() == *identity) {
                    self.send(settlement.reply(), self.payload(settlement)).await?;
                }
                if ticket.guard.is_verified() {
                    self.send(&ticket.reply, ACK).await?;
                }
            }
            Ok::<(), ()>(())
        });
        let _comes_again_otherwise = sent.await;
    }

    /// The sequences of these, while settlements of isolated messages are waited for.
    fn isolated(&self, settlements: &[Settlement]) -> Vec<u64> {
        let done = |settlement: &&Settlement| !matches!(settlement.kind(), SettlementKind::Nak { .. });
        if !self.quarantine.is_waiting() {
            return Vec::new();
        }
        settlements.iter().filter(done).map(|settlement| settlement.identity().sequence).collect()
    }

    async fn send_all(&self, settlements: Vec<Settlement>) -> Settled {
        if self.send_each(&settlements).await { Settled::Done } else { Settled::Unconfirmed(settlements) }
    }

    /// Hands all to the client, in order; says whether it took them.
    async fn send_each(&self, settlements: &[Settlement]) -> bool {
        let sent = timeout(SEND, async {
            for settlement in settlements {
                self.send(settlement.reply(), self.payload(settlement)).await?;
            }
            Ok::<(), ()>(())
        });
        matches!(sent.await, Ok(Ok(())))
    }

    async fn request_last(&self, settlements: Vec<Settlement>) -> Settled {
        let Some((last, others)) = settlements.split_last() else { return Settled::Done };
        if !self.send_each(others).await {
            return Settled::Unconfirmed(settlements);
        }
        match self.request(last).await {
            Answer::Confirmed => Settled::Done,
            Answer::NobodyListens if self.is_over().await => Settled::Gone,
            Answer::Silent | Answer::NobodyListens => Settled::Unconfirmed(settlements),
        }
    }

    async fn request_every(&self, settlements: Vec<Settlement>) -> Settled {
        let mut requests = Vec::with_capacity(settlements.len());
        for settlement in &settlements {
            requests.push(self.request(settlement));
        }
        let answers: Vec<Answer> = stream::iter(requests).buffered(PIPELINE).collect().await;
        if answers.iter().any(|answer| matches!(answer, Answer::NobodyListens)) && self.is_over().await {
            return Settled::Gone;
        }
        let silent =
            settlements.into_iter().zip(answers).filter(|(_, answer)| !matches!(answer, Answer::Confirmed));
        let silent: Vec<Settlement> = silent.map(|(settlement, _)| settlement).collect();
        if silent.is_empty() { Settled::Done } else { Settled::Unconfirmed(silent) }
    }

    async fn request(&self, settlement: &Settlement) -> Answer {
        let Ok(subject) = Subject::try_from(settlement.reply().clone()) else { return Answer::Silent };
        let request = Request::new().payload(self.payload(settlement)).timeout(Some(CONFIRMATION));
        // The request's own deadline begins when the client has taken it.
        match timeout(CONFIRMATION * 2, self.connection.client.send_request(subject, request)).await {
            Ok(Ok(answer)) if answer.status.is_none() && answer.payload.is_empty() => Answer::Confirmed,
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Answer::NobodyListens,
            Ok(Ok(_) | Err(_)) | Err(_) => Answer::Silent,
        }
    }

    /// Asks whether this life of the durable is over.
    async fn is_over(&self) -> bool {
        self.guard.doubt();
        matches!(self.standing().await, Standing::Gone | Standing::SetBack)
    }

    async fn send(&self, reply: &Bytes, payload: Bytes) -> Result<(), ()> {
        let subject = Subject::try_from(reply.clone()).map_err(drop)?;
        self.connection.client.publish(subject, payload).await.map_err(drop)
    }

    fn payload(&self, settlement: &Settlement) -> Bytes {
        match settlement.kind() {
            SettlementKind::Ack => ACK,
            SettlementKind::Nak { delay: None } => NAK,
            SettlementKind::Nak { delay: Some(delay) } => {
                let delay = around_backoff(delay, &self.backoff, settlement.reply());
                Bytes::from(format!("-NAK {{\"delay\":{}}}", delay.as_nanos()))
            }
            SettlementKind::Term { reason } if self.knows_term_reasons => {
                Bytes::from(format!("+TERM {}", own_reason(reason)))
            }
            SettlementKind::Term { .. } => TERM,
        }
    }
}

/// The delay to send so that the server waits for `delay`: with a back-off list it adds the step of the next delivery and
/// takes the first step off (NATS fact 5). A wait below that difference cannot be had; a nanosecond asks for the difference,
/// where 0 would ask for a redelivery at once.
fn around_backoff(delay: Duration, backoff: &[Duration], reply: &Bytes) -> Duration {
    let Some((first, last)) = backoff.first().zip(backoff.last()) else { return delay };
    let delivered = std::str::from_utf8(reply).ok().and_then(reply::parse).map_or(1, |facts| facts.delivered);
    let index = usize::try_from(delivered.saturating_sub(1)).unwrap_or(usize::MAX);
    let step = backoff.get(index).unwrap_or(last);
    delay.saturating_add(*first).saturating_sub(*step).max(Duration::from_nanos(1))
}

/// Servers below 2.10.4 confirm a term with a reason, and do nothing (measured on 2.9).
fn knows_term_reasons(version: &str) -> bool {
    crate::preflight::version(version).is_none_or(|version| version >= (2, 10, 4))
}

impl Acker for NatsAcker {
    fn settle(&self, settlements: Vec<Settlement>, confirm: Confirm) -> BoxFuture<'_, Settled> {
        Box::pin(self.settle_all(settlements, confirm))
    }

    fn extend(&self, leases: Vec<Lease>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.standing().await != Standing::Same {
                return;
            }
            let sent = timeout(SEND, async {
                let own = |lease: &&Lease| {
                    lease.incarnation() == self.guard.incarnation() && !lease.reply().is_empty()
                };
                for lease in leases.iter().filter(own) {
                    self.send(lease.reply(), IN_PROGRESS).await?;
                }
                Ok::<(), ()>(())
            });
            if !matches!(sent.await, Ok(Ok(()))) {
                debug!("leases were not extended: the client takes nothing");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_get_a_term_that_they_understand() {
        for version in ["2.9.10", "2.10.3", "v2.8.0", "2.10.0-beta"] {
            assert!(!knows_term_reasons(version), "{version}");
        }
        for version in ["2.10.4", "2.15.1", "v3.0.0", "2.10.4-RC.1", "dev"] {
            assert!(knows_term_reasons(version), "{version}");
        }
    }

    #[test]
    fn a_nak_delay_is_computed_around_the_back_off() {
        let backoff = [1, 3, 6].map(Duration::from_secs);
        let reply = |delivered: u32| Bytes::from(format!("$JS.ACK.S.C.{delivered}.1.1.1.0"));
        let half = Duration::from_millis(500);
        assert_eq!(around_backoff(half, &backoff, &reply(1)), half);
        assert_eq!(around_backoff(Duration::from_secs(4), &backoff, &reply(2)), Duration::from_secs(2));
        assert_eq!(around_backoff(half, &backoff, &reply(3)), Duration::from_nanos(1));
        assert_eq!(around_backoff(Duration::from_secs(9), &backoff, &reply(7)), Duration::from_secs(4));
        assert_eq!(around_backoff(half, &[], &reply(3)), half);
    }
}
