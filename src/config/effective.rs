//! What is in effect, and where each value comes from. Secrets never get in: they do not stand in raw values, except in
//! server URLs, which are redacted here.

use std::fmt;

use serde_json::{Map, Value, json};

use super::keys;
use super::layer::Places;
use super::problem::Place;
use super::raw::{Raw, SinkType};
use super::server_url;

/// Every key with its value and origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    entries: Vec<Entry>,
}

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its path, `delivery.batch_size` for instance.
    pub path: String,
    /// What it holds; `None` = nothing.
    pub value: Option<Value>,
    /// Where that comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Someone wrote it.
    Written(Place),
    /// It is the default.
    Default,
    /// It is read from this context of the nats command at start.
    Context(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written(place) => place.fmt(formatter),
            Self::Default => formatter.write_str("default"),
            Self::Context(name) => write!(formatter, "nats context {name}"),
        }
    }
}

/// Keys that a context gives.
const OF_CONTEXT: [&str; 4] =
    ["nats.servers", "nats.tls.ca_file", "nats.tls.certificate_file", "nats.tls.key_file"];

impl Effective {
    pub(super) fn new(raw: &Raw, places: &Places) -> Self {
        let table = keys::table();
        let tree = serde_json::to_value(raw).unwrap_or_default();
        let unused_sink = match raw.sink.kind {
            SinkType::File => "sink.stdout.",
            SinkType::Stdout => "sink.file.",
        };
        let no_dead_letters = raw.dead_letter.subject.is_none();
        // Defaults of what is not in use would read as if it were.
        let in_use = |path: &str| {
            !(path.starts_with(unused_sink) || no_dead_letters && path.starts_with("dead_letter."))
        };
        let entries = keys::leaves(&table).into_iter().map(|(path, _)| {
            let value = find(&tree, &path).map(|value| redacted(&path, value));
            let origin = match (places.get(&path), &raw.nats.context) {
                (Some(place), _) => Origin::Written(place.clone()),
                (None, Some(name)) if OF_CONTEXT.contains(&path.as_str()) => Origin::Context(name.clone()),
                (None, _) => Origin::Default,
            };
            let value = value.filter(|_| origin != Origin::Default || in_use(&path));
            Entry { path, value, origin }
        });
        Self { entries: entries.collect() }
    }

    /// Every key, sorted.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// As TOML, each value with its origin as a comment; keys that hold nothing are comments.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut current = None;
        for entry in self.by_table() {
            let (table, name) = entry.path.rsplit_once('.').unwrap_or(("", &entry.path));
            if current != Some(table) {
                let gap = if text.is_empty() { "" } else { "\n" };
                text.push_str(&format!("{gap}[{table}]\n"));
                current = Some(table);
            }
            let line = entry.value.as_ref().and_then(|value| toml_text(value, &entry.origin)).map_or_else(
                || match &entry.origin {
                    Origin::Context(_) => format!("# {name}: {}\n", entry.origin),
                    Origin::Default | Origin::Written(_) => format!("# {name}: not set\n"),
                },
                |value| format!("{name} = {value}\n"),
            );
            text.push_str(&line);
        }
        text
    }

    /// As JSON: `{"delivery": {"batch_size": {"value": 500, "origin": "default"}}}`; keys that hold nothing have the value
    /// null.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut root = Map::new();
        for entry in &self.entries {
            insert(
                &mut root,
                &entry.path,
                json!({ "value": entry.value, "origin": entry.origin.to_string() }),
            );
        }
        Value::Object(root)
    }

    /// Keys of a table before the tables within it, as TOML wants them.
    fn by_table(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| entry.path.rsplit_once('.').map_or("", |(table, _)| table));
        entries
    }
}

/// The value and its origin; a list of tables has a line for each of them.
fn toml_text(value: &Value, origin: &Origin) -> Option<String> {
    let text = |value: &Value| toml::Value::try_from(value).ok().map(|value| value.to_string());
    match value.as_array() {
        Some(tables) if tables.iter().any(Value::is_object) => {
            let lines = tables.iter().map(|table| Some(format!("    {},\n", text(table)?)));
            Some(format!("[  # {origin}\n{}]", lines.collect::<Option<String>>()?))
        }
        Some(_) | None => Some(format!("{}  # {origin}", text(value)?)),
    }
}

fn redacted(path: &str, value: &Value) -> Value {
    if path != "nats.servers" {
        return value.clone();
    }
    let servers = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    servers.map(|server| Value::from(server_url::redact(server))).collect()
}

fn find<'tree>(tree: &'tree Value, path: &str) -> Option<&'tree Value> {
    path.split('.').try_fold(tree, |tree, name| tree.get(name))
}

fn insert(table: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(table.insert(path.to_owned(), value)),
        Some((name, rest)) => {
            if let Value::Object(inner) = table.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                insert(inner, rest, value);
            }
        }
    }
}
