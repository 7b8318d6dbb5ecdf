//! What is measured: gates and the messages they judge.

use jetsink::checks::authenticity::{
    Algorithm, Authenticity, AuthenticityHeaders, AuthenticityRule, AuthenticitySettings, KeySettings,
    SignatureRule, SignedField, SigningInput, SigningKey,
};
use jetsink::checks::policy::{Policy, PolicyRule, PolicySettings};
use jetsink::checks::{Gate, GateSettings};
use jetsink::delivery::Gate as _;
use jetsink::envelope::{Envelope, Headers};
use jetsink::secret::{Secret, SecretSource};
use jetsink::subject::SubjectPattern;
use jetsink::testing::builders;

/// Different messages, so that nothing is measured out of the nearest cache alone.
const MESSAGES: u64 = 1_000;
const PAYLOAD_BYTES: usize = 512;
const KEY_ID: &str = "orders-2026-11";
const FIELDS: &[SignedField] = &[
    SignedField::Subject,
    SignedField::MessageId,
    SignedField::Priority,
    SignedField::Classification,
    SignedField::Labels,
];

/// A gate and what it judges.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Messages a second on one core.
    pub(crate) target: Option<u64>,
    pub(crate) gate: Gate,
    pub(crate) envelopes: Vec<Envelope>,
}

pub(crate) fn all() -> Vec<Case> {
    let with_headers = || (1..=MESSAGES).map(|number| message(number, true)).collect();
    let bare = (1..=MESSAGES).map(|number| message(number, false)).collect();
    vec![
        signed("ed25519", 25_000, Algorithm::Ed25519),
        signed("hmac-sha256", 250_000, Algorithm::HmacSha256),
        Case {
            name: "size+policy",
            target: Some(2_000_000),
            gate: open(GateSettings { policy: policy(true), ..GateSettings::default() }),
            envelopes: with_headers(),
        },
        Case {
            name: "no-headers",
            target: Some(2_000_000),
            gate: open(GateSettings { policy: policy(false), ..GateSettings::default() }),
            envelopes: bare,
        },
    ]
}

fn open(settings: GateSettings) -> Gate {
    Gate::open(settings).unwrap()
}

/// Signatures on top of size and policy.
fn signed(name: &'static str, target: u64, algorithm: Algorithm) -> Case {
    let key = SigningKey::generate(algorithm).unwrap();
    let text = key.public_text().map_or_else(|| key.secret_text(), Secret::new);
    let keys = vec![KeySettings {
        key_id: KEY_ID.into(),
        source: SecretSource::Inline(text),
        not_before: None,
        not_after: None,
    }];
    let rule = AuthenticityRule {
        subject: SubjectPattern::parse("orders.>").unwrap(),
        signature: Some(SignatureRule { algorithm, keys, signed_fields: FIELDS.to_vec() }),
    };
    let authenticity = AuthenticitySettings {
        headers: AuthenticityHeaders::default(),
        rules: vec![rule],
        allow_unmatched: false,
    };
    let settings = GateSettings {
        authenticity: Authenticity::Required(authenticity),
        policy: policy(true),
        ..GateSettings::default()
    };
    let reader = open(GateSettings::default());
    let envelopes = (1..=MESSAGES).map(|number| sign(&key, &reader, message(number, true))).collect();
    Case { name, target: Some(target), gate: open(settings), envelopes }
}

fn sign(key: &SigningKey, reader: &Gate, mut envelope: Envelope) -> Envelope {
    let metadata = reader.judge(&envelope).metadata;
    let input = SigningInput {
        subject: &envelope.subject,
        message_id: envelope.message_id(),
        metadata: &metadata,
        payload: &envelope.payload,
    };
    let signature = key.sign(KEY_ID, FIELDS, &input);
    for (name, value) in signature.headers(&AuthenticityHeaders::default()) {
        envelope.headers.append(name, value.to_owned());
    }
    envelope
}

fn policy(asks_for_metadata: bool) -> Policy {
    let mut rule = PolicyRule::new(SubjectPattern::parse("orders.>").unwrap());
    rule.max_payload_bytes = Some(64 << 10);
    if asks_for_metadata {
        rule.require_priority = true;
        rule.require_classification = true;
        rule.required_labels = vec!["audit".into()];
    }
    Policy::Required(PolicySettings { only_warns: false, allow_unmatched: false, rules: vec![rule] })
}

fn message(number: u64, has_headers: bool) -> Envelope {
    let mut envelope = builders::envelope(number).build();
    envelope.subject = format!("orders.region-{}.created", number % 7);
    let body = format!("{{\"order\":{number},\"text\":\"");
    envelope.payload = format!("{body:x<width$}\"}}", width = PAYLOAD_BYTES - 2).into();
    assert_eq!(envelope.payload.len(), PAYLOAD_BYTES);
    envelope.headers = Headers::new();
    if has_headers {
        envelope.headers.append("Nats-Msg-Id", format!("order-{number}"));
        envelope.headers.append("Content-Type", "application/json");
        envelope.headers.append("traceparent", format!("00-{number:032x}-{number:016x}-01"));
        envelope.headers.append("Nats-Sinks-Priority", "high");
        envelope.headers.append("Nats-Sinks-Classification", "internal");
        envelope.headers.append("Nats-Sinks-Labels", "audit;orders");
    }
    envelope
}
