//! A JSON Schema, compiled at start (`json_schema` of a rule).
//!
//! Nothing outside the file is read, neither by name nor by network: a schema that refers to something else is refused.
//! Patterns run on the engine whose time is linear in the text; what it cannot do (look-around, back references) is refused
//! too. The draft is what `$schema` says, else 2020-12; `format` is enforced in every draft, and names of formats that are
//! not known are ignored, as the specification has it.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::Location;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::json::StrictReader;

/// Bytes of a schema file.
const MAX_SCHEMA: u64 = 1 << 20;
/// Bytes of a message about a schema, which quotes the schema.
const MAX_REASON: usize = 300;
/// Bytes of a JSON pointer in a dead letter.
const MAX_POINTER: usize = 256;

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The system refuses the file.
    #[error("the file cannot be read")]
    Unreadable(#[source] io::Error),
    /// A directory, a pipe, a device.
    #[error("it is no regular file")]
    NoFile,
    /// Too large.
    #[error("the file is larger than {MAX_SCHEMA} bytes; split the schema over several rules")]
    TooLarge,
    /// Not strict JSON.
    #[error(
        "the file is no strict JSON: not UTF-8, a syntax error, a key that is there twice, or a number beyond a double"
    )]
    NoJson,
    /// A reference, or `$schema`, that does not lead to something within the file.
    #[error(
        "a reference leads out of the file or to nothing in it: {0}; nothing is fetched: copy what it names into `$defs` \
         and refer to that"
    )]
    Reference(String),
    /// The schema breaks the rules of its draft, or has a pattern with look-around or back references.
    #[error(
        "at {at} it is no schema of its draft, or holds a pattern that needs look-around or back references: {reason}"
    )]
    Invalid {
        /// A JSON pointer into the schema.
        at: String,
        /// What the library says; it quotes the schema.
        reason: String,
    },
}

/// A body as schemas read it.
#[derive(Debug)]
pub(super) struct Instance(Option<Value>);

impl Instance {
    /// Reads a body that is strict JSON. What can still fail is a number beyond the range of a double.
    pub(super) fn read(payload: &[u8]) -> Self {
        Self(serde_json::from_slice(payload).ok())
    }
}

/// A compiled schema.
pub(super) struct Schema {
    validator: Validator,
    /// Every key that stands in the schema: names that the operator wrote and that may be told.
    names: BTreeSet<String>,
}

/// Shows nothing: the schema may be long.
impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Schema").finish_non_exhaustive()
    }
}

/// Where and by which keyword a body does not fit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misfit {
    /// The first place, as a JSON pointer; names that do not stand in the schema are `*`.
    #[error("the payload does not fit the schema at {at}: {keyword}")]
    At { at: String, keyword: String },
    /// No place to tell.
    #[error("the payload does not fit the schema: it holds a number beyond the range of a double")]
    Number,
}

impl Schema {
    /// Reads and compiles a schema.
    pub(super) fn open(path: &Path) -> Result<Self, SchemaError> {
        Self::compile(&read_file(path)?)
    }

