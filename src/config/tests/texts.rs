//! Texts, places, formats and the environment.

use proptest::prelude::{any, prop_assert, proptest};

use super::super::SinkSettings;
use super::super::keys::{self, Kind};
use super::{ConfigError, Environment, MINIMAL, load_text, problems, problems_if_any, with};
use crate::checks::GateSettings;
use crate::dead_letter::{RecordSettings, Redaction};
use crate::nats::SignIn;
use crate::runner::DeliverySettings;
use crate::sinks::file::FileSettings;
use crate::sinks::stdout::StdoutSettings;
use crate::telemetry::{AdminSettings, LoggingSettings};

#[test]
fn what_is_not_written_has_the_defaults_of_the_components() {
    let settings = with(&[]).unwrap().settings;
    assert_eq!(settings.delivery, DeliverySettings::default());
    assert_eq!(settings.gate, GateSettings::default());
    assert_eq!(settings.logging, LoggingSettings::default());
    assert_eq!(settings.admin, AdminSettings { listen: None });
    assert_eq!(settings.dead_letter, None);
    assert_eq!(settings.connection.sign_in, SignIn::Anonymous);
    let file = FileSettings { directory: "/var/lib/jetsink".into(), ..FileSettings::default() };
    assert_eq!(settings.sink, SinkSettings::File(file));
    let stdout = with(&[("sink.type", "stdout")]).unwrap().settings.sink;
    assert_eq!(stdout, SinkSettings::Stdout(StdoutSettings::default()));
    let record = with(&[("dead_letter.subject", "dlq")]).unwrap().settings.dead_letter.unwrap().record;
    let signature = "Nats-Sinks-Authenticity-Signature";
    let redact_headers = Redaction::new(Redaction::USUAL.into_iter().chain([signature]));
    assert_eq!(record, RecordSettings { redact_headers, ..RecordSettings::default() });
}

#[test]
fn everything_wrong_is_told_at_once() {
    let text = r#"[nats]
servers = "h:1"
pasword_file = "x"

[consumer]
durable = "a.b"
expires = 5
batch_size = 3

[delivery]
batch_bytes = 1024
order = "strem"
linger = "5"
strict = "yes"
crash_limit = 1

[sink]
typ = "file"
"#;
    let environment =
        Environment::with([("JETSINK_DELIVERY__BATCH_SIZE", "many"), ("JETSINK_NO__SUCH", "1")]);
    let found: Vec<String> =
        problems(load_text("toml", text, &environment)).iter().map(ToString::to_string).collect();
    let expected = [
        "c.toml:2: nats.servers: takes a list, found text; write it as a list in brackets",
        "c.toml:3: nats.pasword_file: unknown key; did you mean nats.password_file?",
        "c.toml:5: consumer.stream: is missing; write the name as `nats stream ls` or `nats consumer ls` shows it",
        "c.toml:6: consumer.durable: holds one of . * > / \\; write a name of letters, digits, - and _",
        "c.toml:7: consumer.expires: takes a duration as text, found a number; the unit is missing: write \"5s\" if \
         seconds are meant",
        "c.toml:8: consumer.batch_size: unknown key; did you mean delivery.batch_size?",
        "c.toml:11: delivery.batch_bytes: takes a size as text, found a number; the unit is missing: write \"1 KiB\" if \
         bytes are meant",
        "c.toml:12: delivery.order: is not one of \"stream\", \"subject\", \"any\"; did you mean \"stream\"?",
        "c.toml:13: delivery.linger: \"5\": a number has no unit; write it as \"30s\", \"500ms\" or \"1h30m\"",
        "c.toml:14: delivery.strict: takes true or false, found text; write it as true or false, without quotes",
        "c.toml:15: delivery.crash_limit: a message would be called a crash before it had a second chance; write 2 or \
         more",
        "c.toml:17: sink.file.directory: is missing; write the directory that the files go to",
        "c.toml:18: sink.typ: unknown key; did you mean sink.type?",
        "environment variable JETSINK_DELIVERY__BATCH_SIZE: delivery.batch_size: takes a whole number; write digits only",
        "environment variable JETSINK_NO__SUCH: no.such: unknown key; remove it; docs/configuration.md lists every key",
    ];
    assert_eq!(found, expected);
}

#[test]
fn toml_values_that_no_key_takes_are_told() {
    let text = "[consumer]\ndurable = 2026-01-01\nfilter_subjects = [\n2026-01-01]\nmax_deliver = 99999999999999999999\n\
                [delivery.retry]\njitter = nan";
    let found: Vec<_> = problems(load_text("toml", text, &Environment::default()))
        .into_iter()
        .map(|problem| format!("{} {} {}", problem.place, problem.key.unwrap(), problem.what))
        .collect();
    for expected in [
        "c.toml:2 consumer.durable is a date, which no key takes",
        "c.toml:4 consumer.filter_subjects[0] is a date, which no key takes",
        "c.toml:5 consumer.max_deliver takes a whole number of 64 bits",
        "c.toml:7 delivery.retry.jitter is not a finite number",
    ] {
        assert!(found.contains(&expected.to_owned()), "{expected}: {found:?}");
    }
}

