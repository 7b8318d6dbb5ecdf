//! Lines of keys. TOML tells the spans itself; for JSON and YAML these scanners find the lines of ordinary texts. A path
//! that they do not find has no line in messages, nothing else.

use std::collections::BTreeMap;

use super::keys::join;

/// The line of each path.
pub(super) type ByPath = BTreeMap<String, usize>;

/// Offsets at which lines begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(offset, _)| offset + 1)).collect())
    }

    /// The line of an offset, from 1.
    pub(super) fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }
}

/// Lines of the keys of a valid JSON text.
pub(super) fn of_json(text: &str) -> ByPath {
    let lines = Lines::of(text);
    let mut found = ByPath::new();
    // One entry per open bracket: the path of the table, or `None` in a list.
    let mut open: Vec<Option<String>> = Vec::new();
    let mut last_text = (0, String::new());
    let mut next_table = String::new();
    let mut characters = text.char_indices();
    while let Some((offset, character)) = characters.next() {
        match character {
            '"' => last_text = (offset, json_text(&mut characters)),
            ':' => {
                if let Some(Some(parent)) = open.last() {
                    next_table = join(parent, &last_text.1);
                    found.insert(next_table.clone(), lines.at(last_text.0));
                }
            }
            '{' => {
                let inside_list = matches!(open.last(), Some(None));
                open.push((!inside_list).then(|| std::mem::take(&mut next_table)));
            }
            '[' => open.push(None),
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
    }
    found
}

fn json_text(characters: &mut std::str::CharIndices<'_>) -> String {
    let mut text = String::new();
    while let Some((_, character)) = characters.next() {
        match character {
            '"' => break,
            '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => text.push(character),
        }
    }
    text
}

/// Lines of the keys of a YAML text in block style.
pub(super) fn of_yaml(text: &str) -> ByPath {
    let mut found = ByPath::new();
    let mut around: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let Some((name, _)) = content.split_once(':') else { continue };
        let name = name.trim().trim_matches(['"', '\'']);
        if name.is_empty() || name.starts_with(['#', '-']) {
            continue;
        }
        while around.last().is_some_and(|(other, _)| *other >= indent) {
            around.pop();
        }
        let path = join(around.last().map_or("", |(_, path)| path), name);
        found.insert(path.clone(), index + 1);
        around.push((indent, path));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_lines() {
        let lines = Lines::of("a\nbc\n\nd");
        let found: Vec<_> = (0..7).map(|offset| lines.at(offset)).collect();
        assert_eq!(found, [1, 1, 2, 2, 2, 3, 4]);
    }

    #[test]
    fn json_keys_have_their_lines() {
        let text = "{\n \"nats\": {\"servers\": [\"a:b{\",\n {\"x\": 1}],\n \"na\\\"me\": 1 },\n \"sink\": {\n \"type\": 1}}";
        let found = of_json(text);
        let expected = [("nats", 2), ("nats.servers", 2), ("nats.na\"me", 4), ("sink", 5), ("sink.type", 6)];
        assert_eq!(found, expected.into_iter().map(|(path, line)| (path.to_owned(), line)).collect());
    }

    #[test]
    fn yaml_keys_have_their_lines() {
        let text =
            "# c: d\nnats:\n  servers:\n    - a:1\n  name: x\nsink:\n  file:\n    layout: y\n  type: z\n";
        let found = of_yaml(text);
        let expected = [
            ("nats", 2),
            ("nats.servers", 3),
            ("nats.name", 5),
            ("sink", 6),
            ("sink.file", 7),
            ("sink.file.layout", 8),
            ("sink.type", 9),
        ];
        assert_eq!(found, expected.into_iter().map(|(path, line)| (path.to_owned(), line)).collect());
    }
}
