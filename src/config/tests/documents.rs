//! The files in `config/` and docs/configuration.md say what the code does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::keys::{self, Kind};
use super::super::layer::Findings;
use super::super::{document, inspect};
use super::{Environment, load};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The values at a path; `rules[].subject` has one for each rule that sets it.
fn find<'tree>(tree: &'tree Value, path: &str) -> Vec<&'tree Value> {
    path.split('.').fold(vec![tree], |trees, name| {
        let found = trees.into_iter().filter_map(|tree| tree.get(name.trim_end_matches("[]")));
        match name.strip_suffix("[]") {
            None => found.collect(),
            Some(_) => found.filter_map(Value::as_array).flatten().collect(),
        }
    })
}

/// The default of a key as the schema states it.
fn default_of(path: &str) -> Option<Value> {
    let schema = keys::schema();
    let property = path.split('.').try_fold(&schema, |table, name| {
        let property = table.get("properties")?.get(name.trim_end_matches("[]"))?;
        if name.ends_with("[]") { property.get("items") } else { Some(property) }
    });
    property.unwrap().get("default").cloned()
}

#[test]
fn every_file_in_config_loads_and_every_sink_has_a_profile() {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(repository().join("config")).unwrap() {
        let path = entry.unwrap().path();
        // Messages to judge by the file of the same name.
        if path.file_stem().unwrap().to_str().unwrap().ends_with("-cases") {
            continue;
        }
        let loaded = load(&path, &Environment::default());
        assert!(loaded.is_ok(), "{}", loaded.unwrap_err());
        names.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    let table = keys::table();
    let Some(Kind::Table(sink)) = table.get("sink") else { panic!("no table of sinks") };
    let Some(Kind::Choice(sinks)) = sink.get("type") else { panic!("no choice of sinks") };
    for name in sinks.iter().map(String::as_str).chain(["jetsink"]) {
        assert!(names.contains(name), "config/{name}.toml is missing");
    }
}

/// The complete file with every key that it shows set.
fn complete() -> String {
    let text = std::fs::read_to_string(repository().join("config/jetsink.toml")).unwrap();
    let uncommented = text.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_lowercase() || first == '[') => rest,
        _ => line,
    });
    uncommented.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_complete_file_shows_every_key_with_its_default() {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("complete.toml");
    std::fs::write(&path, complete()).unwrap();
    let mut findings = Findings::default();
    let mut layer = document::load(&path, &mut findings).unwrap();
    let table = keys::table();
    inspect::inspect(&mut layer, &table, &path, &mut findings);
    assert_eq!(findings.problems, []);
    let tree = Value::Object(layer.tree);
    for (path, kind) in keys::all(&table) {
        let shown = find(&tree, &path);
        assert!(!shown.is_empty(), "config/jetsink.toml does not show {path}");
        // Rules are examples.
        let is_of_rules = path.contains("[]") || keys::table_in_list(kind).is_some();
        if let Some(default) = default_of(&path).filter(|_| !is_of_rules) {
            assert_eq!(shown, [&default], "config/jetsink.toml shows another default of {path}");
        }
    }
}

#[test]
fn the_page_lists_every_key_with_its_default_and_no_other() {
    let page = std::fs::read_to_string(repository().join("docs/configuration.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let table = keys::table();
    let known = keys::all(&table);
    for (path, _) in &known {
        let row = rows.iter().find(|row| row.first() == Some(&format!("`{path}`").as_str()));
        let Some([_, _, default, meaning]) = row.map(Vec::as_slice) else {
            panic!("docs/configuration.md has no row of four columns for {path}");
        };
        assert!(!meaning.is_empty(), "{path} has no meaning");
        match default_of(path) {
            Some(value) => assert_eq!(*default, format!("`{value}`"), "{path}"),
            None => assert!(["required", "not set"].contains(default), "{path}: {default}"),
        }
    }
    assert_eq!(rows.len(), known.len(), "docs/configuration.md lists keys that are not there, or one twice");
}
