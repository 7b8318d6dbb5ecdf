//! `[message_authenticity]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnmatchedSubjectAction;
use crate::checks::authenticity::AuthenticityHeaders;

/// Signatures of messages.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct Authenticity {
    /// Ask for signatures, as the rules say.
    pub(in crate::config) enabled: bool,
    /// What happens to a message that no rule covers.
    pub(in crate::config) unmatched_subject_action: UnmatchedSubjectAction,
    /// Header of the algorithm.
    pub(in crate::config) algorithm_header: String,
    /// Header of the key id.
    pub(in crate::config) key_id_header: String,
    /// Header of the signature, in standard base64.
    pub(in crate::config) signature_header: String,
    /// Rules; the first that matches the subject counts.
    pub(in crate::config) rules: Vec<AuthenticityRule>,
}

impl Default for Authenticity {
    fn default() -> Self {
        let headers = AuthenticityHeaders::default();
        Self {
            enabled: false,
            unmatched_subject_action: UnmatchedSubjectAction::default(),
            algorithm_header: headers.algorithm,
            key_id_header: headers.key_id,
            signature_header: headers.signature,
            rules: Vec::new(),
        }
    }
}

/// What is asked of the messages of some subjects: one key (`key_id` and its place), or several (`keys`).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct AuthenticityRule {
    /// Pattern of the subjects. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) subject: Option<String>,
    /// Ask for a signature; `false` = these subjects are exempt, and the rule takes no key.
    pub(in crate::config) enabled: bool,
    /// The algorithm. Required, unless the rule is an exemption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) algorithm: Option<Algorithm>,
    /// Id of the only key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_id: Option<String>,
    /// File that holds the only key, in standard base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_file: Option<String>,
    /// Environment variable that holds the only key, in standard base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_env: Option<String>,
    /// systemd credential that holds the only key, in standard base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_credential: Option<String>,
    /// Several keys, so that old and new ones overlap; instead of `key_id` and its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::config) keys: Vec<AuthenticityKey>,
    /// What is signed beside the payload.
    pub(in crate::config) signed_fields: Vec<SignedField>,
}

impl Default for AuthenticityRule {
    fn default() -> Self {
        Self {
            subject: None,
            enabled: true,
            algorithm: None,
            key_id: None,
            key_file: None,
            key_env: None,
            key_credential: None,
            keys: Vec::new(),
            signed_fields: vec![SignedField::Subject, SignedField::MessageId],
        }
    }
}

/// One of several keys.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::config) struct AuthenticityKey {
    /// The id that producers send. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_id: Option<String>,
    /// File that holds the key, in standard base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_file: Option<String>,
    /// Environment variable that holds the key, in standard base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_env: Option<String>,
    /// systemd credential that holds the key, in standard base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) key_credential: Option<String>,
    /// The key verifies no message that the stream stored before this time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) not_before: Option<String>,
    /// The key verifies no message that the stream stored after this time (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) not_after: Option<String>,
}

/// A signature algorithm.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(in crate::config) enum Algorithm {
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    #[serde(rename = "ed25519")]
    Ed25519,
}

/// A field that a signature covers beside the payload.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum SignedField {
    Subject,
    MessageId,
    Priority,
    Classification,
    Labels,
    MissionMetadata,
    SecurityLabels,
}
