//! The closed sets that metric labels come from.

use super::health::NotReady;
use super::measures::Label;
use crate::reason::{ReasonCode, Stage};

/// Why a dead letter is not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PublishFailure {
    /// There is no dead-letter subject.
    NotConfigured,
    /// No stream captures the subject, or no server is there.
    Unavailable,
    /// The stream said no.
    Refused,
    /// No answer in time.
    Unconfirmed,
    /// It fits in no permitted form.
    TooLarge,
    /// It is a dead letter of the same durable already, several times over.
    ComesBack,
}

/// What a status line told about a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PullStatus {
    /// 100, idle heartbeat.
    IdleHeartbeat,
    /// 400, bad request.
    BadRequest,
    /// 404, no messages.
    NoMessages,
    /// 408, the pull has expired.
    Expired,
    /// 409, batch completed.
    BatchCompleted,
    /// 409, the consumer (or its stream) is deleted.
    ConsumerDeleted,
    /// 409, the consumer is push based.
    PushBased,
    /// 409, the next message does not fit into the bytes that were asked for.
    MessageTooLarge,
    /// 409, too many pulls wait.
    TooManyWaiting,
    /// 409, the pull asks for more than the consumer allows.
    LimitExceeded,
    /// 409, the consumer has a new leader.
    LeadershipChange,
    /// 409, the server shuts down.
    ServerShutdown,
    /// 423, the pin belongs to another client.
    PinMismatch,
    /// 503, nobody answers for the consumer.
    NoResponders,
    /// Anything else.
    Other,
}

/// What became of an advisory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdvisoryOutcome {
    /// Its message was handed over, to be dead-lettered.
    HandedOver,
    /// Its message is gone: the loss was handed over, to be recorded.
    Lost,
    /// It is about a message that this daemon has settled, or has terminated itself.
    Settled,
    /// It is about an earlier durable of the same name, and the present one delivers the message anew.
    Superseded,
    /// The server's facts contradict it.
    NotBelieved,
    /// It is no advisory.
    Malformed,
    /// It is an advisory of another kind, or about another durable.
    Ignored,
    /// Its message cannot be read now; it comes again.
    Postponed,
}

impl Label for AdvisoryOutcome {
    const NAMES: &'static [&'static str] = &["outcome"];

    fn all() -> Vec<Self> {
        vec![
            Self::HandedOver,
            Self::Lost,
            Self::Settled,
            Self::Superseded,
            Self::NotBelieved,
            Self::Malformed,
            Self::Ignored,
            Self::Postponed,
        ]
    }

    fn values(self) -> Vec<&'static str> {
        vec![match self {
            Self::HandedOver => "handed_over",
            Self::Lost => "lost",
            Self::Settled => "settled",
            Self::Superseded => "superseded",
            Self::NotBelieved => "not_believed",
            Self::Malformed => "malformed",
            Self::Ignored => "ignored",
            Self::Postponed => "postponed",
        }]
    }
}

/// How reading the keys again ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyReload {
    /// The new keys are in use.
    Succeeded,
    /// The old ones stay.
    Failed,
}

/// A limit of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamLimit {
    /// `max_msgs`.
    Messages,
    /// `max_bytes`.
    Bytes,
}

impl Label for StreamLimit {
    const NAMES: &'static [&'static str] = &["limit"];

    fn all() -> Vec<Self> {
        vec![Self::Messages, Self::Bytes]
    }

    fn values(self) -> Vec<&'static str> {
        vec![match self {
            Self::Messages => "messages",
            Self::Bytes => "bytes",
        }]
    }
}

impl Label for KeyReload {
    const NAMES: &'static [&'static str] = &["outcome"];

    fn all() -> Vec<Self> {
        vec![Self::Succeeded, Self::Failed]
    }

    fn values(self) -> Vec<&'static str> {
        vec![match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }]
    }
}

impl Label for PublishFailure {
    const NAMES: &'static [&'static str] = &["kind"];

    fn all() -> Vec<Self> {
        vec![
            Self::NotConfigured,
            Self::Unavailable,
            Self::Refused,
            Self::Unconfirmed,
            Self::TooLarge,
            Self::ComesBack,
        ]
    }

    fn values(self) -> Vec<&'static str> {
        vec![match self {
            Self::NotConfigured => "not_configured",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Unconfirmed => "unconfirmed",
            Self::TooLarge => "too_large",
            Self::ComesBack => "comes_back",
        }]
    }
}

