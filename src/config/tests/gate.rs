//! The sections of the gate: their rules, and what must go together.

use super::{Environment, MINIMAL, load_text, problems};
use crate::checks::authenticity::{
    Algorithm, Authenticity, AuthenticityRule, AuthenticitySettings, KeySettings, SignatureRule, SignedField,
};
use crate::checks::metadata::{MetadataRule, MetadataValues, SecurityLabelSettings};
use crate::checks::policy::{Policy, PolicyRule, PolicySettings};
use crate::clock::Timestamp;
use crate::config::{Loaded, Settings};
use crate::dead_letter::SubjectToken;
use crate::runner::BreakerSettings;
use crate::secret::SecretSource;
use crate::subject::SubjectPattern;

/// The minimal file and these lines.
fn load(lines: &str) -> Result<Loaded, crate::config::ConfigError> {
    load_text("toml", &format!("{MINIMAL}\n{lines}"), &Environment::default())
}

fn settings(lines: &str) -> Settings {
    load(lines).unwrap_or_else(|error| panic!("{error}")).settings
}

/// Lines that must be refused with one problem, the key it names, and a word of it.
fn all_refused(cases: &[(&str, &str, &str)]) {
    for (lines, key, word) in cases {
        let found = problems(load(lines));
        assert_eq!(found.len(), 1, "{lines}: {found:?}");
        let problem = found.first().unwrap();
        assert_eq!(problem.key.as_deref(), Some(*key), "{lines}: {problem}");
        assert!(problem.to_string().contains(word), "{lines}: {problem}");
    }
}

fn subject(text: &str) -> SubjectPattern {
    SubjectPattern::parse(text).unwrap()
}

const RULE: &str = "[message_authenticity]\nenabled = true\n[[message_authenticity.rules]]\nsubject = \"a.>\"\nalgorithm = \"ed25519\"\n";
const KEY: &str = "key_id = \"k\"\nkey_file = \"k.pub\"\n";
const POLICY: &str = "[pre_sink_policy]\nenabled = true\n[[pre_sink_policy.rules]]\n";

#[test]
fn signatures_become_settings() {
    let lines = format!(
        "{RULE}keys = [{{ key_id = \"x\", key_env = \"X\", not_after = \"1970-01-01T00:00:01Z\" }}, {{ key_id = \"y\", \
         key_credential = \"y\" }}]\nsigned_fields = [\"labels\"]\n[[message_authenticity.rules]]\nsubject = \"b\"\nenabled = \
         false\n[[message_authenticity.rules]]\nsubject = \"c\"\nalgorithm = \"hmac-sha256\"\n{KEY}"
    );
    let key =
        |id: &str, source, not_after| KeySettings { key_id: id.into(), source, not_before: None, not_after };
    let signature = |algorithm, keys, signed_fields| Some(SignatureRule { algorithm, keys, signed_fields });
    let several = vec![
        key("x", SecretSource::Environment("X".into()), Some(Timestamp(1_000_000_000))),
        key("y", SecretSource::Credential("y".into()), None),
    ];
    let one = vec![key("k", SecretSource::File("k.pub".into()), None)];
    let usual = vec![SignedField::Subject, SignedField::MessageId];
    let rule = |text, signature| AuthenticityRule { subject: subject(text), signature };
    let expected = AuthenticitySettings {
        headers: Default::default(),
        rules: vec![
            rule("a.>", signature(Algorithm::Ed25519, several, vec![SignedField::Labels])),
            rule("b", None),
            rule("c", signature(Algorithm::HmacSha256, one, usual)),
        ],
        allow_unmatched: false,
    };
    let settings = settings(&lines);
    assert_eq!(settings.gate.authenticity, Authenticity::Required(expected));
    assert!(settings.warnings.iter().any(|warning| warning.contains("rules[0]: the subject is not signed")));
}

