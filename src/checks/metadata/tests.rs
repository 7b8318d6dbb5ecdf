//! Where each field comes from, and what is malformed.

use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

use super::*;
use crate::subject::SubjectPattern;
use crate::testing::builders::{self, EnvelopeBuilder};

fn pattern(text: &str) -> SubjectPattern {
    SubjectPattern::parse(text).unwrap()
}

fn read(settings: MetadataSettings, message: EnvelopeBuilder) -> Reading {
    MetadataReader::new(settings).read(&message.build())
}

fn reason(reading: &Reading) -> Option<ReasonCode> {
    let rejection = reading.malformed.as_deref()?;
    assert_eq!((rejection.stage, rejection.error_type), (Stage::Size, ErrorType::Validation));
    Some(rejection.reason)
}

fn with_labels(security: SecurityLabelSettings) -> MetadataSettings {
    MetadataSettings { security_labels: Some(security), ..MetadataSettings::default() }
}

/// The normal form of a profile, or the text of the rejection.
fn labels_of(profile: impl Into<bytes::Bytes>, security: SecurityLabelSettings) -> Result<Value, String> {
    let message = builders::envelope(1)
        .header("Nats-Sinks-Priority", "high")
        .header("Nats-Sinks-Labels", "x;y")
        .header("nats-sinks-security-labels", profile);
    let reading = read(with_labels(security), message);
    match &reading.malformed {
        Some(rejection) => {
            assert_eq!(reading.metadata.security_labels, None);
            Err(format!("{}: {}", rejection.reason, rejection.detail))
        }
        None => Ok(serde_json::from_str(reading.metadata.security_labels.as_ref().unwrap()).unwrap()),
    }
}

fn refused(profile: impl Into<bytes::Bytes>) -> String {
    labels_of(profile, SecurityLabelSettings::default()).unwrap_err()
}

#[test]
fn the_first_header_of_a_name_in_any_case_counts() {
    let message = builders::envelope(1)
        .header("nats-sinks-priority", " high ")
        .header("Nats-Sinks-Priority", "low")
        .header("Nats-Sinks-Classification", "  ")
        .header("NATS-SINKS-LABELS", " x;y ;; x")
        .header("Nats-Sinks-Mission-Metadata", " {\"b\" : 1.0, \"a\":\"\\u00e9\"} ");
    let reading = read(MetadataSettings::default(), message);
    assert_eq!(reading.metadata.priority.as_deref(), Some("high"));
    assert_eq!(reading.metadata.classification, None);
    assert_eq!(reading.metadata.labels, ["x", "y"]);
    assert_eq!(reading.metadata.mission_metadata.as_deref(), Some("{\"a\":\"é\",\"b\":1.0}"));
    assert!(reading.own_labels);
    assert_eq!(reason(&reading), None);
    assert!(!format!("{reading:?}").contains("high"));
}

/// Defaults, a rule for `a.>` that sets some fields, and one for `a.b` that sets the others.
fn rules() -> MetadataSettings {
    let mission = |text| MetadataValues::mission_metadata_of(text).unwrap();
    MetadataSettings {
        rules: vec![
            MetadataRule {
                subject: pattern("a.>"),
                values: MetadataValues {
                    priority: Some(Some("rule 1".into())),
                    classification: Some(None),
                    ..MetadataValues::default()
                },
            },
            MetadataRule {
                subject: pattern("a.b"),
                values: MetadataValues {
                    priority: Some(Some("rule 2".into())),
                    labels: Some(MetadataValues::labels_of(["r; s", "r"])),
                    mission_metadata: Some(mission("{\"rule\": 2}")),
                    ..MetadataValues::default()
                },
            },
        ],
        defaults: MetadataValues {
            priority: Some(MetadataValues::text_of(" default ")),
            classification: Some(MetadataValues::text_of("default")),
            labels: Some(vec!["d".into()]),
            mission_metadata: Some(mission("{\"default\":0}")),
        },
        ..MetadataSettings::default()
    }
}