impl Label for PullStatus {
    const NAMES: &'static [&'static str] = &["class"];

    fn all() -> Vec<Self> {
        vec![
            Self::IdleHeartbeat,
            Self::BadRequest,
            Self::NoMessages,
            Self::Expired,
            Self::BatchCompleted,
            Self::ConsumerDeleted,
            Self::PushBased,
            Self::MessageTooLarge,
            Self::TooManyWaiting,
            Self::LimitExceeded,
            Self::LeadershipChange,
            Self::ServerShutdown,
            Self::PinMismatch,
            Self::NoResponders,
            Self::Other,
        ]
    }

    fn values(self) -> Vec<&'static str> {
        vec![match self {
            Self::IdleHeartbeat => "idle_heartbeat",
            Self::BadRequest => "bad_request",
            Self::NoMessages => "no_messages",
            Self::Expired => "expired",
            Self::BatchCompleted => "batch_completed",
            Self::ConsumerDeleted => "consumer_deleted",
            Self::PushBased => "push_based",
            Self::MessageTooLarge => "message_too_large",
            Self::TooManyWaiting => "too_many_waiting",
            Self::LimitExceeded => "limit_exceeded",
            Self::LeadershipChange => "leadership_change",
            Self::ServerShutdown => "server_shutdown",
            Self::PinMismatch => "pin_mismatch",
            Self::NoResponders => "no_responders",
            Self::Other => "other",
        }]
    }
}

impl Label for NotReady {
    const NAMES: &'static [&'static str] = &["reason"];

    fn all() -> Vec<Self> {
        Self::ALL.to_vec()
    }

    fn values(self) -> Vec<&'static str> {
        vec![self.as_str()]
    }
}

/// What a policy that only warns has against a message. Only its usual reasons are there from the start.
impl Label for ReasonCode {
    const NAMES: &'static [&'static str] = &["reason"];

    fn all() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|reason| usual_stage(*reason) == Stage::Policy).collect()
    }

    fn values(self) -> Vec<&'static str> {
        vec![self.as_str()]
    }
}

/// A rejection. Only the stages where a reason usually arises are there from the start.
impl Label for (Stage, ReasonCode) {
    const NAMES: &'static [&'static str] = &["stage", "reason"];

    fn all() -> Vec<Self> {
        ReasonCode::ALL.iter().map(|reason| (usual_stage(*reason), *reason)).collect()
    }

    fn values(self) -> Vec<&'static str> {
        vec![self.0.as_str(), self.1.as_str()]
    }
}

const fn usual_stage(reason: ReasonCode) -> Stage {
    match reason {
        ReasonCode::AlgorithmHeaderMissing
        | ReasonCode::AlgorithmMismatch
        | ReasonCode::KeyIdHeaderMissing
        | ReasonCode::KeyIdMismatch
        | ReasonCode::SignatureHeaderMissing
        | ReasonCode::SignatureInvalid
        | ReasonCode::AuthenticityHeaderAmbiguous
        | ReasonCode::SubjectNotCoveredByAuthenticityPolicy => Stage::Authenticity,
        ReasonCode::PriorityRequired
        | ReasonCode::ClassificationRequired
        | ReasonCode::RequiredLabelMissing
        | ReasonCode::MissionMetadataRequired
        | ReasonCode::MissionMetadataKeyNotAllowed
        | ReasonCode::EncryptedPayloadRequired
        | ReasonCode::MqttQosTooLow
        | ReasonCode::SchemaViolation
        | ReasonCode::SubjectNotCoveredByPolicy => Stage::Policy,
        ReasonCode::PayloadTooLarge
        | ReasonCode::HeaderCountTooLarge
        | ReasonCode::HeaderNameTooLarge
        | ReasonCode::HeaderValueTooLarge
        | ReasonCode::HeadersTooLarge
        | ReasonCode::LabelCountTooLarge
        | ReasonCode::LabelTooLarge
        | ReasonCode::LabelsTooLarge
        | ReasonCode::MissionMetadataTooLarge
        | ReasonCode::MissionMetadataInvalid
        | ReasonCode::SecurityLabelsInvalid
        | ReasonCode::SecurityLabelNotAllowed
        | ReasonCode::StandardMetadataTooLarge
        | ReasonCode::NormalizedRecordTooLarge => Stage::Size,
        ReasonCode::PayloadNotJson | ReasonCode::NameTooLong | ReasonCode::SinkRefused => Stage::Sink,
        ReasonCode::AttemptsExhausted
        | ReasonCode::SuspectedCrash
        | ReasonCode::UndeliverableMessage
        | ReasonCode::DeliveriesExhausted
        | ReasonCode::TerminatedElsewhere
        | ReasonCode::MessageLost => Stage::Delivery,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_distinct<L: Label>() {
        let mut values: Vec<_> = L::all().into_iter().map(Label::values).collect();
        assert!(values.iter().all(|values| values.len() == L::NAMES.len()));
        let count = values.len();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), count);
    }

    #[test]
    fn labels_are_distinct_and_complete() {
        assert_distinct::<KeyReload>();
        assert_distinct::<StreamLimit>();
        assert_distinct::<ReasonCode>();
        assert_distinct::<PublishFailure>();
        assert_distinct::<PullStatus>();
        assert_distinct::<NotReady>();
        assert_distinct::<(Stage, ReasonCode)>();
    }
}