#[test]
fn signatures_that_make_no_sense_are_refused() {
    let rule = |more: &str| format!("{RULE}{more}");
    let both = rule(&format!("{KEY}keys = [{{ key_id = \"x\", key_env = \"X\" }}]"));
    let twice = rule("keys = [{ key_id = \"x\", key_env = \"X\" }, { key_id = \"x\", key_env = \"Y\" }]");
    let order = rule(
        "keys = [{ key_id = \"x\", key_env = \"X\", not_before = \"2026-01-02T00:00:00Z\", not_after = \
         \"2026-01-02T00:00:00Z\" }]",
    );
    let time = rule("keys = [{ key_id = \"x\", key_env = \"X\", not_before = \"2026-01-02\" }]");
    let labels = rule(&format!("{KEY}signed_fields = [\"subject\", \"security_labels\"]"));
    all_refused(&[
        ("[message_authenticity]\nenabled = true", "message_authenticity.enabled", "without a rule"),
        (
            "[message_authenticity]\nenabled = true\nunmatched_subject_action = \"allow\"",
            "message_authenticity.enabled",
            "without a rule",
        ),
        (&rule(KEY).replace("enabled = true", "enabled = false"), "message_authenticity.rules", "is off"),
        (&rule("key_id = \"k\""), "message_authenticity.rules[0].key_file", "key_env or key_credential"),
        (&rule("key_file = \"k\""), "message_authenticity.rules[0].key_id", "is missing"),
        (&rule("key_id = \" k\"\nkey_file = \"k\""), "message_authenticity.rules[0].key_id", "white space"),
        (
            &rule(&format!("{KEY}key_env = \"K\"")),
            "message_authenticity.rules[0].key_file",
            "more than one place",
        ),
        (&rule(&format!("{KEY}key = \"x\"")), "message_authenticity.rules[0].key", "rules[0].key_credential"),
        (
            &rule(&format!("{KEY}algoritm = 1")),
            "message_authenticity.rules[0].algoritm",
            "rules[0].algorithm?",
        ),
        (&rule(KEY).replace("ed25519", "Ed25519"), "message_authenticity.rules[0].algorithm", "\"ed25519\"?"),
        (
            &rule(KEY).replace("algorithm = \"ed25519\"\n", ""),
            "message_authenticity.rules[0].algorithm",
            "missing",
        ),
        (
            &rule(KEY).replace("subject = \"a.>\"\n", ""),
            "message_authenticity.rules[0].subject",
            "is missing",
        ),
        (&rule(KEY).replace("a.>", "a.>.b"), "message_authenticity.rules[0].subject", "not the last token"),
        (&rule(&format!("{KEY}enabled = false")), "message_authenticity.rules[0].key_id", "exemption"),
        (&both, "message_authenticity.rules[0].key_id", "at once"),
        (&twice, "message_authenticity.rules[0].keys[1].key_id", "same id"),
        (&order, "message_authenticity.rules[0].keys[0].not_after", "not later"),
        (&time, "message_authenticity.rules[0].keys[0].not_before", "RFC 3339"),
        (&rule("keys = [1]"), "message_authenticity.rules[0].keys[0]", "takes a table"),
        (&labels, "message_authenticity.rules[0].signed_fields[1]", "security_labels is off"),
        (
            &rule(&format!("{KEY}signed_fields = [\"labels\", \"labels\"]")),
            "message_authenticity.rules[0].signed_fields[1]",
            "twice",
        ),
    ]);
}

#[test]
fn bodies_are_needed_by_what_looks_at_them() {
    let load = |lines: &str| {
        let text = MINIMAL.replace("[consumer]", "[consumer]\nheaders_only = \"expected\"");
        load_text("toml", &format!("{text}\n{lines}"), &Environment::default())
    };
    let keys = |lines: &str| -> Vec<_> {
        problems(load(lines)).into_iter().map(|problem| problem.key.unwrap()).collect()
    };
    assert_eq!(keys(&format!("{RULE}{KEY}")), ["message_authenticity.enabled"]);
    for name in [
        "require_encrypted_payload = true",
        "max_payload_bytes = \"1 B\"",
        "require_json = true",
        "json_schema = \"s\"",
    ] {
        let key = name.split(' ').next().unwrap();
        assert_eq!(keys(&format!("{POLICY}{name}")), [format!("pre_sink_policy.rules[0].{key}")]);
    }
    assert!(load(&format!("{POLICY}require_priority = true")).is_ok());
    let exempt = "[message_authenticity]\nenabled = true\n[[message_authenticity.rules]]\nsubject = \">\"\nenabled = false";
    assert!(load(exempt).is_ok());
}

