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

    #[test]
    fn probe() {
        for schema in [
            r#"{"$ref":"https://example.com/x.json"}"#,
            r#"{"$ref":"other.json"}"#,
            r#"{"$ref":"file:///etc/hosts"}"#,
            r##"{"$ref":"#/$defs/x"}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"other.json#/y"}}}"##,
            r#"{"$schema":"https://example.com/meta"}"#,
            r#"{"$schema":"https://json-schema.org/draft/2020-12/schema"}"#,
            r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
            r#"{"$ref":"https://json-schema.org/draft/2020-12/schema"}"#,
            r#"{"type":"strng"}"#,
            r#"{"pattern":"(?=a)b"}"#,
            r#"{"pattern":"("}"#,
            r#"{"patternProperties":{"(?=a)b":{}}}"#,
            r#"{"type":"string","format":"nonsense"}"#,
            r#"true"#,
            r#"[]"#,
            r##"{"$id":"https://example.com/x","$ref":"#/$defs/a","$defs":{"a":{"$id":"y","$ref":"z"}}}"##,
            r#"{"$id":"https://example.com/x","$ref":"y","$defs":{"a":{"$id":"y"}}}"#,
        ] {
            match Schema::compile(schema.as_bytes()) {
                Ok(s) => println!("{schema}: ok {:?}", s.validator.draft()),
                Err(e) => println!("{schema}: {e}"),
            }
        }
        for (schema, body) in [
            (r#"{"maximum":18446744073709551615}"#, "18446744073709551616"),
            (r#"{"const":18446744073709551616}"#, "18446744073709551617"),
            (r#"{"const":9007199254740992}"#, "9007199254740993"),
            (r#"{"type":"integer"}"#, "1.0"),
            (r#"{"type":"integer"}"#, "9007199254740993.5"),
            (r#"{"maximum":1}"#, "1e400"),
            (r#"{"maximum":0.1}"#, "0.10000000000000001"),
            (r#"{"multipleOf":0.01}"#, "0.07"),
            (r#"{"additionalProperties":{"type":"integer"}}"#, r#"{"CAN/ARY":"x"}"#),
            (r#"{"properties":{"a/b":{"items":{"type":"integer"}}}}"#, r#"{"a/b":[1,"CANARY"]}"#),
            (r#"{"additionalProperties":false,"properties":{"b":{}}}"#, r#"{"CANARY":"x"}"#),
            (r#"{"propertyNames":{"maxLength":1}}"#, r#"{"CANARY":"x"}"#),
            (r#"{"required":["x"]}"#, r#"{"CANARY":"x"}"#),
            (r#"false"#, r#"{"CANARY":"x"}"#),
            (r#"{"properties":{"":{"type":"null"}}}"#, r#"{"":"x"}"#),
            (r#"{"oneOf":[{"required":["a"]},{"required":["b"]}]}"#, r#"{"":"x"}"#),
            (r#"{"format":"uuid"}"#, r#""x""#),
            (r#"{"format":"idn-email"}"#, r#""x""#),
            (r#"{"format":"idn-hostname"}"#, r#""-""#),
            (r#"{"contentMediaType":"application/json"}"#, r#""-""#),
            (
                r#"{"$schema":"http://json-schema.org/draft-07/schema#","contentMediaType":"application/json"}"#,
                r#""-""#,
            ),
        ] {
            let s = Schema::compile(schema.as_bytes()).unwrap();
            println!(
                "{schema} {body}: {:?}",
                s.judge(&Instance::read(body.as_bytes())).map_err(|e| e.to_string())
            );
        }
    }
}
