//! The table of every key, taken from the JSON Schema of the raw structs: one source for inspection, for `show-config`
//! and for the tests that keep the documents complete.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::raw::Raw;

/// The keys of one table, by name, with what they take.
pub(super) type Table = BTreeMap<String, Kind>;

/// What a key takes.
pub(super) enum Kind {
    Text,
    Choice(Vec<String>),
    Boolean,
    /// A whole number, at least this.
    Integer(Option<i64>),
    Number,
    Duration,
    Size,
    /// A text that may be blank.
    TextOrNothing,
    /// A JSON object as text, which may be blank and have several lines.
    JsonObject,
    List(Box<Self>),
    Table(Table),
    /// Not looked into.
    Anything,
}

/// The JSON Schema of the configuration.
pub(super) fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Raw>().to_value();
    drop_null(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".into(), "jetsink configuration".into());
    }
    schema
}

/// The root table.
pub(super) fn table() -> Table {
    table_of(&schema())
}

/// Every leaf with its path, `delivery.batch_size` for instance. A list of tables is one leaf.
pub(super) fn leaves(table: &Table) -> Vec<(String, &Kind)> {
    let mut found = Vec::new();
    collect(table, "", false, &mut found);
    found
}

/// Every leaf, and every key of the tables in lists: `pre_sink_policy.rules[].subject` for instance.
pub(super) fn all(table: &Table) -> Vec<(String, &Kind)> {
    let mut found = Vec::new();
    collect(table, "", true, &mut found);
    found
}

/// The path of a key within the table at `parent`.
pub(super) fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

fn collect<'table>(
    table: &'table Table,
    parent: &str,
    into_lists: bool,
    found: &mut Vec<(String, &'table Kind)>,
) {
    for (name, kind) in table {
        let path = join(parent, name);
        if let Kind::Table(inner) = kind {
            collect(inner, &path, into_lists, found);
            continue;
        }
        if into_lists && let Some(inner) = table_in_list(kind) {
            collect(inner, &format!("{path}[]"), into_lists, found);
        }
        found.push((path, kind));
    }
}

/// What the tables of a list of tables hold.
pub(super) fn table_in_list(kind: &Kind) -> Option<&Table> {
    let Kind::List(member) = kind else { return None };
    let Kind::Table(table) = &**member else { return None };
    Some(table)
}

fn table_of(schema: &Value) -> Table {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(name, property)| (name.clone(), kind_of(property))).collect()
}

fn kind_of(schema: &Value) -> Kind {
    if let Some(choices) = choices_of(schema) {
        return Kind::Choice(choices);
    }
    let format = schema.get("format").and_then(Value::as_str);
    match (schema.get("type").and_then(Value::as_str), format) {
        (Some("string"), Some("jetsink-duration")) => Kind::Duration,
        (Some("string"), Some("jetsink-size")) => Kind::Size,
        (Some("string"), Some("jetsink-text-or-nothing")) => Kind::TextOrNothing,
        (Some("string"), Some("jetsink-json-object")) => Kind::JsonObject,
        (Some("string"), _) => Kind::Text,
        (Some("boolean"), _) => Kind::Boolean,
        (Some("integer"), _) => Kind::Integer(schema.get("minimum").and_then(Value::as_i64)),
        (Some("number"), _) => Kind::Number,
        (Some("array"), _) => Kind::List(Box::new(schema.get("items").map_or(Kind::Anything, kind_of))),
        (Some("object"), _) => Kind::Table(table_of(schema)),
        _ => Kind::Anything,
    }
}

fn choices_of(schema: &Value) -> Option<Vec<String>> {
    let texts = |values: &[Value]| values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    schema.get("enum").and_then(Value::as_array).map(|values| texts(values))
}

/// No format of ours writes null, so `Option` is an absent key: the schema says the same.
fn drop_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("enum") {
                choices.retain(|choice| !choice.is_null());
            }
            drop_null_alternative(object);
            object.values_mut().for_each(drop_null);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn drop_null_alternative(object: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(alternatives)) = object.get_mut("anyOf") else { return };
    alternatives.retain(|alternative| alternative.get("type").is_none_or(|name| name != "null"));
    if let [Value::Object(only)] = alternatives.as_slice() {
        let only = only.clone();
        object.remove("anyOf");
        for (name, value) in only {
            object.entry(name).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_kind_and_a_description() {
        let root = table();
        assert_eq!(root.len(), 12);
        for (path, kind) in all(&root) {
            let innermost = if let Kind::List(member) = kind { member } else { kind };
            let anything = matches!(innermost, Kind::Anything);
            assert!(!anything, "{path} has no kind");
        }
        every_property_is_described(&schema());
    }

    fn every_property_is_described(schema: &Value) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            assert!(property.get("description").is_some(), "{name} has no description");
            every_property_is_described(property);
            every_property_is_described(property.get("items").unwrap_or(&Value::Null));
        }
    }

    #[test]
    fn the_schema_has_no_null_and_denies_unknown_keys() {
        let text = schema().to_string();
        assert!(!text.contains("null"), "{text}");
        assert!(text.contains("\"additionalProperties\":false"));
    }
}