#[test]
fn the_policy_becomes_settings() {
    let lines = format!(
        "{POLICY}require_priority = true\nrequire_classification = true\nrequired_labels = [\"x\", \"y\"]\n\
         require_mission_metadata = true\nallowed_mission_metadata_keys = []\nrequire_encrypted_payload = true\n\
         max_payload_bytes = \"16 MiB\"\nrequire_mqtt_qos = 2\nrequire_json = true\njson_schema = \"s.json\"\n\
         [[pre_sink_policy.rules]]\nsubject = \"a\"\nrequire_json = true"
    );
    let all = PolicyRule {
        subject: subject(">"),
        require_priority: true,
        require_classification: true,
        required_labels: vec!["x".into(), "y".into()],
        require_mission_metadata: true,
        allowed_mission_metadata_keys: Some(Vec::new()),
        require_encrypted_payload: true,
        max_payload_bytes: Some(16 << 20),
        require_mqtt_qos: Some(2),
        require_json: true,
        json_schema: Some("s.json".into()),
    };
    let one = PolicyRule { require_json: true, ..PolicyRule::new(subject("a")) };
    let expected = PolicySettings { only_warns: false, allow_unmatched: false, rules: vec![all, one] };
    assert_eq!(settings(&lines).gate.policy, Policy::Required(expected));
    let lines = lines.replace(
        "enabled = true\n",
        "enabled = true\nmode = \"warn\"\nunmatched_subject_action = \"allow\"\n",
    );
    let Policy::Required(found) = settings(&lines).gate.policy else { panic!("no policy") };
    assert!(found.only_warns && found.allow_unmatched);
}

#[test]
fn a_policy_that_makes_no_sense_is_refused() {
    let rule = |more: &str| format!("{POLICY}{more}");
    all_refused(&[
        ("[pre_sink_policy]\nenabled = true", "pre_sink_policy.enabled", "without a rule"),
        ("[[pre_sink_policy.rules]]\nrequire_json = true", "pre_sink_policy.rules", "is off"),
        (&rule(""), "pre_sink_policy.rules[0]", "asks for nothing"),
        (&rule("require_mqtt_qos = 0\nsubject = \"a\""), "pre_sink_policy.rules[0]", "asks for nothing"),
        (&rule("required_labels = []\nrequire_json = false"), "pre_sink_policy.rules[0]", "asks for nothing"),
        (&rule("require_json = 1"), "pre_sink_policy.rules[0].require_json", "true or false"),
        (&rule("require_mqtt_qos = 3"), "pre_sink_policy.rules[0].require_mqtt_qos", "0 to 2"),
        (&rule("require_mqtt_qos = -1"), "pre_sink_policy.rules[0].require_mqtt_qos", "below 0"),
        (&rule("max_payload_bytes = 5"), "pre_sink_policy.rules[0].max_payload_bytes", "unit is missing"),
        (&rule("max_payload_bytes = \"17 MiB\""), "pre_sink_policy.rules[0].max_payload_bytes", "= 16 MiB"),
        (
            &rule("required_labels = [\"a\", \" b\"]"),
            "pre_sink_policy.rules[0].required_labels[1]",
            "white space",
        ),
        (&rule("required_labels = [\"a;b\"]"), "pre_sink_policy.rules[0].required_labels[0]", "semicolon"),
        (&rule("require_json = true\nsubject = \"a..b\""), "pre_sink_policy.rules[0].subject", "empty token"),
        (
            &rule("requires_json = true\nrequire_priority = true"),
            "pre_sink_policy.rules[0].requires_json",
            "rules[0].require_json?",
        ),
    ]);
}

