//! The house rules, executable: who may import whom, how long a file may be, what must not stand anywhere.

#[cfg(test)]
mod rules {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Lines of one source file, its tests left out.
    const FILE_LINES: usize = 500;
    /// Lines of the seal, its tests left out: what one person can hold in mind. It was 800 on paper; the ports, with every
    /// promise of theirs written beside them, and the turns of writes brought it to 870; the metadata of the gate and the messages that no client can be handed to
    /// 1046.
    const SEAL_LINES: usize = 1050;

    /// Rooms that everybody may import; they import one another and nothing else.
    const GROUND: &[&str] = &["envelope", "reason", "clock", "secret", "subject", "json", "failpoint"];

    /// Who may import whom, beyond the ground and itself (docs/architecture.md). `None`: whatever it likes.
    fn may_import(room: &str) -> Option<&'static [&'static str]> {
        match room {
            ground if GROUND.contains(&ground) => Some(&[]),
            "disposition" => Some(&[]),
            "delivery" => Some(&["disposition"]),
            "checks" | "dead_letter" | "sinks" => Some(&["disposition", "delivery"]),
            "nats" => Some(&["disposition", "delivery", "dead_letter", "preflight"]),
            "telemetry" | "preflight" => Some(&[]),
            "runner" => Some(&["disposition", "delivery", "telemetry"]),
            // Only settings and what stands in them, see `config_imports_settings_only`.
            "config" => {
                Some(&["disposition", "checks", "dead_letter", "nats", "runner", "sinks", "telemetry"])
            }
            "watch" => Some(&["preflight"]),
            "testing" => Some(&["disposition", "delivery"]),
            "app" | "cli" | "main" | "lib" => None,
            _ => panic!("src/{room} is not in the map of rooms: say in tests/tidy.rs what it may import"),
        }
    }

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    /// Every file below a folder of the repository, by its path from the root.
    fn files(folder: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![root().join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().map(Result::unwrap) {
                let name = entry.file_name();
                if name == "target" || name == ".git" {
                    continue;
                }
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    found.push(entry.path().strip_prefix(root()).unwrap().to_owned());
                }
            }
        }
        found.sort_unstable();
        found
    }

    fn rust_files(folder: &str) -> Vec<PathBuf> {
        files(folder).into_iter().filter(|path| path.extension().is_some_and(|own| own == "rs")).collect()
    }

    fn markdown_files() -> Vec<PathBuf> {
        files("").into_iter().filter(|path| path.extension().is_some_and(|own| own == "md")).collect()
    }

    fn text(path: &Path) -> String {
        String::from_utf8_lossy(&fs::read(root().join(path)).unwrap()).into_owned()
    }

    /// A file without its test modules, which stand at its end.
    fn without_tests(path: &Path) -> String {
        if path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs"))) {
            return String::new();
        }
        let lines = text(path);
        let own = lines.lines().take_while(|line| line.trim_end() != "#[cfg(test)]");
        own.collect::<Vec<_>>().join("\n")
    }

    /// The same without comments, so that words in them do not look like code.
    fn code(path: &Path) -> String {
        let own = without_tests(path);
        let lines = own.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The module path of a source file: `src/sinks/file/mod.rs` is `sinks`, `file`.
    fn module(path: &Path) -> Vec<String> {
        let parts = path.strip_prefix("src").unwrap().with_extension("");
        let mut parts = parts.iter().map(|part| part.to_str().unwrap().to_owned()).collect::<Vec<_>>();
        if parts.last().is_some_and(|last| last == "mod") {
            parts.pop();
        }
        parts
    }

    /// Every path that a file's code names from the root of the crate, `super` resolved.
    fn imports(path: &Path) -> Vec<Vec<String>> {
        let code = code(path);
        let own = module(path);
        let mut found = Vec::new();
        for (start, _) in code.match_indices("crate::") {
            grow(code.split_at(start + "crate::".len()).1, &[], &mut found);
        }
        for (start, _) in code.match_indices("super::") {
            let (before, mut rest) = code.split_at(start);
            if before.ends_with("super::") || before.ends_with("pub(in ") {
                continue;
            }
            let mut base = own.clone();
            while let Some(further) = rest.strip_prefix("super::") {
                base.pop();
                rest = further;
            }
            grow(rest, &base, &mut found);
        }
        found
    }

    /// Reads one tree of paths (`a::{b, c::d}`) and adds each path with its prefix; gives what follows the tree.
    fn grow<'a>(rest: &'a str, prefix: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
        let mut rest = rest.trim_start();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            loop {
                rest = grow(rest, prefix, found).trim_start();
                match rest.strip_prefix(',') {
                    Some(further) if !further.trim_start().starts_with('}') => rest = further,
                    Some(further) => return further.trim_start().strip_prefix('}').unwrap_or(further),
                    None => return rest.strip_prefix('}').unwrap_or(rest),
                }
            }
        }
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let (name, further) = rest.split_at(end);
        let mut path = prefix.to_vec();
        path.push(name.to_owned());
        match further.strip_prefix("::") {
            Some(deeper) if !deeper.starts_with('<') => grow(deeper, &path, found),
            _ => {
                found.push(path);
                further
            }
        }
    }

    fn fail_with(broken: &[String], rule: &str) {
        assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
    }

    #[test]
    fn paths_are_read_as_the_compiler_reads_them() {
        let mut found = Vec::new();
        grow("{a::{B, c::D}, e, f::g::H}; rest", &["x".to_owned()], &mut found);
        let found = found.iter().map(|path| path.join("::")).collect::<Vec<_>>();
        assert_eq!(found, ["x::a::B", "x::a::c::D", "x::e", "x::f::g::H"]);
    }

    #[test]
    fn rooms_import_only_what_they_may() {
        let mut broken = Vec::new();
        for path in rust_files("src") {
            let own = module(&path);
            let Some(allowed) = may_import(&own[0]) else { continue };
            let rooms =
                imports(&path).into_iter().map(|mut import| import.remove(0)).collect::<BTreeSet<_>>();
            for room in rooms {
                let is_room = root().join("src").join(&room).is_dir()
                    || root().join("src").join(&room).with_extension("rs").is_file();
                let fits = room == own[0] || GROUND.contains(&&*room) || allowed.contains(&&*room);
                if is_room && !fits {
                    broken.push(format!("{}: {} imports {room}", path.display(), own[0]));
                }
            }
        }
        fail_with(&broken, "an import that the map of rooms does not allow");
    }

    #[test]
    fn a_sink_imports_no_other_sink() {
        let mut broken = Vec::new();
        for path in rust_files("src/sinks") {
            let own = module(&path);
            let Some(sink) = own.get(1) else { continue };
            if !root().join("src/sinks").join(sink).is_dir() {
                continue;
            }
            for import in imports(&path) {
                let [room, other, ..] = &import[..] else { continue };
                if room == "sinks" && other != sink && root().join("src/sinks").join(other).is_dir() {
                    broken.push(format!("{}: {}", path.display(), import.join("::")));
                }
            }
        }
        fail_with(&broken, "a sink that imports another sink");
    }

    /// The public types of every `settings.rs` of a room, and what stands in them.
    fn settings_of(room: &str) -> BTreeSet<String> {
        let files = rust_files(&format!("src/{room}"));
        let files = files.into_iter().filter(|path| path.ends_with("settings.rs"));
        let mut types = BTreeSet::from(["PayloadMode", "Record", "Backoff"].map(str::to_owned));
        for file in files {
            for line in without_tests(&file).lines() {
                let name = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "));
                types
                    .extend(name.and_then(|name| name.split([' ', '(', '{', ';']).next()).map(str::to_owned));
            }
        }
        types
    }

    #[test]
    fn config_imports_settings_only() {
        let mut broken = Vec::new();
        for path in rust_files("src/config") {
            for import in imports(&path) {
                let room = &import[0];
                if room == "config" || !may_import("config").unwrap().contains(&&**room) {
                    continue;
                }
                // `use crate::checks;` brings in names that the code then spells `checks::SizeLimits`.
                let code = code(&path);
                let prefix = format!("{room}::");
                let spelled = code.split(&prefix).skip(1);
                let spelled =
                    spelled.filter_map(|rest| rest.split(|sign: char| !sign.is_alphanumeric()).next());
                let types = settings_of(room);
                let is_setting = |name: &str| types.contains(name);
                let fits = match import.iter().skip(1).find(|part| part.starts_with(char::is_uppercase)) {
                    Some(name) => is_setting(name),
                    None => import.len() == 1 && spelled.into_iter().all(is_setting),
                };
                if !fits {
                    broken.push(format!("{}: {}", path.display(), import.join("::")));
                }
            }
        }
        fail_with(&broken, "config imports something that is not a setting");
    }

    #[test]
    fn only_the_pull_loop_and_the_test_model_make_deliveries() {
        // The conformance suite of the sinks is compiled for tests only.
        let made_for_tests = ["src/testing", "src/sinks/conformance.rs"];
        let allowed = |path: &Path| {
            // A replay is a delivery by which nothing can be settled.
            ["src/nats/pulls/pull.rs", "src/nats/streams/replay.rs"].iter().any(|own| path == Path::new(own))
                || made_for_tests.iter().any(|own| path.starts_with(own))
        };
        let makers = rust_files("src").into_iter().filter(|path| code(path).contains("Received::new("));
        let broken = makers.filter(|path| !allowed(path)).map(|path| path.display().to_string());
        fail_with(
            &broken.collect::<Vec<_>>(),
            "a delivery made outside nats/pulls/, nats/streams/replay.rs and testing/",
        );
        let makers = rust_files("src").into_iter();
        let makers = makers.filter(|path| code(path).contains("Received::from_stream("));
        let makers = makers.map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(
            makers,
            ["src/nats/advisories/given_up.rs", "src/nats/isolation/search.rs"],
            "what is read from a stream comes from the search and from advisories alone"
        );
    }

    #[test]
    fn only_nats_knows_the_client_library() {
        let others = rust_files("src").into_iter().filter(|path| !path.starts_with("src/nats"));
        let broken = others.filter(|path| code(path).contains("async_nats"));
        fail_with(
            &broken.map(|path| path.display().to_string()).collect::<Vec<_>>(),
            "async_nats outside nats/",
        );
    }

    #[test]
    fn the_ground_stands_on_the_standard_library() {
        let foreign = ["serde", "tokio", "async_nats", "tracing", "serde_json", "prometheus", "axum"];
        let mut broken = Vec::new();
        for path in rust_files("src") {
            if !["envelope", "reason", "clock"].contains(&&*module(&path)[0]) {
                continue;
            }
            let code = code(&path);
            broken.extend(
                foreign
                    .iter()
                    .filter(|name| code.contains(&format!("{name}::")))
                    .map(|name| format!("{}: {name}", path.display())),
            );
        }
        fail_with(&broken, "envelope, reason and clock stand on std and bytes");
    }

    #[test]
    fn files_are_short() {
        let mut broken = Vec::new();
        for path in rust_files("src").into_iter().chain(rust_files("tests")) {
            let own = if path.starts_with("src") { without_tests(&path) } else { text(&path) };
            let lines = own.lines().count();
            if lines > FILE_LINES {
                broken.push(format!("{}: {lines} lines", path.display()));
            }
        }
        fail_with(&broken, &format!("a file of more than {FILE_LINES} lines"));
    }

    #[test]
    fn the_seal_is_flat_and_small() {
        let files = rust_files("src/delivery");
        let deep = files.iter().filter(|path| path.components().count() > 3);
        fail_with(
            &deep.map(|path| path.display().to_string()).collect::<Vec<_>>(),
            "src/delivery stays flat",
        );
        let lines = files.iter().map(|path| without_tests(path).lines().count()).sum::<usize>();
        assert!(lines < SEAL_LINES, "src/delivery has {lines} lines without tests, {SEAL_LINES} at the most");
    }

    #[test]
    fn names_say_what_things_are() {
        let empty = ["manager", "util", "helper"];
        let mut broken = Vec::new();
        for path in rust_files("src").into_iter().chain(rust_files("tests")) {
            let text = text(&path);
            let modules = text.lines().filter_map(|line| line.trim_start().split_once("mod "));
            let modules = modules.filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
            let names = modules.map(|(_, name)| name.to_owned()).chain([path.display().to_string()]);
            for name in names.filter(|name| empty.iter().any(|word| name.to_lowercase().contains(word))) {
                broken.push(format!("{}: {name}", path.display()));
            }
        }
        fail_with(&broken, "a name that says nothing (manager, util, helper)");
    }

    #[test]
    fn decisions_are_numbered_without_gaps() {
        let names =
            files("adr").into_iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let numbers = names.filter(|name| name.ends_with(".md") && !name.starts_with("0000"));
        let numbers = numbers
            .map(|name| name.split_at(4).0.parse().unwrap_or_else(|_| panic!("adr/{name} has no number")));
        let numbers = numbers.collect::<Vec<u32>>();
        assert!(!numbers.is_empty(), "there are no decisions in adr/");
        let expected = (1..=u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>();
        assert_eq!(numbers, expected, "the numbers of the decisions in adr/");
    }

    /// The anchor that a heading gets: lower case, spaces to hyphens, other signs left out.
    fn anchor(heading: &str) -> String {
        let letters = heading.trim_start_matches('#').trim().to_lowercase();
        let letters = letters.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        letters.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        let mut broken = Vec::new();
        for path in markdown_files() {
            let text = text(&path);
            for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                let (file, part) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
                let full = root().join(&target);
                let known = full.exists()
                    && (part.is_empty()
                        || fs::read_to_string(&full).unwrap_or_default().lines().any(|line| {
                            line.starts_with('#') && anchor(line) == part
                                || line.contains(&format!("id=\"{part}\""))
                        }));
                if !known {
                    broken.push(format!("{}: {link}", path.display()));
                }
            }
        }
        fail_with(&broken, "a link that leads nowhere");
    }

    #[test]
    fn tests_neither_sleep_nor_hide() {
        let banned = [concat!("#[ig", "nore"), concat!("thread::sl", "eep"), concat!("time::sl", "eep(")];
        let mut broken = Vec::new();
        for path in rust_files("tests").into_iter().chain(rust_files("src")) {
            let text = text(&path);
            let banned = if path.starts_with("src") { &banned[..1] } else { &banned[..] };
            broken.extend(
                banned
                    .iter()
                    .filter(|word| text.contains(**word))
                    .map(|word| format!("{}: {word}", path.display())),
            );
        }
        fail_with(&broken, "a test that sleeps or is left out");
    }

    #[test]
    fn nothing_knows_the_machine_it_was_written_on() {
        let homes =
            [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
        let mut broken = Vec::new();
        for path in files("") {
            let text = text(&path);
            broken.extend(
                text.lines()
                    .enumerate()
                    .filter(|(_, line)| homes.iter().any(|home| line.contains(home)))
                    .map(|(number, line)| format!("{}:{}: {}", path.display(), number + 1, line.trim())),
            );
        }
        fail_with(&broken, "an absolute path of a machine");
    }

    #[test]
    fn the_top_level_stays_as_it_is() {
        let known = [
            "Cargo.toml",
            "Cargo.lock",
            "src",
            "config",
            "docs",
            "adr",
            "tests",
            "deploy",
            "README.md",
            "LICENSE",
            "target",
        ];
        let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| name.to_str().unwrap().to_owned());
        let strangers = names.filter(|name| !name.starts_with('.') && !known.contains(&&**name));
        fail_with(&strangers.collect::<Vec<_>>(), "something new on the top level");
    }
}
