//! Texts that may be blank, which other texts may not: a blank one says *explicitly nothing*.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A text; a blank one is explicitly nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct TextOrNothing(String);

impl TextOrNothing {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl JsonSchema for TextOrNothing {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TextOrNothing".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "jetsink-text-or-nothing" })
    }
}

/// A JSON object as text, which may have several lines; a blank one is explicitly nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct JsonObject(String);

impl JsonObject {
    /// Nothing looked into it yet.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl JsonSchema for JsonObject {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "JsonObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "jetsink-json-object" })
    }
}