fn fields(metadata: &Metadata) -> (Option<&str>, Option<&str>, String, Option<&str>) {
    (
        metadata.priority.as_deref(),
        metadata.classification.as_deref(),
        metadata.labels.join(";"),
        metadata.mission_metadata.as_deref(),
    )
}

#[test]
fn a_header_goes_before_the_first_rule_that_sets_the_field_and_that_before_the_default() {
    let reader = MetadataReader::new(rules());
    let read = |message: EnvelopeBuilder| reader.read(&message.build());
    let of = |subject: &str| read(builders::envelope(1).subject(subject)).metadata;
    let default = Some("{\"default\":0}");
    assert_eq!(fields(&of("z")), (Some("default"), Some("default"), "d".into(), default));
    assert_eq!(fields(&of("a.z")), (Some("rule 1"), None, "d".into(), default));
    assert_eq!(fields(&of("a.b")), (Some("rule 1"), None, "r;s".into(), Some("{\"rule\":2}")));
    let blank = builders::envelope(1)
        .subject("a.b")
        .header("Nats-Sinks-Priority", "\t")
        .header("Nats-Sinks-Classification", "own")
        .header("Nats-Sinks-Labels", ";")
        .header("Nats-Sinks-Mission-Metadata", "");
    let reading = read(blank);
    assert_eq!(fields(&reading.metadata), (None, Some("own"), String::new(), None));
    assert!(reading.own_labels && reading.malformed.is_none());
    let one = builders::envelope(1).subject("a.z").header("Nats-Sinks-Priority", "own");
    assert_eq!(fields(&read(one).metadata), (Some("own"), None, "d".into(), default));
}

#[test]
fn metadata_that_comes_from_rules_alone_is_shared() {
    let mut settings = rules();
    settings.security_labels = Some(SecurityLabelSettings {
        rules: vec![(pattern("a.>"), Some("{\"owner\":\"o\"}".into()))],
        ..SecurityLabelSettings::default()
    });
    let reader = MetadataReader::new(settings);
    let of = |subject: &str| reader.read(&builders::envelope(1).subject(subject).build()).metadata;
    for subject in ["z", "a.z"] {
        let (one, another) = (of(subject), of(subject));
        assert!(std::ptr::eq(&raw const *one, &raw const *another), "{subject}");
    }
    let nothing = MetadataReader::new(MetadataSettings::default());
    let reading = nothing.read(&builders::envelope(1).header("X", "y").build());
    assert!(std::ptr::eq(&raw const *reading.metadata, &raw const *SharedMetadata::NONE));
}

