//! Small documents: reading and their canonical spelling.

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;

const BOUNDS: Bounds = Bounds::MISSION_METADATA;

fn parse(text: &str) -> Result<Object, JsonError> {
    Object::parse(text.as_bytes(), &BOUNDS)
}

fn canonical(text: &str) -> String {
    parse(text).unwrap().canonical()
}

#[test]
fn keys_are_sorted_by_code_point_at_every_level() {
    assert_eq!(
        canonical(
            " {\"b\" : [ {\"z\":1,\"a\":2} , [] ,{}],\n\"\u{1f600}\":3,\"\u{ff61}\":4,\"a\":null,\"B\":true} "
        ),
        "{\"B\":true,\"a\":null,\"b\":[{\"a\":2,\"z\":1},[],{}],\"\u{ff61}\":4,\"\u{1f600}\":3}"
    );
    assert_eq!(canonical("{\"\\u00e9\\/\\ud83d\\ude00\":\"\\u0007\"}"), "{\"é/😀\":\"\\u0007\"}");
}

#[test]
fn numbers_keep_their_kind() {
    assert_eq!(
        canonical(
            "{\"n\":[1,-1,0,-0,1.0,-0.0,1e0,1E2,10e15,1e-7,1e-400,9007199254740991,-9007199254740991]}"
        ),
        "{\"n\":[1,-1,0,0,1.0,-0.0,1.0,100.0,1e+16,1e-07,0.0,9007199254740991,-9007199254740991]}"
    );
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    for (text, at) in [
        ("", 0),
        ("{", 1),
        ("{}x", 2),
        ("\u{feff}{}", 0),
        ("{\"a\":1,}", 7),
        ("{\"a\" 1}", 5),
        ("{a:1}", 1),
        ("{\"a\":01}", 6),
        ("{\"a\":1.}", 7),
        ("{\"a\":.5}", 5),
        ("{\"a\":+1}", 5),
        ("{\"a\":-}", 6),
        ("{\"a\":1e}", 7),
        ("{\"a\":[1,]}", 8),
        ("{\"a\":tru}", 8),
        ("{\"a\":'x'}", 5),
        ("{\"a\":\"\t\"}", 6),
        ("{\"a\":\"\\x\"}", 7),
        ("{\"a\":\"\\u00g0\"}", 10),
        ("{\"a\":\"", 6),
        ("{\"a\":1]", 6),
    ] {
        assert_eq!(parse(text), Err(JsonError::Syntax { at }), "{text}");
    }
}

#[test]
fn what_json_allows_and_a_bound_forbids_is_refused_by_name() {
    let integer = JsonError::IntegerOutOfRange;
    for (text, error) in [
        ("[]", JsonError::NotAnObject),
        (" 1 ", JsonError::NotAnObject),
        ("{\"a\":1,\"a\":2}", JsonError::DuplicateKey),
        ("{\"a\":1,\"\\u0061\":2}", JsonError::DuplicateKey),
        ("{\"x\":[{\"a\":1,\"b\":0,\"a\":2}]}", JsonError::DuplicateKey),
        ("{\"a\":9007199254740992}", integer),
        ("{\"a\":-9007199254740992}", integer),
        ("{\"a\":99999999999999999999999999}", integer),
        ("{\"a\":NaN}", JsonError::NotFinite),
        ("{\"a\":-Infinity}", JsonError::NotFinite),
        ("{\"a\":Infinity}", JsonError::NotFinite),
        ("{\"a\":1E400}", JsonError::NotFinite),
        ("{\"a\":\"\\ud83d\"}", JsonError::LoneSurrogate),
        ("{\"a\":\"\\ude00\"}", JsonError::LoneSurrogate),
        ("{\"a\":\"\\ud83d\\u0041\"}", JsonError::LoneSurrogate),
    ] {
        assert_eq!(parse(text), Err(error), "{text}");
    }
    assert_eq!(Object::parse(b"{\"a\":\"\xff\"}", &BOUNDS), Err(JsonError::NotText));
}

