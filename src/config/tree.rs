//! Values of JSON and YAML as they were written, duplicate keys included: the usual readers keep the last one in silence.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::keys::join;

/// A value in which a table may hold a key twice.
pub(super) enum Tree {
    Leaf(Value),
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
}

/// The value with the last of each duplicate, and the paths of the duplicates.
pub(super) fn into_value(tree: Tree, path: &str, duplicates: &mut Vec<String>) -> Value {
    match tree {
        Tree::Leaf(value) => value,
        Tree::List(members) => {
            let members = members.into_iter().enumerate();
            Value::Array(
                members
                    .map(|(index, member)| into_value(member, &format!("{path}[{index}]"), duplicates))
                    .collect(),
            )
        }
        Tree::Table(entries) => {
            let mut table = Map::new();
            for (name, tree) in entries {
                let path = join(path, &name);
                let value = into_value(tree, &path, duplicates);
                if table.insert(name, value).is_some() {
                    duplicates.push(path);
                }
            }
            Value::Object(table)
        }
    }
}

/// Calls with the path of every key and of every member of a list.
pub(super) fn for_each_path(table: &Map<String, Value>, parent: &str, call: &mut impl FnMut(&str)) {
    for (name, value) in table {
        each_path_from(value, &join(parent, name), call);
    }
}

fn each_path_from(value: &Value, path: &str, call: &mut impl FnMut(&str)) {
    call(path);
    match value {
        Value::Object(inner) => for_each_path(inner, path, call),
        Value::Array(members) => {
            for (index, member) in members.iter().enumerate() {
                each_path_from(member, &format!("{path}[{index}]"), call);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::from(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::from(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::from(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::from(value)))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(member) = members.next_element()? {
            list.push(member);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut table = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            table.push(entry);
        }
        Ok(Tree::Table(table))
    }
}
