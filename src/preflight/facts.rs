//! What was seen at the server. The structs read the server's answers leniently: a field that is not there is its default.

use serde::Deserialize;

use super::permissions::Permission;

/// Something that was looked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Seen<T> {
    /// It is there.
    Found(T),
    /// It does not exist.
    Missing,
    /// It could not be looked at, and why not.
    Unseen(String),
    /// Nobody has asked.
    #[default]
    NotAsked,
}

impl<T> Seen<T> {
    /// What was found.
    #[must_use]
    pub const fn found(&self) -> Option<&T> {
        match self {
            Self::Found(found) => Some(found),
            Self::Missing | Self::Unseen(_) | Self::NotAsked => None,
        }
    }
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The server.
    pub server: ServerFacts,
    /// The stream.
    pub stream: Seen<StreamFacts>,
    /// The durable.
    pub durable: Seen<ConsumerFacts>,
    /// The durable was created just now.
    pub created_now: bool,
    /// Where the durable differs from the file, or is of no use.
    pub differences: Vec<String>,
    /// Every consumer of the stream, the durable included.
    pub consumers: Seen<Vec<ConsumerFacts>>,
    /// Sequences that no consumer will ever deliver again: the first few of them.
    pub exhausted: Vec<u64>,
    /// The dead-letter stream.
    pub dead_letters: DeadLetterFacts,
    /// Streams that capture what the server says when it gives up on a message of the durable.
    pub advisory_streams: Seen<Vec<String>>,
    /// Permissions that were tried.
    pub trials: Vec<Trial>,
    /// Now, in nanoseconds since 1970.
    pub now: i64,
}

/// What the server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its version.
    pub version: String,
    /// The largest message it takes.
    pub max_payload: usize,
}

/// What is known of the dead-letter stream.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFacts {
    /// The streams that capture the subject of dead letters.
    pub capturing: Seen<Vec<String>>,
    /// The stream itself.
    pub stream: Seen<StreamFacts>,
}

/// A permission that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Which.
    pub permission: Permission,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of trying a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server let it pass.
    Granted,
    /// The server said that it denies it.
    Denied,
    /// Nothing came back.
    NoAnswer,
}

/// `STREAM.INFO`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct StreamFacts {
    /// RFC 3339.
    pub created: String,
    /// Its configuration.
    pub config: StreamConfig,
    /// What it holds.
    #[serde(default)]
    pub state: StreamState,
    /// Who leads it.
    pub cluster: Option<LeaderFacts>,
    /// The domain it is in, if the server has one.
    pub domain: Option<String>,
}

/// Who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LeaderFacts {
    /// The server's name.
    pub leader: String,
}

/// The configuration of a stream. Durations in nanoseconds, limits as the server writes them: −1 or 0 = none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the server's")]
pub struct StreamConfig {
    pub name: String,
    pub subjects: Vec<String>,
    pub retention: String,
    pub discard: String,
    pub num_replicas: usize,
    pub duplicate_window: u64,
    pub max_msgs: i64,
    pub max_bytes: i64,
    pub max_msg_size: i64,
    pub max_msgs_per_subject: i64,
    pub discard_new_per_subject: bool,
    pub max_age: u64,
    pub mirror: Option<Feed>,
    pub sources: Vec<Feed>,
    pub subject_transform: Option<serde_json::Value>,
    pub no_ack: bool,
    pub sealed: bool,
    pub allow_msg_ttl: bool,
    pub subject_delete_marker_ttl: u64,
}

/// Where a stream takes messages from.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the server's")]
pub struct Feed {
    pub name: String,
    pub filter_subject: String,
    pub subject_transforms: Vec<serde_json::Value>,
    pub external: Option<serde_json::Value>,
}

/// What a stream holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the server's")]
pub struct StreamState {
    pub messages: u64,
    pub bytes: u64,
    pub first_seq: u64,
    pub last_seq: u64,
    pub num_deleted: u64,
    pub consumer_count: usize,
}

/// `CONSUMER.INFO`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "the names are the server's")]
pub struct ConsumerFacts {
    #[serde(default)]
    pub name: String,
    /// RFC 3339.
    pub created: String,
    pub config: ConsumerConfig,
    pub delivered: Position,
    pub ack_floor: Position,
    #[serde(default)]
    pub num_ack_pending: u64,
    #[serde(default)]
    pub num_redelivered: u64,
    #[serde(default)]
    pub num_waiting: u64,
    #[serde(default)]
    pub num_pending: u64,
    #[serde(default)]
    pub push_bound: bool,
    #[serde(default)]
    pub paused: bool,
    pub cluster: Option<LeaderFacts>,
}

/// A pair of sequences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the server's")]
pub struct Position {
    pub consumer_seq: u64,
    pub stream_seq: u64,
    /// RFC 3339; `None` = never.
    pub last_active: Option<String>,
}

/// The configuration of a consumer. Durations in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the server's")]
pub struct ConsumerConfig {
    pub deliver_subject: Option<String>,
    pub deliver_policy: String,
    pub opt_start_seq: Option<u64>,
    pub ack_policy: String,
    pub ack_wait: u64,
    pub max_deliver: i64,
    pub max_ack_pending: i64,
    pub max_waiting: u64,
    pub max_batch: u64,
    pub max_expires: u64,
    pub max_bytes: u64,
    pub backoff: Vec<u64>,
    pub filter_subject: String,
    pub filter_subjects: Vec<String>,
    pub headers_only: bool,
    pub inactive_threshold: u64,
    pub num_replicas: usize,
    pub priority_groups: Vec<String>,
}

impl ConsumerConfig {
    /// What it filters; empty = everything.
    #[must_use]
    pub fn filters(&self) -> Vec<String> {
        if self.filter_subject.is_empty() {
            self.filter_subjects.clone()
        } else {
            vec![self.filter_subject.clone()]
        }
    }

    /// The shortest wait for a settlement: with a back-off list its shortest step replaces the ack wait.
    #[must_use]
    pub fn shortest_wait(&self) -> u64 {
        self.backoff.iter().copied().chain([self.ack_wait]).min().unwrap_or(self.ack_wait)
    }

    /// The longest one.
    #[must_use]
    pub fn longest_wait(&self) -> u64 {
        self.backoff.iter().copied().chain([self.ack_wait]).max().unwrap_or(self.ack_wait)
    }
}

impl StreamFacts {
    /// Its limits, with what counts against each: name, limit if there is one, stored.
    #[must_use]
    pub fn fills(&self) -> [(&'static str, Option<u64>, u64); 2] {
        let limit = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0);
        [
            ("max_msgs", limit(self.config.max_msgs), self.state.messages),
            ("max_bytes", limit(self.config.max_bytes), self.state.bytes),
        ]
    }
}

/// Hundredths of a limit, rounded down; 0 of none.
#[must_use]
pub fn percent(part: u64, whole: u64) -> u64 {
    let hundredths = u128::from(part).saturating_mul(100).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(hundredths).unwrap_or(u64::MAX)
}

/// Nanoseconds since 1970 of an RFC 3339 time of the server; 0 when it cannot be read, which equals no real time.
#[must_use]
pub fn nanoseconds(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().ok().and_then(|at| i64::try_from(at.as_nanosecond()).ok()).unwrap_or(0)
}

impl ConsumerFacts {
    /// What it has still to do: not delivered, or not settled.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.num_pending.saturating_add(self.num_ack_pending)
    }
}
