//! Every rule with what passes and what does not, exactly.

use std::path::PathBuf;

use bytes::Bytes;
use proptest::prelude::{any, prop, prop_assert, proptest};

use super::*;
use crate::checks::{Gate, GateError, GateSettings};
use crate::delivery::{Gate as _, Verdict};
use crate::envelope::{Body, Envelope, Metadata};
use crate::reason::{ErrorType, ReasonCode, Stage};
use crate::subject::SubjectPattern;
use crate::testing::builders;

const FIELDS: &str = "the body is no object with exactly the fields of the envelope";
const OMITTED: &str = "a rule looks at the body, and the durable consumer delivers headers only";

fn rule(subject: &str, ask: impl FnOnce(&mut PolicyRule)) -> PolicyRule {
    let mut rule = PolicyRule::new(SubjectPattern::parse(subject).unwrap());
    ask(&mut rule);
    rule
}

fn settings(rules: Vec<PolicyRule>) -> PolicySettings {
    PolicySettings { only_warns: false, allow_unmatched: false, rules }
}

fn rules(rules: Vec<PolicyRule>) -> Rules {
    Rules::open(&settings(rules)).unwrap()
}

fn only(ask: impl FnOnce(&mut PolicyRule)) -> Rules {
    rules(vec![rule(">", ask)])
}

fn body(payload: impl Into<Bytes>) -> Envelope {
    builders::envelope(1).payload(payload).build()
}

fn omitted(original_size: Option<u64>) -> Envelope {
    builders::envelope(1).payload("").body(Body::Omitted { original_size, malformed: false }).build()
}

fn from_mqtt(header: &'static str) -> Envelope {
    builders::envelope(1).header("Nmqtt-Pub", header).build()
}

#[track_caller]
fn assert_passes(rules: &Rules, envelope: &Envelope, metadata: &Metadata) {
    assert_eq!(rules.judge(envelope, metadata), Ok(()));
}

#[track_caller]
fn assert_violates(
    rules: &Rules,
    envelope: &Envelope,
    metadata: &Metadata,
    reason: ReasonCode,
    detail: &str,
) {
    let expected = Rejection {
        stage: Stage::Policy,
        reason,
        error_type: ErrorType::PolicyViolation,
        detail: detail.into(),
    };
    assert_eq!(rules.judge(envelope, metadata).map_err(|violation| *violation), Err(expected));
}

fn schema_file(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("schema.json");
    std::fs::write(&path, text).unwrap();
    path
}

/// An encrypted payload envelope, with one field replaced by other JSON, or left out.
fn encrypted(field: &str, json: Option<&str>) -> String {
    let fields = [
        ("schema", "\"nats_sinks.encrypted_payload.v1\""),
        ("version", "1"),
        ("algorithm", "\"aes-256-gcm\""),
        ("key_id", "\"k1\""),
        ("nonce", "\"AAECAwQFBgcICQoL\""),
        ("nonce_size_bytes", "12"),
        ("ciphertext", "\"AAECAwQFBgcICQoLDA0ODxAR\""),
        ("ciphertext_encoding", "\"base64\""),
        ("tag_length", "16"),
        ("plaintext_sha256", "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\""),
        ("plaintext_size_bytes", "2"),
    ];
    let mut out = Vec::new();
    for (name, value) in fields {
        let value = if name == field { json } else { Some(value) };
        out.extend(value.map(|value| format!("\"{name}\":{value}")));
    }
    if !fields.iter().any(|(name, _)| *name == field) {
        out.extend(json.map(|value| format!("\"{field}\":{value}")));
    }
    format!("{{\"_nats_sinks_encryption\":{{{}}}}}", out.join(","))
}