#[test]
fn a_malformed_header_is_a_fault_of_its_message() {
    let mission = |value: &[u8]| {
        let message = builders::envelope(1)
            .header("Nats-Sinks-Priority", "high")
            .header("Nats-Sinks-Mission-Metadata", value.to_vec());
        let reading = read(rules(), message);
        assert_eq!(reading.metadata.priority.as_deref(), Some("high"));
        let fault = reason(&reading).map(|reason| (reason, reading.malformed.unwrap().detail));
        assert_eq!(fault.is_some(), reading.metadata.mission_metadata.is_none());
        fault
    };
    let invalid = |detail: &str| Some((ReasonCode::MissionMetadataInvalid, detail.to_owned()));
    assert_eq!(mission(b"{}"), None);
    assert_eq!(mission(b"[1]"), invalid("mission metadata: it is not a JSON object"));
    assert_eq!(
        mission(b"{\"CANARY\":1,\"CANARY\":1}"),
        invalid("mission metadata: an object has a key twice")
    );
    assert_eq!(mission(b"{\"a\":\xff}"), invalid("mission metadata: it is not UTF-8 text"));
    let value = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    assert_eq!(mission(value(8192).as_bytes()), None);
    assert_eq!(mission(value(8193).as_bytes()), invalid("mission metadata: it has more than 8192 bytes"));
    let deep = |depth: usize| format!("{}{{}}{}", "{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
    assert_eq!(mission(deep(8).as_bytes()), None);
    assert_eq!(mission(deep(9).as_bytes()), invalid("mission metadata: it is nested deeper than 8"));
    assert_eq!(mission(b"{\"a\":9007199254740991}"), None);
    assert_eq!(
        mission(b"{\"a\":9007199254740992}"),
        invalid("mission metadata: an integer is beyond \u{b1}(2^53-1)")
    );
}

#[test]
fn a_header_that_is_no_text_is_never_taken_for_nothing() {
    for (header, field) in [
        ("Nats-Sinks-Priority", "priority"),
        ("Nats-Sinks-Classification", "classification"),
        ("Nats-Sinks-Labels", "labels"),
    ] {
        let reading = read(rules(), builders::envelope(1).header(header, &b"CANARY\xff"[..]));
        assert_eq!(reason(&reading), Some(ReasonCode::MissionMetadataInvalid));
        assert_eq!(reading.malformed.unwrap().detail, format!("{field}: it is not UTF-8 text"));
    }
}

#[test]
fn a_profile_has_one_normal_form() {
    let full = json!({
        "profile": "nats-sinks.security-label.v1",
        "priority": " low ",
        "classification": "SECRET",
        "labels": ["l", " l", "", "m;n"],
        "releasability": " A ; B;A;",
        "handling_caveats": ["c"],
        "owner": "o",
        "originator": "g",
        "policy_id": "p",
        "retention_category": "r",
        "extensions": { "z": 1.0, "a": [true] },
    });
    let labels = labels_of(full.to_string(), SecurityLabelSettings::default()).unwrap();
    let expected = json!({
        "profile": "nats-sinks.security-label.v1",
        "priority": "low",
        "classification": "SECRET",
        "labels": ["l", "m;n"],
        "releasability": ["A", "B"],
        "handling_caveats": ["c"],
        "owner": "o",
        "originator": "g",
        "policy_id": "p",
        "retention_category": "r",
        "extensions": { "a": [true], "z": 1.0 },
    });
    assert_eq!(labels, expected);
    // Sorted keys, no spaces: the canonical spelling, which reads back as itself.
    let again = labels_of(labels.to_string(), SecurityLabelSettings::default()).unwrap();
    assert_eq!(again, expected);
}

#[test]
fn what_a_profile_lacks_comes_from_the_metadata() {
    let expected = |priority: Option<&str>, labels: &[&str]| {
        json!({
            "profile": "nats-sinks.security-label.v1",
            "priority": priority,
            "classification": null,
            "labels": labels,
            "releasability": [],
            "handling_caveats": [],
            "owner": null,
            "originator": null,
            "policy_id": null,
            "retention_category": null,
        })
    };
    let of = |profile: &'static str| labels_of(profile, SecurityLabelSettings::default()).unwrap();
    assert_eq!(of("{}"), expected(Some("high"), &["x", "y"]));
    // Null and blank are explicitly nothing.
    assert_eq!(of("{\"priority\":null,\"labels\":\" ; \"}"), expected(None, &[]));
    assert_eq!(
        of("{\"priority\":\" \",\"labels\":null,\"extensions\":null,\"profile\":null}"),
        expected(None, &[])
    );
    // Where no profile speaks, there is none.
    let message = builders::envelope(1).header("Nats-Sinks-Priority", "high");
    assert_eq!(read(with_labels(SecurityLabelSettings::default()), message).metadata.security_labels, None);
}

#[test]
fn what_is_filled_in_keeps_the_rules_of_the_profile() {
    let filled = |header: &'static str, value: String| {
        let message = builders::envelope(1)
            .header(header, value)
            .header("Nats-Sinks-Security-Labels", "{\"owner\":\"o\"}");
        reason(&read(with_labels(SecurityLabelSettings::default()), message))
    };
    let invalid = Some(ReasonCode::SecurityLabelsInvalid);
    assert_eq!(filled("Nats-Sinks-Priority", "\u{e9}".repeat(512)), None);
    assert_eq!(filled("Nats-Sinks-Priority", "\u{e9}".repeat(513)), invalid);
    assert_eq!(filled("Nats-Sinks-Classification", "a\0b".into()), invalid);
    let many = |count: usize| (0..count).map(|index| index.to_string()).collect::<Vec<_>>().join(";");
    assert_eq!(filled("Nats-Sinks-Labels", many(128)), None);
    assert_eq!(filled("Nats-Sinks-Labels", many(129)), invalid);
}