#[test]
fn bounds_are_the_last_that_pass() {
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert!(parse(&nested(8)).is_ok());
    assert_eq!(parse(&nested(9)), Err(JsonError::TooDeep { limit: 8 }));
    let brackets = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&brackets(7)).is_ok());
    assert_eq!(parse(&brackets(8)), Err(JsonError::TooDeep { limit: 8 }));
    let fields = |count: usize| {
        let fields: Vec<_> = (0..count).map(|key| format!("\"{key}\":0")).collect();
        format!("{{{}}}", fields.join(","))
    };
    assert!(parse(&fields(128)).is_ok());
    assert_eq!(parse(&fields(129)), Err(JsonError::TooManyFields { limit: 128 }));
    let items = |count: usize| format!("{{\"a\":[{}]}}", vec!["0"; count].join(","));
    assert!(parse(&items(256)).is_ok());
    assert_eq!(parse(&items(257)), Err(JsonError::TooManyItems { limit: 256 }));
    let long = |count: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(count - 8));
    assert!(parse(&long(8192)).is_ok());
    assert_eq!(parse(&long(8193)), Err(JsonError::TooLong { limit: 8192 }));
    let deepest = Bounds { bytes: usize::MAX, depth: usize::MAX, fields: 1, items: 1 };
    let error = Object::parse(nested(100_000).as_bytes(), &deepest);
    assert_eq!(error, Err(JsonError::TooDeep { limit: Bounds::DEEPEST }));
}

#[test]
fn values_are_found_by_key_and_never_shown() {
    let object = parse("{\"key\":\"CANARY\",\"CANARY\":[1],\"n\":null}").unwrap();
    assert_eq!(object.get("key").and_then(Value::as_str), Some("CANARY"));
    assert_eq!(object.get("n"), Some(&Value::Null));
    assert_eq!(object.get("other"), None);
    assert_eq!(object.keys().collect::<Vec<_>>(), ["CANARY", "key", "n"]);
    assert_eq!((object.len(), object.is_empty()), (3, false));
    assert!(!format!("{object:?} {:?}", object.get("key")).contains("CANARY"));
    for text in ["{\"CANARY\":CANARY}", "{\"CANARY\":1,\"CANARY\":2}", "\"CANARY\""] {
        let error = parse(text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("CANARY"), "{text}");
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Into::into),
        (-MAX_INTEGER..=MAX_INTEGER).prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,8}".prop_map(Into::into),
        proptest::strategy::Just(serde_json::Value::Null),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::btree_map(".{0,6}", inner, 0..6)
                .prop_map(|fields| fields.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

const ROOMY: Bounds = Bounds { bytes: 1 << 20, depth: 16, fields: 1000, items: 1000 };

proptest! {
    #[test]
    fn reading_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        drop(Object::parse(&bytes, &BOUNDS));
    }

    #[test]
    fn reading_what_is_nearly_json_is_total(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\":", "\"\\u00", "\\ud83d", "\"", "1", "-", "0.5e", "3", "true", "nul", " ",
        ]), 0..24)
    ) {
        let text = parts.concat();
        if let Ok(object) = parse(&format!("{{\"k\":{text}}}")) {
            prop_assert!(parse(&object.canonical()).is_ok());
        }
    }

    #[test]
    fn the_canonical_spelling_says_the_same_and_is_a_fixed_point(value in json()) {
        let pretty = serde_json::to_string_pretty(&serde_json::json!({ "v": value })).unwrap();
        let object = Object::parse(pretty.as_bytes(), &ROOMY).unwrap();
        let canonical = object.canonical();
        let read: serde_json::Value = serde_json::from_str(&canonical).unwrap();
        prop_assert_eq!(&read, &serde_json::from_str::<serde_json::Value>(&pretty).unwrap());
        prop_assert_eq!(Object::parse(canonical.as_bytes(), &ROOMY).unwrap().canonical(), canonical);
    }
}
