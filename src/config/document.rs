//! The file: TOML, JSON or YAML by its extension, read into values with their lines.

use std::io::Read as _;
use std::path::Path;

use figment::providers::{Format as _, Yaml};
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::keys::join;
use super::layer::{Findings, Layer, ancestors};
use super::lines::{self, Lines};
use super::problem::{ConfigError, Place, Problem, printable};
use super::tree::{self, Tree};

/// No configuration is larger.
const LARGEST: u64 = 1 << 20;

#[derive(Clone, Copy)]
enum Language {
    Toml,
    Json,
    Yaml,
}

/// Reads and parses the file. What is wrong with its text goes to `findings`; the layer is empty then.
///
/// # Errors
/// When there is no text to parse at all.
pub(super) fn load(path: &Path, findings: &mut Findings) -> Result<Layer, ConfigError> {
    let language = language_of(path)?;
    let text = read(path)?;
    let document = Document { path, lines: Lines::of(&text) };
    let parsed = match language {
        Language::Toml => document.toml(&text, findings),
        Language::Json => document.json(&text, findings),
        Language::Yaml => document.yaml(&text, findings),
    };
    Ok(parsed.unwrap_or_default())
}

fn language_of(path: &Path) -> Result<Language, ConfigError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Ok(Language::Toml),
        Some("json") => Ok(Language::Json),
        Some("yaml" | "yml") => Ok(Language::Yaml),
        _ => Err(ConfigError::UnknownFormat { path: path.to_path_buf() }),
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LARGEST) {
        return Err(ConfigError::TooLarge { path: path.to_path_buf(), limit: LARGEST });
    }
    // The error would hold the bytes, so it ends here.
    String::from_utf8(bytes).map_err(|_| ConfigError::NotText { path: path.to_path_buf() })
}

struct Document<'text> {
    path: &'text Path,
    lines: Lines,
}

impl Document<'_> {
    fn place(&self, line: Option<usize>) -> Place {
        Place::File { path: self.path.to_path_buf(), line }
    }

    fn syntax(&self, line: Option<usize>, what: String, findings: &mut Findings) {
        findings.problems.push(Problem {
            place: self.place(line),
            key: None,
            what,
            remedy: "correct the text; the keys were not looked at".into(),
        });
    }

    fn toml(&self, text: &str, findings: &mut Findings) -> Option<Layer> {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let line = error.span().map(|span| self.lines.at(span.start));
            self.syntax(line, format!("not valid TOML: {}", error.message()), findings);
        }
        errors.is_empty().then(|| {
            let mut layer = Layer::default();
            layer.tree = self.toml_table(table.get_ref(), "", &mut layer, findings);
            layer
        })
    }

    fn toml_table(
        &self,
        table: &DeTable<'_>,
        parent: &str,
        layer: &mut Layer,
        findings: &mut Findings,
    ) -> Map<String, Value> {
        let mut values = Map::new();
        for (name, value) in table {
            let path = join(parent, name.get_ref());
            let line = self.lines.at(name.span().start);
            layer.places.insert(path.clone(), self.place(Some(line)));
            if let Some(value) = self.toml_value(value, &path, layer, findings) {
                values.insert(name.get_ref().to_string(), value);
            }
        }
        values
    }

    /// The value; nothing if no key could take it.
    fn toml_value(
        &self,
        spanned: &Spanned<DeValue<'_>>,
        path: &str,
        layer: &mut Layer,
        findings: &mut Findings,
    ) -> Option<Value> {
        let line = self.lines.at(spanned.span().start);
        let mut refuse = |what, remedy| {
            findings.refuse(self.place(Some(line)), &printable(path), what, remedy);
            None
        };
        match spanned.get_ref() {
            DeValue::String(text) => Some(Value::String(text.to_string())),
            DeValue::Integer(number) => Some(integer(number)),
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Some(Value::from(number)),
                Ok(_) | Err(_) => refuse("is not a finite number", "write a number such as 1.5"),
            },
            DeValue::Boolean(value) => Some(Value::Bool(*value)),
            DeValue::Datetime(_) => refuse("is a date, which no key takes", "write text in quotes"),
            DeValue::Array(members) => {
                let mut values = Vec::new();
                for (index, member) in members.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    let line = self.lines.at(member.span().start);
                    layer.places.insert(path.clone(), self.place(Some(line)));
                    values.extend(self.toml_value(member, &path, layer, findings));
                }
                Some(Value::Array(values))
            }
            DeValue::Table(table) => Some(Value::Object(self.toml_table(table, path, layer, findings))),
        }
    }

    fn json(&self, text: &str, findings: &mut Findings) -> Option<Layer> {
        match serde_json::from_str::<Tree>(text) {
            Ok(tree) => self.layer(tree, &lines::of_json(text), findings),
            Err(error) => {
                let what =
                    if error.is_eof() { "not valid JSON: it ends too early" } else { "not valid JSON" };
                self.syntax(Some(error.line()), what.into(), findings);
                None
            }
        }
    }

    fn yaml(&self, text: &str, findings: &mut Findings) -> Option<Layer> {
        match Yaml::from_str::<Tree>(text) {
            Ok(tree) => self.layer(tree, &lines::of_yaml(text), findings),
            Err(error) => {
                let line = error.location().map(|location| location.line());
                self.syntax(line, "not valid YAML, or a key is not text".into(), findings);
                None
            }
        }
    }

    fn layer(&self, tree: Tree, lines: &lines::ByPath, findings: &mut Findings) -> Option<Layer> {
        let mut duplicates = Vec::new();
        let value = tree::into_value(tree, "", &mut duplicates);
        for path in duplicates {
            let place = self.place(lines.get(&path).copied());
            findings.refuse(place, &printable(&path), "the key stands there twice", "keep one of them");
        }
        let tree = match value {
            Value::Object(tree) => tree,
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                self.syntax(Some(1), "the text is not a table of sections".into(), findings);
                return None;
            }
        };
        let mut layer = Layer { tree, ..Layer::default() };
        tree::for_each_path(&layer.tree, "", &mut |path| {
            let line = ancestors(path).find_map(|path| lines.get(path).copied());
            layer.places.insert(path.to_owned(), self.place(line));
        });
        Some(layer)
    }
}

/// A number beyond 64 bits becomes a float, which no whole-number key takes.
fn integer(number: &DeInteger<'_>) -> Value {
    let (digits, radix) = (number.as_str(), number.radix());
    i64::from_str_radix(digits, radix)
        .map(Value::from)
        .or_else(|_| u64::from_str_radix(digits, radix).map(Value::from))
        .unwrap_or_else(|_| Value::from(f64::MAX))
}
