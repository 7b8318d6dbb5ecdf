//! `[nats]` and `[consumer]`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::duration::Span;

/// How to reach and sign in to the servers.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Nats {
    /// Servers: `host`, `host:port`, `nats://host:port` or `tls://host:port`. Required, unless `context` is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::config) servers: Vec<String>,
    /// An existing context of the nats command, by name, instead of servers, sign-in and TLS files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) context: Option<String>,
    /// The name that the server shows for the connection.
    pub(in crate::config) name: String,
    /// The user of a user and password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) user: Option<String>,
    /// File that holds the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) password_file: Option<String>,
    /// Environment variable that holds the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) password_env: Option<String>,
    /// systemd credential that holds the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) password_credential: Option<String>,
    /// File that holds the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) token_file: Option<String>,
    /// Environment variable that holds the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) token_env: Option<String>,
    /// systemd credential that holds the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) token_credential: Option<String>,
    /// File that holds the nkey seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) nkey_seed_file: Option<String>,
    /// Environment variable that holds the nkey seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) nkey_seed_env: Option<String>,
    /// systemd credential that holds the nkey seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) nkey_seed_credential: Option<String>,
    /// Credentials file (JWT and seed), read again at every connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) credentials_file: Option<String>,
    /// Environment variable that holds the content of a credentials file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) credentials_env: Option<String>,
    /// systemd credential that holds the content of a credentials file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) credentials_credential: Option<String>,
    /// Prefix of reply subjects, for users with few permissions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) inbox_prefix: Option<String>,
    /// JetStream domain, if not the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) domain: Option<String>,
    /// Deadline of one connection attempt.
    pub(in crate::config) connect_timeout: Span,
    /// Deadline of one request.
    pub(in crate::config) request_timeout: Span,
    /// How often a silent connection is tested; it is given up on the third test without an answer.
    pub(in crate::config) ping_interval: Span,
    /// TLS towards the server.
    pub(in crate::config) tls: Tls,
}

/// TLS towards the server.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Tls {
    /// Refuse a server without TLS.
    pub(in crate::config) required: bool,
    /// Start TLS before the server's first line; the server must be set up for it.
    pub(in crate::config) first: bool,
    /// CA certificates (PEM), instead of the machine's store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) ca_file: Option<String>,
    /// Client certificate (PEM), together with `key_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) certificate_file: Option<String>,
    /// Key of the client certificate (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_file: Option<String>,
}

impl Default for Nats {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            context: None,
            name: "jetsink".into(),
            user: None,
            password_file: None,
            password_env: None,
            password_credential: None,
            token_file: None,
            token_env: None,
            token_credential: None,
            nkey_seed_file: None,
            nkey_seed_env: None,
            nkey_seed_credential: None,
            credentials_file: None,
            credentials_env: None,
            credentials_credential: None,
            inbox_prefix: None,
            domain: None,
            connect_timeout: Span(Duration::from_secs(5)),
            request_timeout: Span(Duration::from_secs(5)),
            ping_interval: Span(Duration::from_secs(10)),
            tls: Tls::default(),
        }
    }
}

/// The stream and its durable consumer. Keys that are not set are not compared when a durable is bound, and take the
/// server's default when one is created.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Consumer {
    /// The stream. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) stream: Option<String>,
    /// The durable. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) durable: Option<String>,
    /// What to do when the durable does not exist at start. An existing one is never rewritten.
    pub(in crate::config) mode: Mode,
    /// What to do when stream or durable vanish while running.
    pub(in crate::config) on_gone: OnGone,
    /// Subjects that the durable filters; empty = not set.
    pub(in crate::config) filter_subjects: Vec<String>,
    /// Where a created durable starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) deliver_policy: Option<DeliverPolicy>,
    /// The stream sequence of `deliver_policy = "start_sequence"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) start_sequence: Option<u64>,
    /// How long the server waits for an acknowledgement before it delivers again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) ack_wait: Option<Span>,
    /// Deliveries of one message after which the server gives up; -1 = never, which a created durable gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) max_deliver: Option<i64>,
    /// Messages in flight at once; -1 = no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) max_ack_pending: Option<i64>,
    /// Ack waits of the first, second, … delivery; the first one quietly replaces `ack_wait`.
    pub(in crate::config) backoff: Vec<Span>,
    /// Replicas of a created durable, 1 to 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) replicas: Option<u64>,
    /// Whether a durable that leaves bodies out is refused or expected.
    pub(in crate::config) headers_only: HeadersOnly,
    /// How long one pull stays open; recovery after the loss of a leader takes about this and five seconds.
    pub(in crate::config) expires: Span,
}

impl Default for Consumer {
    fn default() -> Self {
        Self {
            stream: None,
            durable: None,
            mode: Mode::default(),
            on_gone: OnGone::default(),
            filter_subjects: Vec::new(),
            deliver_policy: None,
            start_sequence: None,
            ack_wait: None,
            max_deliver: None,
            max_ack_pending: None,
            backoff: Vec::new(),
            replicas: None,
            headers_only: HeadersOnly::default(),
            expires: Span(Duration::from_secs(5)),
        }
    }
}

/// What to do when the durable does not exist at start.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Mode {
    #[default]
    Bind,
    CreateIfMissing,
}

/// What to do when stream or durable vanish while running.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum OnGone {
    #[default]
    Wait,
    Exit,
}

/// Where a created durable starts.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum DeliverPolicy {
    All,
    New,
    StartSequence,
}

/// Whether a durable that leaves bodies out is refused or expected.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum HeadersOnly {
    #[default]
    Refused,
    Expected,
}