#[test]
fn metadata_becomes_settings() {
    let lines = r#"[message_metadata]
default_priority = " high "
default_classification = " "
default_labels = ["a;b", "b"]
default_mission_metadata = """
{ "b": 1,
  "a": [] }
"""
[[message_metadata.rules]]
subject = "x.*"
priority = ""
labels = []
mission_metadata = " "
"#;
    let metadata = settings(lines).gate.metadata;
    let expected = MetadataValues {
        priority: Some(Some("high".into())),
        classification: Some(None),
        labels: Some(vec!["a".into(), "b".into()]),
        mission_metadata: Some(Some(r#"{"a":[],"b":1}"#.into())),
    };
    assert_eq!(metadata.defaults, expected);
    let values = MetadataValues {
        priority: Some(None),
        classification: None,
        labels: Some(Vec::new()),
        mission_metadata: Some(None),
    };
    assert_eq!(metadata.rules, [MetadataRule { subject: subject("x.*"), values }]);
    assert_eq!(metadata.security_labels, None);
}

#[test]
fn security_labels_become_settings() {
    let lines = r#"[security_labels]
enabled = true
header = "X-Labels"
max_bytes = "1 KiB"
allowed_classifications = ["restricted"]
default = '{"classification": "restricted"}'
[[security_labels.rules]]
subject = "open"
profile = ""
[[security_labels.rules]]
subject = ">"
profile = '{"releasability": ["DE"]}'
"#;
    let labels = settings(lines).gate.metadata.security_labels.unwrap();
    let profile = |text: &str| labels.profile_of(text).unwrap();
    assert_eq!((labels.header.as_str(), labels.max_bytes), ("X-Labels", 1024));
    assert_eq!(labels.default, profile(r#"{"classification": "restricted"}"#));
    let rules = [(subject("open"), None), (subject(">"), profile(r#"{"releasability": ["DE"]}"#))];
    assert_eq!(labels.rules, rules);
    let usual = settings("[security_labels]\nenabled = true").gate.metadata.security_labels;
    assert_eq!(usual, Some(SecurityLabelSettings::default()));
}

#[test]
fn metadata_that_makes_no_sense_is_refused() {
    let rule = |more: &str| format!("[[message_metadata.rules]]\nsubject = \"a\"\n{more}");
    let labels = |more: &str| format!("[security_labels]\nenabled = true\n{more}");
    let allowed = labels("allowed_classifications = [\"a\"]\ndefault = '{\"classification\": \"b\"}'");
    all_refused(&[
        (&rule(""), "message_metadata.rules[0]", "sets nothing"),
        ("[[message_metadata.rules]]\npriority = \"a\"", "message_metadata.rules[0].subject", "is missing"),
        (&rule("mission_metadata = '[]'"), "message_metadata.rules[0].mission_metadata", "mission metadata:"),
        (&rule("mission_metadata = {}"), "message_metadata.rules[0].mission_metadata", "as text"),
        (&rule("priorty = \"a\"\nlabels = []"), "message_metadata.rules[0].priorty", "rules[0].priority?"),
        (&rule("labels = [\"\"]"), "message_metadata.rules[0].labels[0]", "is empty"),
        ("[security_labels]\ndefault = '{}'", "security_labels.default", "is off"),
        ("[security_labels]\nallowed_priorities = [\"a\"]", "security_labels.allowed_priorities", "is off"),
        ("[[security_labels.rules]]\nsubject = \"a\"\nprofile = \"\"", "security_labels.rules", "is off"),
        (&labels("allowed_priorities = [\"a \"]"), "security_labels.allowed_priorities[0]", "white space"),
        (
            &labels("[[security_labels.rules]]\nsubject = \"a\""),
            "security_labels.rules[0].profile",
            "is missing",
        ),
        (&labels("default = '{\"x\": 1}'"), "security_labels.default", "not known to the profile"),
        (&labels("max_bytes = \"1 B\""), "security_labels.max_bytes", "out of range"),
        (&allowed, "security_labels.default", "allowed"),
    ]);
}

#[test]
fn headers_have_one_meaning() {
    let metadata = |key: &str, name: &str| format!("[message_metadata]\n{key} = \"{name}\"");
    all_refused(&[
        (&metadata("labels_header", "nats-msg-ID"), "message_metadata.labels_header", "meaning of its own"),
        (
            &metadata("priority_header", "message-id"),
            "message_metadata.priority_header",
            "meaning of its own",
        ),
        ("[security_labels]\nheader = \"Nats-TTL\"", "security_labels.header", "meaning of its own"),
        (
            "[message_authenticity]\nkey_id_header = \"nats-sinks-priority\"",
            "message_authenticity.key_id_header",
            "name the same header",
        ),
    ]);
}

#[test]
fn what_is_allowed_and_yet_worth_a_word() {
    let text = MINIMAL.replace("[consumer]", "[consumer]\nfilter_subjects = [\"a.b\", \"c.>\", \"d\"]");
    let rules = format!(
        "{RULE}{KEY}[[message_authenticity.rules]]\nsubject = \"a.*\"\nenabled = false\n\
         [[message_authenticity.rules]]\nsubject = \"c.*\"\nenabled = false\n"
    );
    let warnings = |lines: &str| -> Vec<String> {
        let loaded = load_text("toml", &format!("{text}\n{lines}"), &Environment::default()).unwrap();
        let of_gate = |text: &String| text.starts_with("message_") || text.starts_with("pre_sink");
        loaded.settings.warnings.into_iter().filter(of_gate).collect()
    };
    let found = warnings(&rules);
    let expected = [
        "message_authenticity.rules[1] (subject a.*) is never reached: message_authenticity.rules[0] (subject a.>) stands",
        "message_authenticity: no rule covers all of c.> of consumer.filter_subjects;",
        "message_authenticity: no rule covers d of consumer.filter_subjects;",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (warning, start) in found.iter().zip(expected) {
        assert!(warning.starts_with(start), "{warning}");
    }
    let allows = rules.replace("enabled = true", "enabled = true\nunmatched_subject_action = \"allow\"");
    assert!(warnings(&allows).iter().any(|text| text.contains("counts as authentic")));
    let policy = format!("{POLICY}subject = \"a.b\"\nrequire_json = true");
    assert_eq!(warnings(&policy).len(), 2);
    let only_warns = warnings(&policy.replace("enabled = true", "enabled = true\nmode = \"warn\""));
    assert!(matches!(&only_warns[..], [text] if text.contains("and reach the sink")), "{only_warns:?}");
}

#[test]
fn rules_have_their_lines_in_every_format() {
    let toml = format!("{MINIMAL}{POLICY}require_json = true\n[[pre_sink_policy.rules]]\nrequire_jsn = true");
    let line = toml.lines().count();
    let json = "{\"pre_sink_policy\": {\"enabled\": true, \"rules\": [\n {\"require_json\": true},\n {\n  \"require_jsn\": \
                true}]}}";
    let yaml = "pre_sink_policy:\n  enabled: true\n  rules:\n  - require_json: true\n  - subject: a\n    require_jsn: true\n";
    let flow = "pre_sink_policy:\n  enabled: true\n  rules:\n    - {require_json: true}\n    - {require_jsn: true}\n";
    for (extension, text, line) in
        [("toml", toml.as_str(), line), ("json", json, 4), ("yaml", yaml, 6), ("yaml", flow, 5)]
    {
        let found = problems(load_text(extension, text, &Environment::default()));
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        let expected = format!(
            "c.{extension}:{line}: pre_sink_policy.rules[1].require_jsn: unknown key; did you mean \
             pre_sink_policy.rules[1].require_json?"
        );
        assert!(found.contains(&expected), "{expected}\n{found:#?}");
    }
}

#[test]
fn what_show_config_writes_of_rules_loads_again_to_the_same_settings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/signed.toml");
    let loaded = crate::config::load(std::path::Path::new(path), &Environment::default()).unwrap();
    let text = loaded.effective.to_toml();
    let again = load_text("toml", &text, &Environment::default()).unwrap();
    assert_eq!(again.settings, loaded.settings);
    let rules: Vec<_> = text.lines().filter(|line| line.starts_with("    {")).collect();
    assert_eq!(rules.len(), 7, "{text}");
    let json = loaded.effective.to_json();
    assert_eq!(json["message_authenticity"]["rules"]["value"][1]["key_credential"], "stations.key");
}

#[test]
fn what_a_dead_letter_hides_and_where_it_goes() {
    let dead_letter = |lines: &str| {
        let lines = format!("[dead_letter]\nsubject = \"dlq\"\n{lines}");
        settings(&lines).dead_letter.unwrap()
    };
    let usual = dead_letter("[message_authenticity]\nsignature_header = \"Sig\"").record.redact_headers;
    let expected = ["Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "Sig"];
    assert_eq!(usual.names(), expected);
    assert_eq!(dead_letter("redact_headers = []").record.redact_headers.names(), [""; 0]);
    let own = dead_letter("redact_headers = [\"X-Secret\"]\nsubject_tokens = [\"stage\", \"consumer\"]");
    assert_eq!(own.record.redact_headers.names(), ["X-Secret"]);
    assert_eq!(own.subject_tokens, [SubjectToken::Stage, SubjectToken::Consumer]);
}

#[test]
fn the_breaker_needs_both_numbers() {
    let breaker =
        |lines: &str| settings(&format!("[dead_letter]\nsubject = \"dlq\"\n{lines}")).delivery.breaker;
    assert_eq!(breaker(""), None);
    let set = breaker("breaker = { rejected = 5, of = 10 }");
    assert_eq!(set, Some(BreakerSettings { rejected: 5, of: 10 }));
    let dead_letter = |line: &str| format!("[dead_letter]\nsubject = \"dlq\"\n{line}");
    let many =
        format!("redact_headers = [{}]", vec!["\"X-Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""; 200].join(","));
    all_refused(&[
        (&dead_letter("breaker = { rejected = 5 }"), "dead_letter.breaker.of", "is missing"),
        (&dead_letter("breaker = { of = 5 }"), "dead_letter.breaker.rejected", "is missing"),
        (
            &dead_letter("breaker = { rejected = 6, of = 5 }"),
            "dead_letter.breaker.rejected",
            "more rejections",
        ),
        (&dead_letter("breaker = { rejected = 0, of = 5 }"), "dead_letter.breaker.rejected", "out of range"),
        (&dead_letter("subject_tokens = [\"stage\", \"stage\"]"), "dead_letter.subject_tokens[1]", "twice"),
        (&dead_letter("subject_tokens = [\"sequence\"]"), "dead_letter.subject_tokens[0]", "stage"),
        (&dead_letter("redact_headers = [\"a b\"]"), "dead_letter.redact_headers[0]", "name of a header"),
        (&dead_letter(&many), "dead_letter.redact_headers", "too long"),
    ]);
}
