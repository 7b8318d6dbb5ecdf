//! Looks at every value of a layer before serde does: serde stops at the first thing that is wrong, and quotes values.
//!
//! What is wrong is reported and taken out, so that what remains can be read and checked further in the same run.

use std::path::Path;

use serde_json::{Map, Value};

use super::keys::{Kind, Table, join};
use super::layer::{Findings, Layer, Places, place_of};
use super::problem::printable;
use super::{duration, nearest, size};

/// Inspects a layer; `file` names the configuration in messages about values without a place.
pub(super) fn inspect(layer: &mut Layer, root: &Table, file: &Path, findings: &mut Findings) {
    let Layer { tree, places } = layer;
    Inspection { root, places, file, findings }.table(tree, root, "");
}

struct Inspection<'layer> {
    root: &'layer Table,
    places: &'layer Places,
    file: &'layer Path,
    findings: &'layer mut Findings,
}

/// What is wrong with one value.
struct Wrong {
    what: String,
    remedy: String,
}

impl Inspection<'_> {
    fn table(&mut self, values: &mut Map<String, Value>, table: &Table, parent: &str) {
        values.retain(|name, value| {
            let path = join(parent, name);
            let Some(kind) = table.get(name) else {
                let remedy = nearest::remedy(&path, self.root);
                self.refuse(&path, "unknown key".into(), remedy);
                return false;
            };
            self.value(value, kind, &path)
        });
    }

    /// Whether the value may stay.
    fn value(&mut self, value: &mut Value, kind: &Kind, path: &str) -> bool {
        match (kind, value) {
            (Kind::Table(table), Value::Object(values)) => {
                self.table(values, table, path);
                true
            }
            (Kind::List(member), Value::Array(values)) => {
                let mut fine = true;
                for (index, value) in values.iter_mut().enumerate() {
                    fine &= self.value(value, member, &format!("{path}[{index}]"));
                }
                if !fine {
                    self.findings.bad.insert(path.to_owned());
                }
                fine
            }
            (kind, value) => match leaf(value, kind) {
                Ok(()) => true,
                Err(Wrong { what, remedy }) => {
                    self.refuse(path, what, remedy);
                    false
                }
            },
        }
    }

    fn refuse(&mut self, path: &str, what: String, remedy: String) {
        let place = place_of(self.places, self.file, path);
        self.findings.refuse(place, &printable(path), what, remedy);
    }
}

fn leaf(value: &Value, kind: &Kind) -> Result<(), Wrong> {
    match (kind, value) {
        (Kind::Anything, _) | (Kind::Boolean, Value::Bool(_)) | (Kind::Number, Value::Number(_)) => Ok(()),
        (_, Value::Null) => Err(wrong("has no value", "give it one, or remove the key")),
        (Kind::Text, Value::String(text)) => text_is_fine(text),
        (Kind::TextOrNothing, Value::String(text)) => is_one_line(text),
        // Read later, by those who know what may stand in it.
        (Kind::JsonObject, Value::String(_)) => Ok(()),
        (Kind::JsonObject, Value::Object(_)) => Err(wrong(
            "takes a JSON object as text, found a table",
            "write it as text: '{\"key\": \"value\"}'",
        )),
        (Kind::Choice(choices), Value::String(text)) => choice(text, choices),
        (Kind::Integer(least), Value::Number(number)) => integer(number, *least),
        (Kind::Duration, Value::String(text)) => duration::parse(text)
            .map(drop)
            .map_err(|error| wrong(&quantity(text, &error), "write it as \"30s\", \"500ms\" or \"1h30m\"")),
        (Kind::Size, Value::String(text)) => size::parse(text).map(drop).map_err(|error| {
            wrong(&quantity(text, &error), "write it as \"512 B\", \"64 KiB\" or \"8 MiB\"")
        }),
        (Kind::Duration, Value::Number(number)) => {
            let remedy = format!("the unit is missing: write \"{number}s\" if seconds are meant");
            Err(wrong("takes a duration as text, found a number", &remedy))
        }
        (Kind::Size, Value::Number(number)) => {
            let meant = number.as_u64().map_or_else(|| format!("{number} B"), size::format);
            let remedy = format!("the unit is missing: write \"{meant}\" if bytes are meant");
            Err(wrong("takes a size as text, found a number", &remedy))
        }
        (kind, value) => {
            let (wanted, example) = takes(kind);
            let what = format!("takes {wanted}, found {}", found(value));
            Err(wrong(&what, &format!("write it as {example}")))
        }
    }
}

fn wrong(what: &str, remedy: &str) -> Wrong {
    Wrong { what: what.to_owned(), remedy: remedy.to_owned() }
}

fn text_is_fine(text: &str) -> Result<(), Wrong> {
    if text.trim().is_empty() {
        return Err(wrong("is empty", "give it a value, or remove the key"));
    }
    is_one_line(text)
}

fn is_one_line(text: &str) -> Result<(), Wrong> {
    if text.contains(char::is_control) {
        return Err(wrong("holds a control character", "remove it; is it one line?"));
    }
    Ok(())
}

fn choice(text: &str, choices: &[String]) -> Result<(), Wrong> {
    if choices.iter().any(|choice| choice == text) {
        return Ok(());
    }
    let listed: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
    let remedy = nearest::choice(text, choices)
        .map_or_else(|| "choose one of them".into(), |nearest| format!("did you mean \"{nearest}\"?"));
    Err(wrong(&format!("is not one of {}", listed.join(", ")), &remedy))
}

fn integer(number: &serde_json::Number, least: Option<i64>) -> Result<(), Wrong> {
    let whole = number.is_i64() || (number.is_u64() && least.is_some());
    if !whole {
        return Err(wrong("takes a whole number of 64 bits", "write digits only"));
    }
    if let (Some(least), Some(value)) = (least, number.as_i64())
        && value < least
    {
        return Err(wrong(&format!("{value} is below {least}"), &format!("write {least} or more")));
    }
    Ok(())
}

/// Quotes a quantity only when it looks like one: anything else might be a secret in the wrong place.
fn quantity(text: &str, error: &dyn std::error::Error) -> String {
    let digits_first = text.starts_with(|first: char| first.is_ascii_digit());
    let plain = |other: char| other.is_ascii_digit() || "dhmsunkKMGTiB. ".contains(other);
    if digits_first && text.len() <= 24 && text.chars().all(plain) {
        format!("\"{text}\": {error}")
    } else {
        error.to_string()
    }
}

const fn takes(kind: &Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Text | Kind::TextOrNothing | Kind::Choice(_) => ("text", "text in quotes"),
        Kind::JsonObject => ("a JSON object as text", "text such as '{\"key\": \"value\"}'"),
        Kind::Boolean => ("true or false", "true or false, without quotes"),
        Kind::Integer(_) => ("a whole number", "a whole number, without quotes"),
        Kind::Number => ("a number", "a number, without quotes"),
        Kind::Duration => ("a duration", "text such as \"30s\""),
        Kind::Size => ("a size", "text such as \"8 MiB\""),
        Kind::List(_) => ("a list", "a list in brackets"),
        Kind::Table(_) => ("a table", "a table of keys"),
        Kind::Anything => ("anything", "anything"),
    }
}

const fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}