#[test]
fn json_and_yaml_say_the_same_as_toml() {
    let toml = with(&[]).unwrap().settings;
    let json = r#"{"nats": {"servers": ["nats://127.0.0.1:4222"]}, "consumer": {"stream": "ORDERS", "durable": "files"},
        "sink": {"file": {"directory": "/var/lib/jetsink"}}}"#;
    let yaml = "nats:\n  servers: [\"nats://127.0.0.1:4222\"]\nconsumer: {stream: ORDERS, durable: files}\n\
                sink:\n  file:\n    directory: /var/lib/jetsink\n";
    let nothing = Environment::default();
    assert_eq!(load_text("json", json, &nothing).unwrap().settings, toml);
    assert_eq!(load_text("yaml", yaml, &nothing).unwrap().settings, toml);
    assert_eq!(load_text("yml", yaml, &nothing).unwrap().settings, toml);
}

#[test]
fn json_and_yaml_problems_have_their_lines() {
    let json = "{\"nats\": {\n  \"servers\": [\"h\"],\n  \"nam\": 1\n},\n\"nats\": {}}";
    let found: Vec<_> = problems(load_text("json", json, &Environment::default()))
        .into_iter()
        .map(|problem| (problem.place.to_string(), problem.key.unwrap(), problem.what))
        .filter(|(_, key, _)| key.starts_with("nats"))
        .collect();
    assert!(
        found.contains(&("c.json:5".into(), "nats".into(), "the key stands there twice".into())),
        "{found:?}"
    );
    let yaml = "nats:\n  servers: [h]\n  name:\n  name: 1\n  ping_interval: 10\nconsumer:\n";
    let found: Vec<_> = problems(load_text("yaml", yaml, &Environment::default()))
        .into_iter()
        .map(|problem| format!("{} {}", problem.place, problem.key.unwrap()))
        .collect();
    for expected in ["c.yaml:4 nats.name", "c.yaml:5 nats.ping_interval", "c.yaml:6 consumer"] {
        assert!(found.contains(&expected.to_owned()), "{found:?}");
    }
}

#[test]
fn members_of_a_list_are_blamed_on_who_wrote_it() {
    let text = MINIMAL.replace("[consumer]", "[consumer]\nfilter_subjects = [\n\"a\",\n\"b\"]");
    let overridden = Environment::with([("JETSINK_CONSUMER__FILTER_SUBJECTS", "a,b..c")]);
    let found = problems(load_text("toml", &text, &overridden));
    let variable = "environment variable JETSINK_CONSUMER__FILTER_SUBJECTS";
    let found: Vec<_> = found.into_iter().map(|problem| (problem.place.to_string(), problem.key)).collect();
    assert_eq!(found, [(variable.to_owned(), Some("consumer.filter_subjects[1]".to_owned()))]);
}

#[test]
fn a_text_that_cannot_be_read_is_told_with_its_line() {
    for (extension, text, line) in [
        ("toml", "[nats]\nservers = [\n[consumer]\nx = = 1", 3),
        ("toml", "[nats]\nname = \"a\"\nname = \"b\"", 3),
        ("json", "{\n\"nats\": }", 2),
        ("json", "{\n\"nats\": {}", 2),
        ("yaml", "nats:\n  - a\n b: c", 3),
        ("json", "[1]", 1),
    ] {
        let found = problems(load_text(extension, text, &Environment::default()));
        let first = found.first().unwrap();
        assert_eq!(first.key, None, "{text}: {first}");
        assert!(first.place.to_string().starts_with(&format!("c.{extension}:")), "{text}: {first}");
        let lines: Vec<_> = found.iter().map(|problem| problem.place.to_string()).collect();
        assert!(lines.contains(&format!("c.{extension}:{line}")), "{text}: {lines:?}");
    }
}

#[test]
fn a_file_that_is_not_a_configuration_is_told_apart() {
    let nothing = Environment::default();
    assert!(matches!(load_text("ini", "", &nothing), Err(ConfigError::UnknownFormat { .. })));
    let large = format!("# {}", "x".repeat(1 << 20));
    assert!(matches!(load_text("toml", &large, &nothing), Err(ConfigError::TooLarge { .. })));
    let directory = tempfile::tempdir().unwrap();
    let latin = directory.path().join("c.toml");
    std::fs::write(&latin, b"# gr\xfc\xdfe").unwrap();
    let error = super::load(&latin, &nothing).unwrap_err();
    assert!(matches!(error, ConfigError::NotText { .. }));
    assert!(error.to_string().contains("save it as UTF-8"), "{error}");
    let missing = super::load(std::path::Path::new("/nonexistent/c.toml"), &nothing);
    assert!(missing.unwrap_err().to_string().contains("/nonexistent/c.toml"));
}

