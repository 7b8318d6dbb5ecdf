//! The daemon's configuration, as a table that tests change by key path.

use toml::{Table, Value};

/// A configuration file in the making.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    root: Table,
}

impl Settings {
    /// Reads TOML.
    pub(crate) fn parse(text: &str) -> Self {
        Self { root: text.parse().unwrap() }
    }

    /// Sets one key, named by its path: `delivery.max_attempts`.
    pub(crate) fn set(&mut self, path: &str, value: impl Into<Value>) -> &mut Self {
        let (section, key) = path.rsplit_once('.').expect("a path names a section and a key");
        let table = section.split('.').fold(&mut self.root, |table, name| {
            table.entry(name).or_insert_with(|| Table::new().into()).as_table_mut().unwrap()
        });
        table.insert(key.to_owned(), value.into());
        self
    }

    /// Adds the sections of another; a section that both have becomes the other's.
    pub(crate) fn merge(&mut self, other: &Self) -> &mut Self {
        self.root.extend(other.root.clone());
        self
    }

    /// Takes out one key or a whole section.
    pub(crate) fn unset(&mut self, path: &str) -> &mut Self {
        let mut names = path.split('.').collect::<Vec<_>>();
        let key = names.pop().unwrap();
        let table = names.into_iter().fold(&mut self.root, |table, name| table[name].as_table_mut().unwrap());
        table.remove(key);
        self
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        self.root.to_string()
    }
}
