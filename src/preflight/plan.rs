//! What the configuration means to do, as far as findings and permissions depend on it.

use std::time::Duration;

/// What the configuration means to do.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The stream.
    pub stream: String,
    /// The durable.
    pub durable: String,
    /// The durable may be created.
    pub may_create: bool,
    /// What it shall filter; empty = the file does not say.
    pub filters: Vec<String>,
    /// Messages in hand at the most.
    pub in_hand: usize,
    /// Messages of one batch.
    pub batch_size: usize,
    /// Bytes of one batch.
    pub batch_bytes: usize,
    /// Batches in hand at once.
    pub batches: usize,
    /// Messages that one pull asks for.
    pub pull_messages: usize,
    /// How long a pull stays open.
    pub expires: Duration,
    /// Deliveries are kept ours while they are in hand.
    pub in_progress: bool,
    /// Deadline of one write.
    pub write_timeout: Duration,
    /// How long a batch that is not full waits.
    pub linger: Duration,
    /// Attempts of one record.
    pub max_attempts: u64,
    /// Arrivals of one message.
    pub crash_limit: u64,
    /// Dead letters; `None` = not configured.
    pub dead_letters: Option<LetterPlan>,
    /// Prefix of the JetStream API: `$JS.API`, or that of a domain.
    pub api: String,
    /// Prefix of reply subjects.
    pub inbox: String,
}

/// Where dead letters go.
#[derive(Clone, Debug, Default)]
pub struct LetterPlan {
    /// What matches every subject that is used.
    pub pattern: String,
    /// Every subject that may be used.
    pub subjects: Vec<String>,
    /// The stream, if the file names it.
    pub stream: Option<String>,
    /// The stream of advisories, if the file names it, and the durable that reads them.
    pub advisories: Option<(String, String)>,
}

/// The sentence form of nanoseconds.
pub(super) fn time(nanoseconds: u64) -> String {
    format!("{:?}", Duration::from_nanos(nanoseconds))
}

/// Whether two subject patterns have a subject in common; what is no pattern has none.
pub(super) fn overlaps(left: &str, right: &str) -> bool {
    use crate::subject::SubjectPattern;
    match (SubjectPattern::parse(left), SubjectPattern::parse(right)) {
        (Ok(left), Ok(right)) => left.overlaps(&right),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Whether every subject of `inner` is one of some pattern.
pub(super) fn covered(inner: &str, outer: &[String]) -> bool {
    use crate::subject::SubjectPattern;
    let Ok(inner) = SubjectPattern::parse(inner) else { return true };
    outer.iter().filter_map(|outer| SubjectPattern::parse(outer).ok()).any(|outer| outer.covers(&inner))
}

/// A finite limit.
pub(super) fn limit(value: i64) -> Option<u64> {
    u64::try_from(value).ok().filter(|value| *value > 0)
}