#[test]
fn metadata_that_a_rule_requires() {
    use ReasonCode as Code;
    let (none, envelope) = (Metadata::default(), body("{}"));

    let priority = only(|own| own.require_priority = true);
    assert_passes(&priority, &envelope, &Metadata { priority: Some("high".into()), ..none.clone() });
    let detail = "a rule for the subject requires a priority";
    assert_violates(&priority, &envelope, &none, Code::PriorityRequired, detail);

    let classification = only(|own| own.require_classification = true);
    let with = Metadata { classification: Some("open".into()), ..none.clone() };
    assert_passes(&classification, &envelope, &with);
    let detail = "a rule for the subject requires a classification";
    assert_violates(&classification, &envelope, &none, Code::ClassificationRequired, detail);

    let labels = only(|own| own.required_labels = vec!["audit".into(), "eu".into()]);
    let with = |labels: &[&str]| Metadata {
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        ..Metadata::default()
    };
    assert_passes(&labels, &envelope, &with(&["eu", "other", "audit"]));
    let missing = Code::RequiredLabelMissing;
    assert_violates(&labels, &envelope, &none, missing, "a required label is missing: audit");
    assert_violates(&labels, &envelope, &with(&["audit", "EU"]), missing, "a required label is missing: eu");

    let mission = only(|own| own.require_mission_metadata = true);
    let with = |text: &str| Metadata { mission_metadata: Some(text.into()), ..Metadata::default() };
    assert_passes(&mission, &envelope, &with("{}"));
    let detail = "a rule for the subject requires mission metadata";
    assert_violates(&mission, &envelope, &none, Code::MissionMetadataRequired, detail);

    let keys = only(|own| own.allowed_mission_metadata_keys = Some(vec!["z".into(), "a\"ü".into()]));
    assert_passes(&keys, &envelope, &none);
    assert_passes(&keys, &envelope, &with("{}"));
    assert_passes(&keys, &envelope, &with(r#"{"a\"ü":{"CANARY":1},"z":[{"b":1}]}"#));
    let detail = "mission metadata has a key that a rule does not allow";
    for text in [r#"{"CANARY":1,"z":1}"#, r#"{"z":1,"zz":1}"#, r#"{"Z":1}"#, "[]", "{", ""] {
        assert_violates(&keys, &envelope, &with(text), Code::MissionMetadataKeyNotAllowed, detail);
    }
    let none_at_all = only(|own| own.allowed_mission_metadata_keys = Some(Vec::new()));
    assert_passes(&none_at_all, &envelope, &with("{}"));
    assert_violates(&none_at_all, &envelope, &with("{\"a\":1}"), Code::MissionMetadataKeyNotAllowed, detail);
}

#[test]
fn an_encrypted_payload() {
    let asked = only(|own| own.require_encrypted_payload = true);
    let none = Metadata::default();
    let passes = [
        encrypted("", None),
        format!(" {}\n", encrypted("", None)),
        encrypted("plaintext_sha256", None),
        encrypted("plaintext_sha256", Some("null")),
        encrypted("plaintext_size_bytes", None),
        encrypted("plaintext_size_bytes", Some("null")),
        encrypted("tag_length", Some("13")),
        encrypted("algorithm", Some("\"aes-256-ccm\"")),
        encrypted("ciphertext", Some(&format!("\"{}\"", "AAAA".repeat(5000)))),
        encrypted("ciphertext", Some("\"\\/\\/\\/\\/AwQFBgcICQoLDA0ODxAR\"")),
        encrypted("version", Some("1")).replace("key_id", "key_\\u0069d"),
    ];
    for payload in passes {
        assert_passes(&asked, &body(payload), &none);
    }
    for payload in no_envelopes() {
        assert_not_encrypted(&payload, FIELDS);
    }
    assert_violates(&asked, &omitted(None), &none, ReasonCode::EncryptedPayloadRequired, OMITTED);
}

fn assert_not_encrypted(payload: &str, why: &str) {
    let asked = only(|own| own.require_encrypted_payload = true);
    let detail = format!("a rule for the subject requires an encrypted payload: {why}");
    let envelope = body(payload.to_owned());
    assert_violates(&asked, &envelope, &Metadata::default(), ReasonCode::EncryptedPayloadRequired, &detail);
}

#[test]
fn every_field_of_an_encrypted_payload_is_judged() {
    let fields = FIELDS;
    let nonce = "its nonce is no base64 of the stated size, or of a size that the algorithm does not have";
    let tag = "its tag length is none that the algorithm has";
    let ciphertext = "its ciphertext is no base64, or shorter than the tag";
    let hash = "its plaintext_sha256 is no 64 lower-case hex digits";
    let large = format!("\"{}====\"", "A".repeat(1020));
    let padding_within = format!("\"{}=={}\"", "A".repeat(1022), "A".repeat(1024));
    let refused = [
        ("schema", Some("\"nats_sinks.encrypted_payload.v2\""), "its schema or version is not known"),
        ("version", Some("2"), "its schema or version is not known"),
        ("version", Some("1.0"), fields),
        ("version", Some("\"1\""), fields),
        ("algorithm", Some("\"AES-256-GCM\""), "its algorithm is not known"),
        ("algorithm", Some("\"aes-128-gcm\""), "its algorithm is not known"),
        ("key_id", Some("\" \""), "its key id is blank"),
        ("key_id", Some("null"), fields),
        ("nonce", Some("\"AAECAwQFBgcICQo\""), nonce),
        ("nonce", Some("\"AAECAwQFBgcICQo=\""), nonce),
        ("nonce_size_bytes", Some("13"), nonce),
        ("nonce_size_bytes", Some("-12"), fields),
        ("tag_length", Some("11"), tag),
        ("tag_length", Some("17"), tag),
        ("tag_length", Some("16.0"), fields),
        ("ciphertext", Some("\"\""), ciphertext),
        ("ciphertext", Some("\"AAECAwQFBgcICQoLDA0ODw\""), ciphertext),
        ("ciphertext", Some("\"AAECAwQFBgcICQoLDA0O\""), ciphertext),
        ("ciphertext", Some("\"-_ECAwQFBgcICQoLDA0ODxAR\""), ciphertext),
        ("ciphertext", Some("\"AAECAwQFBgcICQoLDA0ODxB=\""), ciphertext),
        ("ciphertext", Some(&*large), ciphertext),
        ("ciphertext", Some(&*padding_within), ciphertext),
        ("ciphertext_encoding", Some("\"base64url\""), "its encoding is not known"),
        ("plaintext_sha256", Some("\"E3\""), hash),
        ("plaintext_size_bytes", Some("-1"), fields),
        ("plaintext_size_bytes", Some("true"), fields),
        ("CANARY", Some("\"CANARY\""), fields),
    ];
    for (field, json, why) in refused {
        assert_not_encrypted(&encrypted(field, json), why);
    }
    let ccm = encrypted("algorithm", Some("\"aes-256-ccm\""));
    assert_not_encrypted(&ccm.replace("\"tag_length\":16", "\"tag_length\":15"), tag);
    let long_nonce = ccm.replace("AAECAwQFBgcICQoL\"", "AAECAwQFBgcICQoLDA0=\"");
    assert_not_encrypted(&long_nonce.replace("bytes\":12", "bytes\":14"), nonce);
}

/// Bodies that are no object of that form at all, or lack a field.
fn no_envelopes() -> Vec<String> {
    let names = [
        "schema",
        "version",
        "algorithm",
        "key_id",
        "nonce",
        "nonce_size_bytes",
        "ciphertext",
        "ciphertext_encoding",
        "tag_length",
    ];
    let mut bodies = names.map(|name| encrypted(name, None)).to_vec();
    let good = encrypted("", None);
    let inner = good.trim_start_matches("{\"_nats_sinks_encryption\":").trim_end_matches('}');
    bodies.extend([
            String::new(),
            "CANARY".into(),
            "{}".into(),
            "null".into(),
            format!("[{inner}}}]"),
            format!("{good}{good}"),
            good.replace("\"version\":1", "\"version\":1,\"version\":1"),
            good.replace("}}", "},\"CANARY\":1}"),
            good.replace("}}", &format!("}},\"_nats_sinks_encryption\":{inner}}}}}")),
            r#"{"_nats_sinks_encryption":["nats_sinks.encrypted_payload.v1",1,"aes-256-gcm","k","AAECAwQFBgcICQoL",12,
                "AAECAwQFBgcICQoLDA0ODxAR","base64",16,null,null]}"#
                .into(),
            "[".repeat(100_000),
    ]);
    bodies
}