    fn compile(text: &[u8]) -> Result<Self, SchemaError> {
        StrictReader::default().read(text).ok_or(SchemaError::NoJson)?;
        let schema = serde_json::from_slice(text).map_err(|_| SchemaError::NoJson)?;
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex())
            .should_validate_formats(true)
            .build(&schema)
            .map_err(|error| unusable(&error))?;
        let mut names = BTreeSet::new();
        collect_names(schema, &mut names);
        Ok(Self { validator, names })
    }

    /// Judges a body.
    pub(super) fn judge(&self, instance: &Instance) -> Result<(), Misfit> {
        let Some(instance) = &instance.0 else { return Err(Misfit::Number) };
        // The plain answer is much cheaper than the reason, and most bodies fit.
        if self.validator.is_valid(instance) {
            return Ok(());
        }
        let (at, keyword) = match self.validator.validate(instance) {
            Err(error) => (self.tell(error.instance_path(), instance), error.kind().keyword().to_owned()),
            Ok(()) => ("the root".to_owned(), "schema".to_owned()),
        };
        Err(Misfit::At { at, keyword })
    }

    /// The pointer without words of the message. Its `Display` would be shorter to call, and would quote keys; what the
    /// error itself displays quotes values.
    fn tell(&self, location: &Location, instance: &Value) -> String {
        if location.is_empty() {
            return "the root".to_owned();
        }
        let mut told = String::new();
        let mut inner = Some(instance);
        for segment in location.as_str().split('/').skip(1) {
            if told.len() + segment.len() > MAX_POINTER {
                told.push_str("/…");
                break;
            }
            let key = segment.replace("~1", "/").replace("~0", "~");
            let is_index = matches!(inner, Some(Value::Array(_)));
            told.push('/');
            told.push_str(if is_index || self.names.contains(&key) { segment } else { "*" });
            inner = match inner {
                Some(Value::Array(elements)) => key.parse().ok().and_then(|index: usize| elements.get(index)),
                Some(Value::Object(members)) => members.get(&key),
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => None,
            };
        }
        told
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, SchemaError> {
    // Asked before the file is opened: opening a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(SchemaError::Unreadable)?.is_file() {
        return Err(SchemaError::NoFile);
    }
    let file = File::open(path).map_err(SchemaError::Unreadable)?;
    let mut text = Vec::new();
    file.take(MAX_SCHEMA + 1).read_to_end(&mut text).map_err(SchemaError::Unreadable)?;
    if u64::try_from(text.len()).is_ok_and(|size| size <= MAX_SCHEMA) {
        Ok(text)
    } else {
        Err(SchemaError::TooLarge)
    }
}

fn unusable(error: &ValidationError<'_>) -> SchemaError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the kinds of another library's error")]
    match error.kind() {
        ValidationErrorKind::Referencing(reference) => SchemaError::Reference(cut(&reference.to_string())),
        _ => SchemaError::Invalid { at: pointer(error.instance_path()), reason: cut(&error.to_string()) },
    }
}

fn pointer(location: &Location) -> String {
    if location.is_empty() { "the root".to_owned() } else { cut(location.as_str()) }
}

/// The beginning of a text.
fn cut(text: &str) -> String {
    let mut cut = String::new();
    for character in text.chars() {
        if cut.len() + character.len_utf8() > MAX_REASON {
            // Writing into a string cannot fail.
            let _written = write!(cut, "…");
            break;
        }
        cut.push(character);
    }
    cut
}

