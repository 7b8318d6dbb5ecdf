//! One thing worth saying, and what to do about it.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A fact.
    Info,
    /// It works, and can lose, repeat or stop something.
    Warning,
    /// The daemon must not run on it.
    Refusal,
}

impl Level {
    /// Its name, as it is shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Refusal => "refusal",
        }
    }
}

/// Declares the codes with the texts that never change.
macro_rules! codes {
    ($($(#[doc = $help:literal])+ $code:ident = $text:literal,)*) => {
        /// What was found: a closed set with stable texts (docs/preflight.md).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $help])+ $code,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$code,)*];

            /// Its stable text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)*
                }
            }
        }
    };
}

codes! {
    /// Retention, limits and what the stream holds.
    StreamState = "stream_state",
    /// Where the durable stands.
    DurableState = "durable_state",
    /// Which stream keeps dead letters, and its limits.
    DeadLetterStream = "dead_letter_stream",
    /// A part of the picture cannot be seen.
    NotSeen = "not_seen",
    /// A permission that the daemon needs, or that tells more, is denied.
    PermissionMissing = "permission_missing",
    /// The stream does not exist.
    StreamMissing = "stream_missing",
    /// The durable does not exist, and the file does not let it be created.
    DurableMissing = "durable_missing",
    /// The durable does not exist and will be created.
    DurableToBeCreated = "durable_to_be_created",
    /// The durable is not what the file says, or of no use.
    DurableDiffers = "durable_differs",
    /// A stream of the MQTT gateway.
    MqttStream = "mqtt_stream",
    /// The stream is a mirror.
    StreamIsMirror = "stream_is_mirror",
    /// The stream takes messages from other streams.
    StreamHasSources = "stream_has_sources",
    /// Subjects are rewritten on their way into the stream.
    SubjectTransform = "subject_transform",
    /// Interest retention and no consumer: publishes succeed and vanish.
    InterestWithoutConsumer = "interest_without_consumer",
    /// Interest retention, and this durable is the only consumer.
    InterestSoleConsumer = "interest_sole_consumer",
    /// Interest retention and a new durable: what was published before is gone.
    InterestNewDurable = "interest_new_durable",
    /// Interest retention and a subject that no consumer filters: publishes succeed and vanish.
    InterestSubjectUnwanted = "interest_subject_unwanted",
    /// Another consumer keeps an interest stream from freeing anything.
    StalledConsumer = "stalled_consumer",
    /// A work-queue stream and a limit on deliveries: what exhausts it stays for ever.
    WorkQueueMaxDeliver = "work_queue_max_deliver",
    /// Messages of a work-queue stream that no consumer will ever deliver.
    WorkQueueExhausted = "work_queue_exhausted",
    /// A subject of a work-queue stream that no consumer filters: its messages stay for ever.
    WorkQueueSubjectUnwanted = "work_queue_subject_unwanted",
    /// The durable's filter overlaps with another consumer's on a work-queue stream.
    WorkQueueOverlap = "work_queue_overlap",
    /// A limit is nearly reached, and publishes will be refused.
    LimitNearlyFull = "limit_nearly_full",
    /// A limit can remove messages that were not read.
    UnreadAtRisk = "unread_at_risk",
    /// Messages are missing between the first and the last.
    DeletedGaps = "deleted_gaps",
    /// The stream is sealed.
    StreamSealed = "stream_sealed",
    /// The back-off list replaces the ack wait.
    BackoffReplacesAckWait = "backoff_replaces_ack_wait",
    /// The ack wait is too short for the write path.
    AckWaitTooShort = "ack_wait_too_short",
    /// `max_ack_pending` is below what the batches need.
    MaxAckPendingTooSmall = "max_ack_pending_too_small",
    /// Deliveries that are not settled have reached `max_ack_pending`.
    AckPendingAtLimit = "ack_pending_at_limit",
    /// `max_deliver` is not above our own limits.
    MaxDeliverTooSmall = "max_deliver_too_small",
    /// `max_deliver` is finite, and no stream captures what the server gives up on.
    MaxDeliverUnwatched = "max_deliver_unwatched",
    /// A limit of the durable on pulls.
    PullLimit = "pull_limit",
    /// A batch has no room for the largest message.
    BatchBytesTooSmall = "batch_bytes_too_small",
    /// The durable leaves bodies out.
    HeadersOnly = "headers_only",
    /// The server deletes the durable when nobody pulls.
    InactiveThreshold = "inactive_threshold",
    /// A filter that no subject of the stream meets.
    FilterOutsideStream = "filter_outside_stream",
    /// The durable is paused.
    DurablePaused = "durable_paused",
    /// A server whose retention loses messages of such a stream.
    ServerRetentionBug = "server_retention_bug",
    /// Rejected messages have nowhere to go.
    DeadLetterNotConfigured = "dead_letter_not_configured",
    /// No stream captures the subject of dead letters.
    DeadLetterStreamMissing = "dead_letter_stream_missing",
    /// The dead-letter stream would lose dead letters, or hand them back.
    DeadLetterStreamRefused = "dead_letter_stream_refused",
    /// The dead-letter stream can discard dead letters.
    DeadLetterDiscarded = "dead_letter_discarded",
    /// The dead-letter stream is a work queue.
    DeadLetterWorkQueue = "dead_letter_work_queue",
    /// The dead-letter stream does not take the largest messages.
    DeadLetterTooLarge = "dead_letter_too_large",
    /// A crash can store a dead letter twice.
    DeadLetterDuplicateWindow = "dead_letter_duplicate_window",
    /// The dead-letter stream is nearly full.
    DeadLetterNearlyFull = "dead_letter_nearly_full",
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub code: Code,
    /// How bad it is.
    pub level: Level,
    /// What was seen, with its figures.
    pub seen: String,
    /// What to do; empty where nothing is to be done.
    pub remedy: String,
}

impl Finding {
    pub(super) fn info(code: Code, seen: impl Into<String>) -> Self {
        Self { code, level: Level::Info, seen: seen.into(), remedy: String::new() }
    }

    pub(super) fn warning(code: Code, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code, level: Level::Warning, seen: seen.into(), remedy: remedy.into() }
    }

    pub(super) fn refusal(code: Code, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code, level: Level::Refusal, seen: seen.into(), remedy: remedy.into() }
    }

    /// What was seen and what to do, in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let joined = if self.remedy.is_empty() {
            self.seen.clone()
        } else {
            format!("{}; {}", self.seen, self.remedy)
        };
        joined.replace('\n', "; ")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", self.level.as_str(), self.code.as_str(), self.text())
    }
}