#[test]
fn the_size_of_the_payload() {
    let asked = only(|own| own.max_payload_bytes = Some(3));
    let none = Metadata::default();
    for payload in ["", "123"] {
        assert_passes(&asked, &body(payload), &none);
    }
    let detail = "the payload has 4 bytes, the limit of a rule is 3";
    assert_violates(&asked, &body("1234"), &none, ReasonCode::PayloadTooLarge, detail);
    for size in [None, Some(1)] {
        assert_violates(&asked, &omitted(size), &none, ReasonCode::PayloadTooLarge, OMITTED);
    }
}

#[test]
fn the_quality_of_service_of_mqtt() {
    let asked = only(|own| own.require_mqtt_qos = Some(1));
    let none = Metadata::default();
    for envelope in [body("{}"), from_mqtt("1"), from_mqtt("2"), omitted(None)] {
        assert_passes(&asked, &envelope, &none);
    }
    let detail = "the message came with MQTT QoS 0, a rule asks for 1";
    assert_violates(&asked, &from_mqtt("0"), &none, ReasonCode::MqttQosTooLow, detail);
    let none_at_all = only(|own| own.require_mqtt_qos = Some(0));
    assert_passes(&none_at_all, &from_mqtt("0"), &none);
}

#[test]
fn a_payload_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema_file(&folder, r#"{"properties":{"id":{"type":"integer"}}}"#);
    let strict = only(|own| own.require_json = true);
    let schema = only(|own| own.json_schema = Some(path));
    let none = Metadata::default();
    let nested = "[".repeat(127) + &"]".repeat(127);
    let not_json = "a rule for the subject requires strict JSON";
    for asked in [&strict, &schema] {
        for payload in ["{}", " 1e9\n", "{\"id\":1}", "\"ü\""] {
            assert_passes(asked, &body(payload), &none);
        }
        for payload in ["", "CANARY", "{\"a\":1,\"\\u0061\":2}", "NaN", "{\"id\":1} 2", &nested] {
            let envelope = body(payload.to_owned());
            assert_violates(asked, &envelope, &none, ReasonCode::PayloadNotJson, not_json);
        }
        assert_violates(asked, &body(&b"\"\xff\""[..]), &none, ReasonCode::PayloadNotJson, not_json);
        assert_violates(asked, &omitted(None), &none, ReasonCode::PayloadNotJson, OMITTED);
    }
    assert_passes(&strict, &body("{\"id\":\"x\"}"), &none);
    let detail = "the payload does not fit the schema at /id: type";
    assert_violates(&schema, &body("{\"id\":\"CANARY\"}"), &none, ReasonCode::SchemaViolation, detail);
}