fn collect_names(schema: Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for (name, inner) in members {
                names.insert(name);
                collect_names(inner, names);
            }
        }
        Value::Array(elements) => elements.into_iter().for_each(|inner| collect_names(inner, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> Schema {
        Schema::compile(text.as_bytes()).unwrap()
    }

    fn judged(schema: &Schema, body: &str) -> Result<(), String> {
        schema.judge(&Instance::read(body.as_bytes())).map_err(|misfit| misfit.to_string())
    }

    /// Judged by a schema, the body fits, or fails here.
    fn assert_misfit(text: &str, body: &str, place: &str) {
        let expected = format!("the payload does not fit the schema at {place}");
        assert_eq!(judged(&schema(text), body), Err(expected), "{text} {body}");
    }

    #[test]
    fn the_first_place_and_its_keyword_are_told_and_no_word_of_the_body() {
        let order = r#"{"properties":{"order":{"properties":{"id":{"type":"integer"}}}}}"#;
        assert_misfit(order, r#"{"order":{"id":"CANARY"}}"#, "/order/id: type");
        let list = r#"{"properties":{"a/b":{"items":{"type":"integer"}}}}"#;
        assert_misfit(list, r#"{"a/b":[1,"CANARY"]}"#, "/a~1b/1: type");
        assert_misfit(r#"{"properties":{"":{"type":"null"}}}"#, r#"{"":"CANARY"}"#, "/: type");
        let map = r#"{"additionalProperties":{"properties":{"id":{"type":"integer"}}}}"#;
        assert_misfit(map, r#"{"CANARY":{"id":"CANARY"}}"#, "/*/id: type");
        assert_misfit(map, r#"{"4111111111111111":{"id":"CANARY"}}"#, "/*/id: type");
        for (text, keyword) in [
            (r#"{"additionalProperties":false,"properties":{"b":{}}}"#, "additionalProperties"),
            (r#"{"propertyNames":{"maxLength":1}}"#, "propertyNames"),
            (r#"{"required":["x"]}"#, "required"),
            (r#"{"oneOf":[{"required":["a"]},{"required":["b"]}]}"#, "oneOf"),
            (r#"{"enum":[1]}"#, "enum"),
            (r#"{"unevaluatedProperties":false}"#, "unevaluatedProperties"),
            ("false", "falseSchema"),
        ] {
            assert_misfit(text, r#"{"CANARY":"CANARY"}"#, &format!("the root: {keyword}"));
        }
        assert_misfit(r#"{"pattern":"^[a-z]+$"}"#, r#""CANARY""#, "the root: pattern");
        assert_misfit(r#"{"format":"uuid"}"#, r#""CANARY""#, "the root: format");
    }

    #[test]
    fn a_long_pointer_is_cut() {
        let mut text = r#"{"type":"integer"}"#.to_owned();
        let mut body = r#""CANARY""#.to_owned();
        let name = "n".repeat(100);
        for _ in 0..40 {
            text = format!(r#"{{"properties":{{"{name}":{text}}}}}"#);
            body = format!(r#"{{"{name}":{body}}}"#);
        }
        assert_misfit(&text, &body, &format!("/{name}/{name}/…: type"));
    }

    /// What docs/policy.md says about numbers.
    #[test]
    fn numbers_are_exact_where_they_fit_into_64_bits_and_doubles_beyond() {
        for (text, body, fits) in [
            (r#"{"const":9007199254740992}"#, "9007199254740993", false),
            (r#"{"maximum":18446744073709551615}"#, "18446744073709551616", false),
            (r#"{"minimum":-9223372036854775808}"#, "-9223372036854775808", true),
            (r#"{"type":"integer"}"#, "1.0", true),
            (r#"{"type":"integer"}"#, "1e20", true),
            (r#"{"multipleOf":0.01}"#, "0.07", true),
            (r#"{"const":18446744073709551616}"#, "18446744073709551617", true),
            (r#"{"maximum":0.1}"#, "0.10000000000000001", true),
        ] {
            assert_eq!(judged(&schema(text), body).is_ok(), fits, "{text} {body}");
        }
        let beyond = "the payload does not fit the schema: it holds a number beyond the range of a double";
        assert_eq!(judged(&schema("true"), "[1e400]"), Err(beyond.into()));
    }

    #[test]
    fn the_draft_is_what_the_schema_says() {
        let old = r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"integer"}]}"#;
        assert_misfit(old, r#"["x"]"#, "/0: type");
        let now = r#"{"prefixItems":[{"type":"integer"}]}"#;
        assert_misfit(now, r#"["x"]"#, "/0: type");
        assert_eq!(judged(&schema(r#"{"format":"of our own"}"#), r#""x""#), Ok(()));
    }

    #[test]
    fn nothing_outside_the_file_is_read() {
        let here = tempfile::tempdir().unwrap();
        let other = here.path().join("other.json");
        std::fs::write(&other, r#"{"type":"integer"}"#).unwrap();
        let main = here.path().join("main.json");
        for reference in [
            "other.json".to_owned(),
            "other.json#/type".to_owned(),
            format!("file://{}", other.display()),
            "http://127.0.0.1:1/other.json".to_owned(),
            "https://example.com/other.json".to_owned(),
            "#/$defs/missing".to_owned(),
            "#missing".to_owned(),
        ] {
            for keyword in ["$ref", "$dynamicRef"] {
                let text = format!(r#"{{"properties":{{"a":{{"{keyword}":"{reference}"}}}}}}"#);
                std::fs::write(&main, text).unwrap();
                let refused = Schema::open(&main);
                assert!(
                    matches!(refused, Err(SchemaError::Reference(_))),
                    "{keyword} {reference} {refused:?}"
                );
            }
        }
        std::fs::write(&main, r#"{"$schema":"https://example.com/meta"}"#).unwrap();
        assert!(matches!(Schema::open(&main), Err(SchemaError::Reference(_))));
    }

    #[test]
    fn a_reference_within_the_file_is_followed() {
        let text = r##"{"$id":"https://example.com/x","properties":{"a":{"$ref":"y"},"b":{"$ref":"#/$defs/y"}},
            "$defs":{"y":{"$id":"y","type":"integer"}}}"##;
        assert_misfit(text, r#"{"a":"x"}"#, "/a: type");
        assert_misfit(text, r#"{"b":"x"}"#, "/b: type");
    }

    #[test]
    fn what_cannot_be_used_is_refused_at_start() {
        for (text, place) in [
            (r#"{"type":"strng"}"#, "/type"),
            ("[]", "the root"),
            (r#"{"pattern":"(?=a)b"}"#, "/pattern"),
            (r#"{"pattern":"("}"#, "/pattern"),
            (r#"{"patternProperties":{"(a)\\1":{}}}"#, "/patternProperties/(a)\\1"),
        ] {
            match Schema::compile(text.as_bytes()) {
                Err(SchemaError::Invalid { at, .. }) => assert_eq!(at, place, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let nested = format!("{}{}", "[".repeat(127), "]".repeat(127));
        for text in ["", "{", r#"{"type":"string","type":"null"}"#, "{\"maximum\":1e400}", &nested] {
            assert!(matches!(Schema::compile(text.as_bytes()), Err(SchemaError::NoJson)), "{text}");
        }
    }

    #[test]
    fn what_is_no_schema_file_is_refused_at_start() {
        let here = tempfile::tempdir().unwrap();
        assert!(matches!(Schema::open(&here.path().join("missing")), Err(SchemaError::Unreadable(_))));
        assert!(matches!(Schema::open(here.path()), Err(SchemaError::NoFile)));
        let large = here.path().join("large.json");
        std::fs::write(&large, " ".repeat((1 << 20) + 1)).unwrap();
        assert!(matches!(Schema::open(&large), Err(SchemaError::TooLarge)));
    }

    /// A worker thread has 2 MiB. Ten steps of a schema for every level of the deepest body fit into it, unoptimized.
    #[test]
    fn the_deepest_body_does_not_overflow_the_stack() {
        let mut text = r##"{"items":{"$ref":"#"}}"##.to_owned();
        for _ in 0..10 {
            text = format!(r#"{{"allOf":[{text},true]}}"#);
        }
        let text = format!(r#"{{"allOf":[{text},{{"type":["array","integer"]}}]}}"#);
        let body = format!("{}\"CANARY\"{}", "[".repeat(126), "]".repeat(126));
        let worker = std::thread::Builder::new().stack_size(2 << 20);
        let judged = worker.spawn(move || judged(&schema(&text), &body)).unwrap().join().unwrap();
        let place = format!("the payload does not fit the schema at {}: type", "/0".repeat(126));
        assert_eq!(judged, Err(place));
    }

    /// A pattern that takes a backtracking engine for ever.
    #[test]
    fn a_hostile_text_is_judged_at_once() {
        let text = r#"{"pattern":"^(a+)+$"}"#;
        assert_misfit(text, &format!("\"{}!\"", "a".repeat(100_000)), "the root: pattern");
    }
}