#[test]
fn each_bound_of_a_profile() {
    let of = |field: &str, value: Value| {
        let mut profile = serde_json::Map::new();
        profile.insert(field.to_owned(), value);
        labels_of(Value::Object(profile).to_string(), SecurityLabelSettings::default()).err()
    };
    let invalid = |text: &str| Some(format!("security_labels_invalid: security labels: {text}"));
    for field in ["priority", "classification", "owner", "originator", "policy_id", "retention_category"] {
        assert_eq!(of(field, "\u{e9}".repeat(512).into()), None);
        assert_eq!(
            of(field, "x".repeat(513).into()),
            invalid(&format!("{field} has more than 512 characters"))
        );
        for bad in ["a\0b", "a\rb", "a\nb"] {
            assert_eq!(of(field, bad.into()), invalid(&format!("{field} holds NUL or a line break")));
        }
        assert_eq!(of(field, json!(1)), invalid(&format!("{field} is not a text")));
    }
    for field in ["labels", "releasability", "handling_caveats"] {
        let many = |count: usize| (0..count).map(|index| index.to_string()).collect::<Vec<_>>();
        assert_eq!(of(field, many(128).into()), None);
        assert_eq!(of(field, many(129).into()), invalid(&format!("{field} has more than 128 entries")));
        assert_eq!(
            of(field, many(129).join(";").into()),
            invalid(&format!("{field} has more than 128 entries"))
        );
        assert_eq!(of(field, json!(["\u{e9}".repeat(512)])), None);
        assert_eq!(
            of(field, json!(["x".repeat(513)])),
            invalid(&format!("{field} has more than 512 characters"))
        );
        assert_eq!(of(field, json!(["a\nb"])), invalid(&format!("{field} holds NUL or a line break")));
        assert_eq!(of(field, json!([1])), invalid(&format!("{field} has an entry that is not a text")));
        assert_eq!(
            of(field, json!({})),
            invalid(&format!("{field} is neither a text nor an array of texts"))
        );
    }
    assert_eq!(of("profile", "other".into()), invalid("profile is not nats-sinks.security-label.v1"));
    assert_eq!(of("extensions", json!([])), invalid("extensions is not an object"));
    assert_eq!(of("CANARY", json!(1)), invalid("a field is not known to the profile"));
    assert_eq!(refused("null"), "security_labels_invalid: security labels: it is not a JSON object");
    let small = SecurityLabelSettings { max_bytes: 13, ..SecurityLabelSettings::default() };
    assert!(labels_of("{\"owner\":\"o\"}", small.clone()).is_ok());
    assert_eq!(labels_of("{\"owner\":\"oo\"}", small).err(), invalid("it has more than 13 bytes"));
}