#[test]
fn every_rule_that_matches_applies_in_its_order() {
    use ReasonCode as Code;
    let both = rules(vec![
        rule("src.*", |own| own.max_payload_bytes = Some(1)),
        rule("src.a", |own| own.require_priority = true),
        rule("src.b", |own| own.require_classification = true),
    ]);
    let none = Metadata::default();
    let detail = "the payload has 2 bytes, the limit of a rule is 1";
    assert_violates(&both, &body("{}"), &none, Code::PayloadTooLarge, detail);
    let detail = "a rule for the subject requires a priority";
    assert_violates(&both, &body("1"), &none, Code::PriorityRequired, detail);
    assert_passes(&both, &body("1"), &Metadata { priority: Some("p".into()), ..none.clone() });
    let other = |subject: &str| builders::envelope(1).subject(subject).payload("1").build();
    let detail = "a rule for the subject requires a classification";
    assert_violates(&both, &other("src.b"), &none, Code::ClassificationRequired, detail);
    for subject in ["src", "src.a.b", "SRC.a"] {
        let (code, detail) = (Code::SubjectNotCoveredByPolicy, "no policy rule matches the subject");
        assert_violates(&both, &other(subject), &none, code, detail);
    }
    let lenient = PolicySettings { allow_unmatched: true, ..settings(Vec::new()) };
    assert_passes(&Rules::open(&lenient).unwrap(), &body("{}"), &none);
}

