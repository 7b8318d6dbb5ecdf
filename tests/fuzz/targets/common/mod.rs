//! What several targets need: an envelope, and settings of a gate that looks at everything.
#![allow(dead_code, reason = "not every target needs all of it")]

use jetsink::checks::GateSettings;
use jetsink::checks::authenticity::{
    Algorithm, Authenticity, AuthenticityHeaders, AuthenticityRule, AuthenticitySettings, KeySettings, SignatureRule,
    SignedField,
};
use jetsink::checks::metadata::{AllowedLabels, MetadataSettings, SecurityLabelSettings};
use jetsink::checks::policy::{Policy, PolicyRule, PolicySettings};
use jetsink::clock::Timestamp;
use jetsink::envelope::{Body, Envelope, Headers, SharedMetadata, SourceNames};
use jetsink::secret::{Secret, SecretSource};
use jetsink::subject::SubjectPattern;

pub fn envelope(subject: &str, headers: Headers, payload: &[u8]) -> Envelope {
    Envelope {
        subject: subject.to_owned(),
        headers,
        payload: payload.to_vec().into(),
        body: Body::Present,
        source: SourceNames::shared("ORDERS", "sink"),
        stream_sequence: 1,
        consumer_sequence: 1,
        delivery_count: 1,
        stored_at: Timestamp(1_796_078_187_322_511_484),
        pending: 0,
        metadata: SharedMetadata::NONE,
    }
}

fn pattern(text: &str) -> SubjectPattern {
    SubjectPattern::parse(text).expect("a pattern")
}

/// Labels and policy; no signatures.
pub fn settings() -> GateSettings {
    let mut rule = PolicyRule::new(pattern(">"));
    rule.required_labels = vec!["audit".into()];
    rule.allowed_mission_metadata_keys = Some(vec!["name".into()]);
    rule.require_encrypted_payload = true;
    GateSettings {
        metadata: MetadataSettings {
            security_labels: Some(SecurityLabelSettings {
                header: "Nats-Sinks-Security-Labels".into(),
                rules: Vec::new(),
                default: None,
                allowed: AllowedLabels { releasability: vec!["A".into(), "B".into()], ..AllowedLabels::default() },
                max_bytes: 8192,
            }),
            ..MetadataSettings::default()
        },
        policy: Policy::Required(PolicySettings { only_warns: false, allow_unmatched: false, rules: vec![rule] }),
        ..GateSettings::default()
    }
}

fn rule(subject: &str, algorithm: Algorithm, key: &str) -> AuthenticityRule {
    let source = SecretSource::Inline(Secret::new(key.to_owned()));
    AuthenticityRule {
        subject: pattern(subject),
        signature: Some(SignatureRule {
            algorithm,
            keys: vec![KeySettings { key_id: "k-2026".into(), source, not_before: None, not_after: None }],
            signed_fields: SignedField::ALL.iter().copied().filter(|field| *field != SignedField::SecurityLabels).collect(),
        }),
    }
}

/// Signatures of both algorithms. Nothing signed with these keys is in the corpus.
pub fn signed_settings() -> GateSettings {
    let rules = vec![
        rule("hmac.>", Algorithm::HmacSha256, "9yHHG3DaNuEEA1GtlrI/1zssMM6rL3lisl6dbKeFmUI="),
        rule("ed.>", Algorithm::Ed25519, "WwghAGV6rlnRbnlC9060hmpJa/nj54ulrRHp/TajdVQ="),
    ];
    let headers = AuthenticityHeaders::default();
    GateSettings {
        authenticity: Authenticity::Required(AuthenticitySettings { headers, rules, allow_unmatched: false }),
        ..settings()
    }
}
