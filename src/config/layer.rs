//! One source of values with the places they stand at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value};

use super::problem::{Place, Problem};

/// Places by path: of keys, of tables, and of list members (`nats.servers[0]`).
pub(super) type Places = BTreeMap<String, Place>;

/// One source of values: the file, or the environment.
#[derive(Default)]
pub(super) struct Layer {
    /// The values.
    pub(super) tree: Map<String, Value>,
    /// Where they stand.
    pub(super) places: Places,
}

/// What was found wrong, and what rests on it.
#[derive(Default)]
pub(super) struct Findings {
    /// Everything that is wrong.
    pub(super) problems: Vec<Problem>,
    /// Keys whose value was left out because it is wrong: nothing more is said about them.
    pub(super) bad: BTreeSet<String>,
    /// What is allowed and yet worth a word.
    pub(super) warnings: Vec<String>,
}

impl Layer {
    /// The places of this layer, overridden by those of another: what stood within a value that the other one replaces
    /// lends its place no more.
    pub(super) fn places_overridden_by(mut self, other: Self) -> Places {
        for replaced in other.places.keys() {
            let within =
                |path: &str| path.strip_prefix(replaced.as_str()).is_some_and(|rest| rest.starts_with('['));
            self.places.retain(|path, _| !within(path));
        }
        self.places.extend(other.places);
        self.places
    }
}

impl Findings {
    /// Notes a problem of a key.
    pub(super) fn refuse(
        &mut self,
        place: Place,
        key: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.bad.insert(key.to_owned());
        self.problems.push(Problem {
            place,
            key: Some(key.to_owned()),
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// Whether the key, or a table around it, is wrong already.
    pub(super) fn is_bad(&self, key: &str) -> bool {
        ancestors(key).any(|path| self.bad.contains(path))
    }
}

/// The place of a path: its own, else that of the nearest table around it, else the file.
pub(super) fn place_of(places: &Places, file: &Path, path: &str) -> Place {
    ancestors(path)
        .find_map(|path| places.get(path).cloned())
        .unwrap_or_else(|| Place::File { path: file.to_path_buf(), line: None })
}

/// The path itself, then the tables around it, from the inside out.
pub(super) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rfind(['.', '[']).and_then(|end| path.get(..end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_table_lends_its_place() {
        let file = Path::new("c.toml");
        let at = |line| Place::File { path: file.to_path_buf(), line: Some(line) };
        let places = Places::from([("nats".into(), at(1)), ("nats.servers".into(), at(2))]);
        assert_eq!(place_of(&places, file, "nats.servers[3]"), at(2));
        assert_eq!(place_of(&places, file, "nats.tls.ca_file"), at(1));
        assert_eq!(place_of(&places, file, "sink"), Place::File { path: file.into(), line: None });
    }
}