#[test]
fn the_environment_wins_and_is_read_by_the_kind_of_the_key() {
    let settings = with(&[
        ("consumer.durable", "123"),
        ("delivery.batch_size", "100"),
        ("delivery.retry.multiplier", "3"),
        ("consumer.filter_subjects", "a.b, c.>"),
        ("consumer.max_deliver", "-1"),
        ("delivery.strict", "true"),
    ])
    .unwrap()
    .settings;
    assert_eq!(settings.consumer.durable, "123");
    assert_eq!(settings.delivery.batch_size, 100);
    assert!((settings.delivery.retry.multiplier - 3.0).abs() < f64::EPSILON);
    assert_eq!(settings.consumer.filter_subjects, ["a.b", "c.>"]);
    assert_eq!(settings.consumer.max_deliver, Some(-1));
    assert!(settings.delivery.strict);
}

#[test]
fn variables_of_others_are_left_alone_and_near_misses_are_told() {
    let environment = Environment::with([
        ("JETSINK_PORT", "tcp://10.0.0.1:80"),
        ("JETSINK_INSTANCE", "a"),
        ("JETSINK_DELIVERY_BATCH_SIZE", "1"),
        ("OTHER__X", "1"),
    ]);
    let settings = load_text("toml", MINIMAL, &environment).unwrap().settings;
    assert_eq!(settings.delivery.batch_size, 500);
    let told: Vec<_> = settings.warnings.iter().filter(|text| text.contains("JETSINK_")).collect();
    assert_eq!(
        told,
        ["environment variable JETSINK_DELIVERY_BATCH_SIZE is not used; for delivery.batch_size set \
             JETSINK_DELIVERY__BATCH_SIZE"]
    );
}

#[test]
fn the_instance_stands_in_the_directory() {
    let text = MINIMAL.replace("/var/lib/jetsink", "/data/{instance}");
    let loaded = load_text("toml", &text, &Environment::with([("JETSINK_INSTANCE", "north-1")])).unwrap();
    let SinkSettings::File(file) = loaded.settings.sink else { panic!("not the file sink") };
    assert_eq!(file.directory.to_str(), Some("/data/north-1"));
    let found = problems(load_text("toml", &text, &Environment::default()));
    assert_eq!(found.first().unwrap().key.as_deref(), Some("sink.file.directory"));
}

#[test]
fn every_value_says_where_it_comes_from() {
    let loaded = with(&[("delivery.batch_size", "7")]).unwrap();
    let origin = |path: &str| {
        let entry = loaded.effective.entries().iter().find(|entry| entry.path == path).unwrap();
        entry.origin.to_string()
    };
    assert_eq!(origin("delivery.batch_size"), "environment variable JETSINK_DELIVERY__BATCH_SIZE");
    assert_eq!(origin("delivery.batch_bytes"), "default");
    assert!(origin("consumer.stream").ends_with("c.toml:5"));
    let json = loaded.effective.to_json();
    assert_eq!(json["delivery"]["batch_size"]["value"], 7);
    let context =
        "[nats]\ncontext = \"hub\"\n[consumer]\nstream = \"S\"\ndurable = \"d\"\n[sink]\ntype = \"stdout\"";
    let loaded = load_text("toml", context, &Environment::default()).unwrap();
    assert_eq!(loaded.settings.context.as_deref(), Some("hub"));
    assert!(loaded.effective.to_toml().contains("# servers: nats context hub\n"));
}

#[test]
fn what_show_config_writes_loads_again_to_the_same_settings() {
    let loaded =
        with(&[("dead_letter.subject", "dlq.x"), ("delivery.linger", "1s500ms"), ("nats.name", "a\"b\\c")]);
    let loaded = loaded.unwrap();
    let again = load_text("toml", &loaded.effective.to_toml(), &Environment::default()).unwrap();
    assert_eq!(again.settings, loaded.settings);
}

/// Serde never sees what it would refuse: its messages quote values.
#[test]
fn inspection_leaves_nothing_for_serde_to_refuse() {
    let table = keys::table();
    let values = [
        "null",
        "true",
        "-1",
        "1",
        "1.5",
        "1e300",
        "18446744073709551615",
        "\"\"",
        "\"x\"",
        "[]",
        "[1]",
        "[\"1s\"]",
        "{}",
        "{\"a\": 1}",
    ];
    for (path, kind) in keys::all(&table) {
        for value in values {
            if matches!(kind, Kind::Anything) {
                continue;
            }
            let nested =
                path.rsplit('.').fold(value.to_owned(), |inner, name| match name.strip_suffix("[]") {
                    None => format!("{{\"{name}\": {inner}}}"),
                    Some(name) => format!("{{\"{name}\": [{inner}]}}"),
                });
            for problem in problems_if_any(load_text("json", &nested, &Environment::default())) {
                assert!(problem.key.is_some(), "{nested}: {problem}");
            }
        }
    }
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(128))]

    #[test]
    fn loading_is_total(text in any::<String>(), extension in "toml|json|yaml") {
        let result = load_text(&extension, &text, &Environment::default());
        prop_assert!(result.is_err());
    }
}
