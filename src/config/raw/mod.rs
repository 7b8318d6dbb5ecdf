//! The configuration as it is written: serde structs, unknown keys denied, every default filled in.
//!
//! Doc comments here are the descriptions of the JSON Schema. There is no `Debug`: raw values may hold what a person put
//! in the wrong place.

mod authenticity;
mod connection;
mod delivery;
mod messages;
mod metadata;
mod operations;
mod policy;
mod sink;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use authenticity::{Algorithm, Authenticity, AuthenticityKey, AuthenticityRule, SignedField};
pub(super) use connection::{Consumer, DeliverPolicy, HeadersOnly, Mode, Nats, OnGone, Tls};
pub(super) use delivery::{
    Breaker, DeadLetter, Delivery, Format, Order, Retry, SubjectToken, TemporaryFailureAction,
    usual_redactions,
};
pub(super) use messages::{SizePolicy, UnmatchedSubjectAction};
pub(super) use metadata::{MessageMetadata, MetadataRule, SecurityLabels};
pub(super) use operations::{Admin, LogFormat, Logging};
pub(super) use policy::{Policy, PolicyMode, PolicyRule};
pub(super) use sink::{Compression, File, Layout, Partition, PayloadMode, Record, Sink, SinkType};

/// The configuration of jetsink.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {
    /// How to reach and sign in to the servers.
    pub(super) nats: Nats,
    /// The stream and its durable consumer.
    pub(super) consumer: Consumer,
    /// Batches, order, retries, stop.
    pub(super) delivery: Delivery,
    /// Where failed messages go. Without this section they stay on the stream and readiness says so.
    pub(super) dead_letter: DeadLetter,
    /// Where metadata comes from: a header, else the first rule for the subject that sets the field, else the default.
    pub(super) message_metadata: MessageMetadata,
    /// Security labels, profile `nats-sinks.security-label.v1`: from a header, else from the first rule for the subject, else
    /// the default.
    pub(super) security_labels: SecurityLabels,
    /// Signatures of messages.
    pub(super) message_authenticity: Authenticity,
    /// Limits of sizes.
    pub(super) size_policy: SizePolicy,
    /// Rules that a message must meet before it reaches the sink.
    pub(super) pre_sink_policy: Policy,
    /// Where messages become durable.
    pub(super) sink: Sink,
    /// The listener of metrics and health.
    pub(super) admin: Admin,
    /// Logs, on standard error.
    pub(super) logging: Logging,
}