/// A rule that asks for everything, and messages that mend one fault after the other.
#[test]
fn within_a_rule_the_order_is_that_of_the_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema_file(&folder, "false");
    let limit = encrypted("", None).len();
    let everything = only(|own| {
        own.require_priority = true;
        own.require_classification = true;
        own.required_labels = vec!["audit".into()];
        own.require_mission_metadata = true;
        own.allowed_mission_metadata_keys = Some(vec!["a".into()]);
        own.require_encrypted_payload = true;
        own.max_payload_bytes = Some(limit);
        own.require_mqtt_qos = Some(1);
        own.require_json = true;
        own.json_schema = Some(path);
    });
    let mut metadata = Metadata::default();
    let mut envelope = builders::envelope(1).header("Nmqtt-Pub", "0").payload("x").build();
    let mends: [fn(&mut Metadata, &mut Envelope); 8] = [
        |own, _| own.priority = Some("p".into()),
        |own, _| own.classification = Some("c".into()),
        |own, _| own.labels = vec!["audit".into()],
        |own, _| own.mission_metadata = Some("{\"b\":1}".into()),
        |own, _| own.mission_metadata = Some("{\"a\":1}".into()),
        |_, envelope| envelope.payload = format!(" {}", encrypted("", None)).into(),
        |_, envelope| envelope.payload = encrypted("", None).into(),
        |_, envelope| envelope.headers = crate::envelope::Headers::new(),
    ];
    let mut reasons = Vec::new();
    for mend in mends {
        reasons.push(everything.judge(&envelope, &metadata).unwrap_err().reason.as_str());
        mend(&mut metadata, &mut envelope);
    }
    reasons.push(everything.judge(&envelope, &metadata).unwrap_err().reason.as_str());
    assert_eq!(
        reasons,
        [
            "priority_required",
            "classification_required",
            "required_label_missing",
            "mission_metadata_required",
            "mission_metadata_key_not_allowed",
            "encrypted_payload_required",
            "payload_too_large",
            "mqtt_qos_too_low",
            "schema_violation",
        ]
    );
}

#[test]
fn a_policy_that_only_warns_lets_pass_and_tells_the_first_violation() {
    let asks = vec![rule(">", |own| own.require_priority = true), rule(">", |own| own.require_json = true)];
    for (only_warns, allow_unmatched) in [(false, false), (true, false), (true, true)] {
        let policy = PolicySettings { only_warns, allow_unmatched, rules: asks.clone() };
        let settings = GateSettings { policy: Policy::Required(policy), ..GateSettings::default() };
        let gate = Gate::open(settings).unwrap();
        assert_eq!(gate.absent_checks(), ["authenticity"]);
        let expected = Rejection {
            stage: Stage::Policy,
            reason: ReasonCode::PriorityRequired,
            error_type: ErrorType::PolicyViolation,
            detail: "a rule for the subject requires a priority".into(),
        };
        let verdict = gate.judge(&body("CANARY")).verdict;
        if only_warns {
            assert_eq!(verdict, Verdict::PermittedWithWarning(Box::new(expected)));
        } else {
            assert_eq!(verdict, Verdict::Rejected(expected));
        }
        let good = builders::envelope(1).header("Nats-Sinks-Priority", "high").build();
        assert_eq!(gate.judge(&good).verdict, Verdict::Permitted);
    }
}