#[test]
fn allowed_values() {
    let list = |text: &str| vec![text.to_owned()];
    let security = SecurityLabelSettings {
        allowed: AllowedLabels {
            priorities: list("high"),
            classifications: list("SECRET"),
            releasability: list("A"),
            handling_caveats: list("C"),
            retention_categories: list("R"),
        },
        ..SecurityLabelSettings::default()
    };
    let of = |profile: &'static str| labels_of(profile, security.clone()).err();
    let not_allowed = |field: &str| {
        Some(format!("security_label_not_allowed: security labels: {field} is not one of the allowed values"))
    };
    // A value that is not there breaks no list: that it is there, the policy can ask for.
    assert_eq!(of("{}"), None);
    assert_eq!(of("{\"priority\":null}"), None);
    let all = "{\"classification\":\"SECRET\",\"releasability\":\"A\",\"handling_caveats\":\"C\",\"retention_category\":\"R\"}";
    assert_eq!(of(all), None);
    assert_eq!(of("{\"priority\":\"HIGH\"}"), not_allowed("priority"));
    assert_eq!(of("{\"classification\":\"CANARY\"}"), not_allowed("classification"));
    assert_eq!(of("{\"releasability\":\"A;B\"}"), not_allowed("releasability"));
    assert_eq!(of("{\"handling_caveats\":[\"D\"]}"), not_allowed("handling_caveats"));
    assert_eq!(of("{\"retention_category\":\"S\"}"), not_allowed("retention_category"));
    // Also what the metadata fills in.
    let message = builders::envelope(1)
        .header("Nats-Sinks-Classification", "OPEN")
        .header("Nats-Sinks-Security-Labels", "{}");
    let reading = read(with_labels(security.clone()), message);
    assert_eq!(reason(&reading), Some(ReasonCode::SecurityLabelNotAllowed));
    assert_eq!(
        security.profile_of("{\"priority\":\"low\"}"),
        Err(MetadataError::NotAllowed { field: "priority" })
    );
}

#[test]
fn security_labels_of_rules_and_the_default() {
    let mut security = SecurityLabelSettings { max_bytes: 200, ..SecurityLabelSettings::default() };
    let own = security.profile_of("{\"owner\":\"rule\"}").unwrap();
    assert!(own.as_ref().unwrap().len() < 200, "the test wants room for a header");
    assert_eq!(security.profile_of(" "), Ok(None));
    assert!(security.profile_of("{").is_err());
    security.rules = vec![
        (pattern("a.none"), None),
        (pattern("a.>"), own),
        (pattern("a.b"), security.profile_of("{\"owner\":\"never\"}").unwrap()),
    ];
    security.default = security.profile_of("{\"owner\":\"default\",\"labels\":\"d\"}").unwrap();
    let mut settings = rules();
    settings.security_labels = Some(security);
    let reader = MetadataReader::new(settings);
    let of = |message: EnvelopeBuilder| {
        let reading = reader.read(&message.build());
        assert_eq!(reason(&reading), None);
        reading.metadata.security_labels.as_deref().map(|text| {
            let labels: Value = serde_json::from_str(text).unwrap();
            (labels["owner"].clone(), labels["priority"].clone(), labels["labels"].clone())
        })
    };
    let message = |subject: &str| builders::envelope(1).subject(subject);
    assert_eq!(of(message("a.b")), Some((json!("rule"), json!("rule 1"), json!(["r", "s"]))));
    assert_eq!(of(message("a.none")), None);
    assert_eq!(of(message("z")), Some((json!("default"), json!("default"), json!(["d"]))));
    let header = "Nats-Sinks-Security-Labels";
    assert_eq!(of(message("a.b").header(header, " ")), None);
    assert_eq!(
        of(message("a.b").header(header, "{\"owner\":\"own\"}")),
        Some((json!("own"), json!("rule 1"), json!(["r", "s"])))
    );
    let urgent = message("z").header("Nats-Sinks-Priority", "urgent");
    assert_eq!(of(urgent), Some((json!("default"), json!("urgent"), json!(["d"]))));
}

#[test]
fn without_security_labels_their_header_is_plain_data() {
    let message = builders::envelope(1).header("Nats-Sinks-Security-Labels", "no profile");
    let reading = read(MetadataSettings::default(), message);
    assert_eq!((reason(&reading), &*reading.metadata), (None, &Metadata::default()));
}

