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

/// An open bracket of a JSON text.
enum Open {
    Table(String),
    /// With the index of the member that is next or being read.
    List(String, usize),
}

/// Lines of the keys and list members of a valid JSON text.
pub(super) fn of_json(text: &str) -> ByPath {
    let lines = Lines::of(text);
    let mut found = ByPath::new();
    let mut open: Vec<Open> = Vec::new();
    let mut last_text = (0, String::new());
    // The path of the value that comes next.
    let mut next = String::new();
    let mut characters = text.char_indices();
    while let Some((offset, character)) = characters.next() {
        if let Some(Open::List(list, index)) = open.last()
            && !character.is_whitespace()
            && !",]".contains(character)
        {
            next = format!("{list}[{index}]");
            found.entry(next.clone()).or_insert_with(|| lines.at(offset));
        }
        match character {
            '"' => last_text = (offset, json_text(&mut characters)),
            ':' => {
                if let Some(Open::Table(table)) = open.last() {
                    next = join(table, &last_text.1);
                    found.insert(next.clone(), lines.at(last_text.0));
                }
            }
            ',' => {
                if let Some(Open::List(_, index)) = open.last_mut() {
                    *index += 1;
                }
            }
            '{' => open.push(Open::Table(std::mem::take(&mut next))),
            '[' => open.push(Open::List(std::mem::take(&mut next), 0)),
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

/// Lines of the keys and list members of a YAML text in block style.
pub(super) fn of_yaml(text: &str) -> ByPath {
    let mut block = Block::default();
    for (index, line) in text.lines().enumerate() {
        block.line(line, index + 1);
    }
    block.found
}

/// What stands around the current line of a YAML text.
#[derive(Default)]
struct Block {
    found: ByPath,
    around: Vec<Around>,
    /// Members so far, by the path of their list.
    members: BTreeMap<String, usize>,
}

/// A key or a list member, and the column it begins in.
struct Around {
    indent: usize,
    path: String,
    is_member: bool,
}

impl Block {
    fn line(&mut self, line: &str, number: usize) {
        let mut content = line.trim_end();
        let mut indent = 0;
        loop {
            let trimmed = content.trim_start_matches(' ');
            indent += content.len() - trimmed.len();
            content = trimmed;
            let Some(rest) =
                content.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' '))
            else {
                break;
            };
            self.member(indent, number);
            content = rest;
            indent += 1;
        }
        let Some(name) = content.strip_suffix(':').or_else(|| content.split_once(": ").map(|(name, _)| name))
        else {
            return;
        };
        let name = name.trim().trim_matches(['"', '\'']);
        if name.is_empty() || name.starts_with('#') {
            return;
        }
        self.leave(|around| around.indent >= indent);
        self.enter(join(self.parent(), name), indent, false, number);
    }

    /// A dash may stand in the very column of the key of its list.
    fn member(&mut self, indent: usize, number: usize) {
        self.leave(|around| around.indent > indent || (around.indent == indent && around.is_member));
        let list = self.parent().to_owned();
        let index = self.members.entry(list.clone()).or_default();
        let path = format!("{list}[{index}]");
        *index += 1;
        self.enter(path, indent, true, number);
    }

    fn leave(&mut self, is_left: impl Fn(&Around) -> bool) {
        while self.around.last().is_some_and(&is_left) {
            self.around.pop();
        }
    }

    fn enter(&mut self, path: String, indent: usize, is_member: bool, number: usize) {
        self.found.insert(path.clone(), number);
        self.around.push(Around { indent, path, is_member });
    }

    fn parent(&self) -> &str {
        self.around.last().map_or("", |around| &around.path)
    }
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
        let expected = [
            ("nats", 2),
            ("nats.servers", 2),
            ("nats.servers[0]", 2),
            ("nats.servers[1]", 3),
            ("nats.servers[1].x", 3),
            ("nats.na\"me", 4),
            ("sink", 5),
            ("sink.type", 6),
        ];
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
            ("nats.servers[0]", 4),
            ("nats.name", 5),
            ("sink", 6),
            ("sink.file", 7),
            ("sink.file.layout", 8),
            ("sink.type", 9),
        ];
        assert_eq!(found, expected.into_iter().map(|(path, line)| (path.to_owned(), line)).collect());
    }
    #[test]
    fn tables_in_yaml_lists_have_their_lines() {
        let text = "p:\n  rules:\n  - subject: a.>\n    keys:\n      - id: 1\n        x: 2\n      -\n        id: 2\n  \
                    # - no: x\n  - # none\n    subject: b\n  end: {a: 1}\nq:\n- - 1\n  - - r: 1\n";
        let found = of_yaml(text);
        let expected = [
            ("p", 1),
            ("p.rules", 2),
            ("p.rules[0]", 3),
            ("p.rules[0].subject", 3),
            ("p.rules[0].keys", 4),
            ("p.rules[0].keys[0]", 5),
            ("p.rules[0].keys[0].id", 5),
            ("p.rules[0].keys[0].x", 6),
            ("p.rules[0].keys[1]", 7),
            ("p.rules[0].keys[1].id", 8),
            ("p.rules[1]", 10),
            ("p.rules[1].subject", 11),
            ("p.end", 12),
            ("q", 13),
            ("q[0]", 14),
            ("q[0][0]", 14),
            ("q[0][1]", 15),
            ("q[0][1][0]", 15),
            ("q[0][1][0].r", 15),
        ];
        assert_eq!(found, expected.into_iter().map(|(path, line)| (path.to_owned(), line)).collect());
    }
}