#[test]
fn a_policy_that_cannot_be_used_says_where_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema_file(&folder, r#"{"$ref":"other.json"}"#);
    let opened = |ask: &dyn Fn(&mut PolicyRule)| {
        let rules = vec![rule(">", |_| {}), rule("a.*", ask)];
        let policy = Policy::Required(settings(rules));
        match Gate::open(GateSettings { policy, ..GateSettings::default() }) {
            Err(GateError::Policy(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    for label in ["", " a", "a;b", "a\n"] {
        let error = opened(&|own| own.required_labels = vec!["good".into(), label.into()]).to_string();
        assert!(error.starts_with("pre_sink_policy.rules[1].required_labels: "), "{error}");
    }
    let error = opened(&|own| own.require_mqtt_qos = Some(3)).to_string();
    assert_eq!(error, "pre_sink_policy.rules[1].require_mqtt_qos: MQTT has no QoS 3; set 0, 1 or 2");
    let error = opened(&|own| own.json_schema = Some(path.clone()));
    assert_eq!(
        error.to_string(),
        format!("pre_sink_policy.rules[1].json_schema: {} cannot be used", path.display())
    );
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("copy what it names into `$defs`"), "{source}");
}

#[test]
fn two_rules_share_one_schema_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = schema_file(&folder, r#"{"type":"object"}"#);
    let ask = |own: &mut PolicyRule| own.json_schema = Some(path.clone());
    let both = rules(vec![rule("src.a", ask), rule("src.b", ask)]);
    let detail = "the payload does not fit the schema at the root: type";
    for subject in ["src.a", "src.b"] {
        let envelope = builders::envelope(1).subject(subject).payload("1").build();
        assert_violates(&both, &envelope, &Metadata::default(), ReasonCode::SchemaViolation, detail);
    }
}

/// The rules that look at a body, each alone so that none hides another.
fn body_rules(folder: &tempfile::TempDir) -> Vec<Rules> {
    let path = schema_file(
        folder,
        r#"{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"maxLength":1}}"#,
    );
    vec![
        only(|own| own.require_encrypted_payload = true),
        only(|own| own.max_payload_bytes = Some(1)),
        only(|own| own.require_json = true),
        only(|own| own.json_schema = Some(path)),
        only(|own| own.allowed_mission_metadata_keys = Some(vec!["a".into()])),
    ]
}

fn assert_tells_nothing(rules: &[Rules], payload: &[u8], text: &str) {
    let envelope = body(payload.to_vec());
    let metadata = Metadata { mission_metadata: Some(text.into()), ..Metadata::default() };
    for asked in rules {
        if let Err(violation) = asked.judge(&envelope, &metadata) {
            assert_eq!((violation.stage, violation.error_type), (Stage::Policy, ErrorType::PolicyViolation));
            assert!(!violation.detail.contains("CANARY"), "{}", violation.detail);
            assert!(violation.detail.len() <= 512, "{}", violation.detail);
        }
    }
}

proptest! {
    #[test]
    fn judging_is_total_and_tells_nothing_of_the_body(
        payload in any::<Vec<u8>>(),
        text in any::<String>(),
        cut in any::<prop::sample::Index>(),
        garbage in any::<Vec<u8>>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let rules = body_rules(&folder);
        assert_tells_nothing(&rules, &payload, &text);
        // Something that is nearly right, cut or spoilt in one place.
        for near in [encrypted("key_id", Some("\"CANARY\"")), r#"{"a":"CANARY","CANARY":["CANARY"],"b":"CANARY"}"#.into()] {
            let at = cut.index(near.len());
            let mut spoilt = near.clone().into_bytes();
            spoilt.splice(at..=at, garbage.iter().copied());
            assert_tells_nothing(&rules, &spoilt, &near);
            assert_tells_nothing(&rules, near.as_bytes(), &near);
            prop_assert!(near.contains("CANARY"));
        }
    }
}