fn any_header() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let names = vec![
        "Nats-Sinks-Priority",
        "nats-sinks-classification",
        "Nats-Sinks-Labels",
        "Nats-Sinks-Mission-Metadata",
        "Nats-Sinks-Security-Labels",
        "X",
    ];
    let json = "\\{(\"(owner|priority|labels|a)\":(1|-0|\"x;y\"|null|\\[\"a\"\\]|\\{\\}|1e400)[,\\}]){0,3}";
    let value = prop_oneof![
        any::<Vec<u8>>(),
        ".{0,20}".prop_map(String::into_bytes),
        json.prop_map(String::into_bytes)
    ];
    (prop::sample::select(names), value)
}

proptest! {
    #[test]
    fn reading_is_total_and_what_it_gives_is_normal(
        headers in prop::collection::vec(any_header(), 0..6),
        subject in prop_oneof![Just("a.b"), Just("a.z"), Just("z")],
    ) {
        let mut settings = rules();
        let mut security = SecurityLabelSettings::default();
        security.default = security.profile_of("{\"owner\":\"default\"}").unwrap();
        settings.security_labels = Some(security);
        let mut message = builders::envelope(1).subject(subject);
        for (name, value) in headers {
            message = message.header(name, value);
        }
        let message = message.build();
        let reading = MetadataReader::new(settings.clone()).read(&message);
        let metadata = &reading.metadata;
        let texts = [&metadata.priority, &metadata.classification].into_iter().flatten().chain(&metadata.labels);
        for text in texts {
            prop_assert!(!text.is_empty() && text.trim() == text);
        }
        for object in [&metadata.mission_metadata, &metadata.security_labels].into_iter().flatten() {
            let again = mission::document(object.as_bytes(), usize::MAX).unwrap().unwrap();
            prop_assert_eq!(&again.canonical(), object);
        }
        // What was read is read the same again, from headers in normal form.
        if reading.malformed.is_none() {
            let again = builders::envelope(1)
                .header("Nats-Sinks-Priority", metadata.priority.clone().unwrap_or_default())
                .header("Nats-Sinks-Classification", metadata.classification.clone().unwrap_or_default())
                .header("Nats-Sinks-Labels", metadata.labels.join(";"))
                .header("Nats-Sinks-Mission-Metadata", metadata.mission_metadata.clone().unwrap_or_default())
                .header("Nats-Sinks-Security-Labels", metadata.security_labels.clone().unwrap_or_default());
            prop_assert_eq!(&*read(settings, again).metadata, &**metadata);
        }
    }

    /// For each field alone: header, else the first rule that sets it, else the default.
    #[test]
    fn the_order_of_rules(
        rules in prop::collection::vec((any::<bool>(), prop::option::of(prop::option::of(0_u8..9))), 0..5),
        default in prop::option::of(prop::option::of(0_u8..9)),
        header in prop::option::of(prop::option::of(0_u8..9)),
    ) {
        let text = |value: Option<u8>| value.map(|value| value.to_string());
        let values = |value: Option<Option<u8>>| MetadataValues {
            classification: value.map(text),
            ..MetadataValues::default()
        };
        let settings = MetadataSettings {
            rules: rules
                .iter()
                .map(|(matches, value)| MetadataRule {
                    subject: pattern(if *matches { "*.b" } else { "c.>" }),
                    values: values(*value),
                })
                .collect(),
            defaults: values(default),
            ..MetadataSettings::default()
        };
        let mut message = builders::envelope(1).subject("a.b");
        if let Some(value) = header {
            message = message.header("Nats-Sinks-Classification", text(value).unwrap_or_default());
        }
        let rule = rules.iter().filter(|(matches, _)| *matches).find_map(|(_, value)| *value);
        let expected = header.or(rule).or(default).flatten();
        prop_assert_eq!(&read(settings, message).metadata.classification, &text(expected));
    }
}
