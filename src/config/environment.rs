//! The environment: `JETSINK_DELIVERY__BATCH_SIZE=100` overrides `delivery.batch_size`.
//!
//! The kind of the key says how the text is read, so a durable named `123` stays a text. Only variables with a double
//! underscore are settings: container platforms set `JETSINK_PORT` and the like for a service of that name.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde_json::{Map, Value};

use super::keys::{self, Kind, Table};
use super::layer::{Findings, Layer};
use super::nearest;
use super::problem::{Place, printable};

const PREFIX: &str = "JETSINK_";
const INSTANCE: &str = "JETSINK_INSTANCE";

/// What a configuration takes from the process it runs in.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    host_name: Option<String>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Environment { .. }")
    }
}

impl Environment {
    /// That of this process; read once.
    #[must_use]
    pub fn of_process() -> Self {
        let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .or_else(|_| std::fs::read_to_string("/etc/hostname"))
            .map(|name| name.trim().to_owned());
        Self { variables: std::env::vars_os().collect(), host_name: host_name.ok() }
    }

    /// One that holds just these variables, and no host name.
    pub fn with<'text>(variables: impl IntoIterator<Item = (&'text str, &'text str)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.collect(), host_name: None }
    }

    /// What `{instance}` stands for: `JETSINK_INSTANCE`, else the host name.
    pub(super) fn instance(&self) -> Option<String> {
        self.variables
            .get(&OsString::from(INSTANCE))
            .map_or_else(|| self.host_name.clone(), |value| value.to_str().map(str::to_owned))
    }

    /// The settings among the variables.
    pub(super) fn layer(&self, table: &Table, findings: &mut Findings) -> Layer {
        let mut layer = Layer::default();
        for (name, value) in &self.variables {
            let Some(name) = name.to_str() else { continue };
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            let place = Place::Environment(printable(name));
            let path = rest.to_ascii_lowercase().replace("__", ".");
            if !rest.contains("__") {
                warn_of_single_underscores(name, &path, table, findings);
                continue;
            }
            let Some(kind) = find(table, &path) else {
                let remedy = nearest::remedy(&path, table);
                findings.refuse(place, &printable(&path), "unknown key", remedy);
                continue;
            };
            let read = value.to_str().ok_or_else(|| wrong("is not UTF-8 text", "set text"));
            match read.and_then(|text| value_of(text, kind)) {
                Ok(value) if layer.places.contains_key(&path) => {
                    drop(value);
                    findings.refuse(place, &path, "is set by two variables", "unset one of them");
                }
                Ok(value) => {
                    insert(&mut layer.tree, &path, value);
                    layer.places.insert(path, place);
                }
                Err(Wrong { what, remedy }) => findings.refuse(place, &path, what, remedy),
            }
        }
        layer
    }
}

/// Why a variable's text is not a value of its key.
struct Wrong {
    what: &'static str,
    remedy: &'static str,
}

const fn wrong(what: &'static str, remedy: &'static str) -> Wrong {
    Wrong { what, remedy }
}

fn value_of(text: &str, kind: &Kind) -> Result<Value, Wrong> {
    match kind {
        Kind::Text
        | Kind::TextOrNothing
        | Kind::JsonObject
        | Kind::Choice(_)
        | Kind::Duration
        | Kind::Size => Ok(Value::from(text)),
        Kind::Boolean => text
            .parse::<bool>()
            .map(Value::from)
            .map_err(|_| wrong("takes true or false", "write true or false")),
        Kind::Integer(_) => text
            .parse::<i64>()
            .map(Value::from)
            .or_else(|_| text.parse::<u64>().map(Value::from))
            .map_err(|_| wrong("takes a whole number", "write digits only")),
        Kind::Number => text
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::from)
            .ok_or_else(|| wrong("takes a number", "write a number such as 1.5")),
        Kind::List(member) if matches!(**member, Kind::Text | Kind::Duration) => {
            let members = text.split(',').map(|member| Value::from(member.trim()));
            Ok(if text.trim().is_empty() { Value::Array(Vec::new()) } else { members.collect() })
        }
        Kind::List(_) => Err(wrong("cannot be set by a variable", "set it in the file")),
        Kind::Table(_) | Kind::Anything => {
            Err(wrong("cannot be set by a variable", "set it in the file, or set one of its keys"))
        }
    }
}

fn find<'table>(table: &'table Table, path: &str) -> Option<&'table Kind> {
    match path.split_once('.') {
        None => table.get(path),
        Some((name, rest)) => match table.get(name)? {
            Kind::Table(inner) => find(inner, rest),
            Kind::Text
            | Kind::TextOrNothing
            | Kind::JsonObject
            | Kind::Choice(_)
            | Kind::Boolean
            | Kind::Integer(_)
            | Kind::Number
            | Kind::Duration
            | Kind::Size
            | Kind::List(_)
            | Kind::Anything => None,
        },
    }
}

fn insert(tree: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(tree.insert(path.to_owned(), value)),
        Some((name, rest)) => {
            let inner = tree.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

fn warn_of_single_underscores(name: &str, path: &str, table: &Table, findings: &mut Findings) {
    let meant = keys::leaves(table).into_iter().find(|(leaf, _)| leaf.replace('.', "_") == path);
    if let Some((leaf, _)) = meant {
        findings
            .warnings
            .push(format!("environment variable {name} is not used; for {leaf} set {}", variable_of(&leaf)));
    }
}

/// The variable that sets a key.
pub(super) fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "__").to_ascii_uppercase())
}
