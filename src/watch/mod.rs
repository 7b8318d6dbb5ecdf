//! What changes at a stream and its durable between two looks: pure. `app` reads the facts every `delivery.watch_interval`,
//! shows them as metrics and logs the [`Notice`]s, which come on change and not at every look.

mod changes;
mod lost;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::preflight::{ConsumerFacts, StreamFacts};

/// One look.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// The stream.
    pub stream: StreamFacts,
    /// The durable.
    pub durable: ConsumerFacts,
    /// Sequences that are gone between the stream's first and last; read only when their number has grown.
    pub deleted: Vec<u64>,
    /// Since the watch began.
    pub at: Duration,
}

/// Something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is, a stable text.
    pub code: &'static str,
    /// It is a warning.
    pub warns: bool,
    /// What was seen, with its figures.
    pub text: String,
}

impl Notice {
    fn warning(code: &'static str, text: String) -> Self {
        Self { code, warns: true, text }
    }

    fn fact(code: &'static str, text: String) -> Self {
        Self { code, warns: false, text }
    }
}

/// What one look tells, compared with the one before.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// What to say.
    pub notices: Vec<Notice>,
    /// Messages that were published and never stored.
    pub vanished: u64,
    /// Messages deleted after they were delivered and before they were settled.
    pub deleted_in_flight: u64,
    /// Messages that were removed before they were delivered.
    pub removed_unread: u64,
    /// The stream or the durable has another leader.
    pub leader_changes: u64,
    /// For how long the ack floor has stood still while something was open.
    pub ack_floor_age: Duration,
    /// Hundredths of a limit that are used: messages, bytes; 0 without a limit.
    pub fill: [u64; 2],
}

/// Remembers the look before.
#[derive(Debug, Default)]
pub struct Watch {
    before: Option<Look>,
    floor_since: Duration,
    first_since: Duration,
    said: Said,
}

/// What was said and still holds.
#[derive(Debug, Default)]
struct Said {
    fill: [u64; 2],
    at_limit: bool,
    vanishing: bool,
    clogged: bool,
}

impl Watch {
    /// The number of deleted messages at the look before: when it has grown, the sequences are worth reading.
    #[must_use]
    pub fn deleted_before(&self) -> Option<u64> {
        self.before.as_ref().map(|before| before.stream.state.num_deleted)
    }

    /// Takes one look and compares it with the one before.
    pub fn take(&mut self, look: Look) -> Told {
        let mut told = Told { fill: changes::fill(&look.stream), ..Told::default() };
        let before = self.before.take();
        self.note_times(before.as_ref(), &look);
        if look.durable.open() > 0 {
            told.ack_floor_age = look.at.saturating_sub(self.floor_since);
        }
        if let Some(before) = before.as_ref().filter(|before| before.stream.created == look.stream.created) {
            lost::compare(before, &look, &mut self.said.vanishing, &mut told);
            changes::compare(before, &look, &mut told);
        }
        changes::limits(&look, &mut self.said.fill, &mut told);
        changes::ack_pending(&look, &mut self.said.at_limit, &mut told);
        let stands = look.at.saturating_sub(self.first_since);
        changes::clogged(&look, stands, &mut self.said.clogged, &mut told);
        self.before = Some(look);
        told
    }

    fn note_times(&mut self, before: Option<&Look>, look: &Look) {
        let Some(before) = before else {
            (self.floor_since, self.first_since) = (look.at, look.at);
            return;
        };
        if before.durable.ack_floor.stream_seq != look.durable.ack_floor.stream_seq
            || before.durable.open() == 0
        {
            self.floor_since = look.at;
        }
        if before.stream.state.first_seq != look.stream.state.first_seq || before.stream.state.messages == 0 {
            self.first_since = look.at;
        }
    }
}
