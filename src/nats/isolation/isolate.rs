//! How the source finds messages that kill the client, and goes on without them (design §11).
//!
//! After a suspicious end of the connection no pull goes out until what the durable has delivered was read from the stream.
//! What no client can be handed is given to the loop as a delivery that can only be dead-lettered; pulls wait a moment for
//! its settlement, since one whose ack wait has lapsed would come with the next pull and end the connection again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use tracing::{error, info, warn};

use crate::delivery::{Received, SourceError};
use crate::nats::error::ApiError;
use crate::nats::isolation::quarantine::{Renewal, Verdict};
use crate::nats::isolation::search::{End, Search, Step, rebuilt_reply};
use crate::nats::pulls::pull::{MOST_PUT_ASIDE, PullSource, SEND, dead};

/// How long pulls wait for the settlement of what was found. Longer only while the dead-letter stream does not confirm;
/// leases keep it from coming again then.
const SETTLEMENT: Duration = Duration::from_secs(2);
/// Between two tries to read a message that is held back.
const NEXT_TRY: Duration = Duration::from_secs(300);
const IN_PROGRESS: Bytes = Bytes::from_static(b"+WPI");

impl PullSource {
    /// Takes note of a new client, or of a new connection of it.
    pub(in crate::nats) fn note_renewal(&mut self, how: Renewal, client_died: bool) {
        let at = self.guard.standpoint();
        let verdict = self.quarantine.renewed(at, how, Instant::now());
        if verdict != Verdict::Unsuspicious && client_died {
            self.connection.observer.client_died();
        }
        match verdict {
            Verdict::Unsuspicious => self.end_announcement(),
            Verdict::Wait => {}
            Verdict::Search { from } => {
                if client_died {
                    warn!(
                        ack_floor = at.ack_floor,
                        delivered = at.delivered,
                        ack_pending = at.ack_pending,
                        "the connection was lost while deliveries were outstanding: reading them from the stream, in case \
                         one of them is to blame"
                    );
                    self.announce(
                        "the connection was lost while deliveries were outstanding: looking for one to blame",
                    );
                }
                self.begin_search(from, at.delivered);
            }
            Verdict::Blind { culprit } => self.blame(culprit, at.ack_floor, at.delivered),
        }
    }

    fn begin_search(&mut self, from: u64, to: u64) {
        let search = Search {
            reader: self.reader.clone(),
            quarantine: Arc::clone(&self.quarantine),
            filters: self.filters.clone(),
            from,
            to,
            left: Search::budget(),
        };
        self.search = Some(Box::pin(search.step()));
        self.trying_again = false;
    }

    /// Carries a search on, if there is one; gives what it found. What comes meanwhile is put aside.
    pub(in crate::nats) async fn isolate(&mut self) -> Option<Result<Vec<Received>, SourceError>> {
        use futures_util::StreamExt as _;
        let search = self.search.as_mut()?;
        let step = loop {
            tokio::select! {
                step = search.as_mut() => break step,
                message = self.subscription.next(), if self.put_aside.len() < MOST_PUT_ASIDE => {
                    let Some(message) = message else { return Some(Err(dead("the subscription has ended"))) };
                    self.put_aside.push_back(message);
                }
            }
        };
        self.search = None;
        let received = self.take_step(step).await;
        (!received.is_empty()).then_some(Ok(received))
    }

    async fn take_step(&mut self, step: Step) -> Vec<Received> {
        let now = Instant::now();
        let sequences: Vec<u64> = step.culprits.iter().map(|culprit| culprit.message.sequence).collect();
        let found = sequences.len();
        match step.end {
            End::Complete => {
                self.quarantine.found(&sequences, None, now);
                info!(found, "what the durable has delivered was read");
                self.end_announcement();
            }
            End::Exhausted { next } => {
                self.quarantine.found(&sequences, Some(next), now);
                warn!(
                    found,
                    next, "too much is outstanding to be read at once: the next search goes on there"
                );
                self.end_announcement();
            }
            End::More(rest) => {
                self.quarantine.found(&sequences, Some(rest.from), now);
                self.search = Some(Box::pin(rest.step()));
            }
            End::Unreadable(error) if found == 0 => self.take_blindness(&error, now),
            End::Unreadable(error) => {
                self.quarantine.found(&sequences, None, now);
                warn!(%error, "not everything that the durable has delivered could be read");
                self.end_announcement();
            }
        }
        if found > 0 {
            self.connection.forgive();
            self.connection.observer.undeliverable_found(found);
            self.extend(&sequences).await;
            self.hold_until = now + SETTLEMENT;
        }
        let incarnation = self.guard.incarnation();
        step.culprits
            .into_iter()
            .map(|culprit| {
                error!(
                    stream_sequence = culprit.message.sequence,
                    cause = culprit.cause,
                    "no client can be handed this message: it is dead-lettered as raw bytes"
                );
                culprit.received(&self.names, incarnation, 1)
            })
            .collect()
    }

    fn take_blindness(&mut self, error: &ApiError, now: Instant) {
        if !self.guard.is_verified() {
            // The connection is gone again; the next one raises the question anew.
            return;
        }
        if std::mem::take(&mut self.trying_again) {
            return;
        }
        self.quarantine.blinded(now);
        error!(
            %error,
            "a message seems to end the connection, and the stream cannot be read to find it: pulling one by one; permit \
             publishing to $JS.API.STREAM.MSG.GET.{} so that it can be dead-lettered",
            self.names.stream
        );
        self.announce("a message seems to end the connection, and STREAM.MSG.GET gets no answer");
    }

    fn blame(&mut self, culprit: Option<u64>, ack_floor: u64, delivered: u64) {
        let Some(sequence) = culprit else {
            warn!(
                ack_floor,
                delivered, "a message behind the ack floor ends the connection; pulling one by one"
            );
            self.announce("a message ends the connection, and STREAM.MSG.GET gets no answer");
            return;
        };
        if self.quarantine.hold(sequence) {
            error!(
                stream_sequence = sequence,
                "this message ends the connection and cannot be read: it is kept from being delivered again, on its \
                 stream, while jetsink runs; permit publishing to $JS.API.STREAM.MSG.GET.{}, or remove it by hand",
                self.names.stream
            );
        }
        let held = self.quarantine.held();
        self.connection.observer.undeliverable_held(held.len());
        self.announce(&format!(
            "messages that end the connection are held back and cannot be dead-lettered without the permission to publish \
             to $JS.API.STREAM.MSG.GET.{}: {} of them, the first is {}",
            self.names.stream,
            held.len(),
            held.first().copied().unwrap_or_default()
        ));
        self.next_lease = Instant::now();
        self.next_try = Instant::now() + NEXT_TRY;
    }

    /// Keeps what cannot be read from being delivered again, and tries now and then whether it can be read after all.
    pub(in crate::nats) async fn keep_held(&mut self) {
        let now = Instant::now();
        if !self.announced || self.search.is_some() {
            return;
        }
        let held = self.quarantine.held();
        let Some((first, last)) = held.first().copied().zip(held.last().copied()) else {
            if !self.quarantine.is_blind(now) {
                self.end_announcement();
            }
            return;
        };
        if now >= self.next_lease {
            self.next_lease = now + self.ack_wait / 3;
            self.extend(&held).await;
        }
        if now >= self.next_try {
            self.next_try = now + NEXT_TRY;
            self.begin_search(first, last);
            self.trying_again = true;
        }
    }

    /// Whether pulls wait for the settlement of what was found.
    pub(in crate::nats) fn waits_for_settlement(&self) -> bool {
        self.hold_until > Instant::now() && self.quarantine.is_waiting()
    }

    async fn extend(&mut self, sequences: &[u64]) {
        let sent = timeout(SEND, async {
            for sequence in sequences {
                let reply = rebuilt_reply(&self.names, *sequence);
                let Ok(subject) = async_nats::Subject::try_from(reply) else { continue };
                if self.connection.client.publish(subject, IN_PROGRESS).await.is_err() {
                    break;
                }
            }
        });
        let _a_lapsed_lease_is_seen_by_its_effect = sent.await;
    }

    fn announce(&mut self, detail: &str) {
        self.announced = true;
        self.connection.observer.isolating(Some(detail));
    }

    fn end_announcement(&mut self) {
        self.announced = false;
        self.connection.observer.isolating(None);
        self.connection.observer.undeliverable_held(self.quarantine.held().len());
    }
}
