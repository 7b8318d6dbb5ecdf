//! Servers whose retention loses or keeps messages wrongly (nats facts §3), where this stream's shape is exposed to it.

use super::facts::Facts;
use super::finding::{Code, Finding};

/// Major, minor and patch.
type Version = (u32, u32, u32);

/// Mistakes of servers: what happens, and whether a version has it.
struct Mistake {
    what: &'static str,
    fixed: &'static str,
    has: fn(Version) -> bool,
    exposed: fn(&Shape) -> bool,
}

/// What of a stream and its durable matters here.
struct Shape {
    is_interest: bool,
    is_work_queue: bool,
    is_replicated: bool,
    has_limit: bool,
    has_filters: bool,
    is_unfiltered: bool,
    is_fed: bool,
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        what: "an interest stream can drop messages of a consumer without a filter (nats-server #2838)",
        fixed: "2.7.2",
        has: |version| version < (2, 7, 2),
        exposed: |shape| shape.is_interest && shape.is_unfiltered,
    },
    Mistake {
        what: "an interest stream keeps acknowledged messages of filtered consumers for ever (nats-server #2875)",
        fixed: "2.7.3",
        has: |version| version < (2, 7, 3),
        exposed: |shape| shape.is_interest && shape.has_filters,
    },
    Mistake {
        what: "looking at an interest stream deletes messages that have exhausted max_deliver (nats-server #6575)",
        fixed: "2.10.26 and 2.11.0",
        has: |version| version < (2, 10, 26),
        exposed: |shape| shape.is_interest && shape.has_limit,
    },
    Mistake {
        what: "a replicated work queue loses messages that have exhausted max_deliver (nats-server #7845)",
        fixed: "2.12.5 and 2.14.0",
        has: |version| version < (2, 12, 5) || (version.0, version.1) == (2, 13),
        exposed: |shape| shape.is_work_queue && shape.is_replicated && shape.has_limit,
    },
    Mistake {
        what: "restarts lose messages of work-queue and interest streams that have exhausted max_deliver (nats-server #8102)",
        fixed: "2.12.9 and 2.14.1",
        has: |version| version < (2, 12, 9) || ((2, 13, 0)..(2, 14, 1)).contains(&version),
        exposed: |shape| (shape.is_work_queue || shape.is_interest) && shape.has_limit,
    },
    Mistake {
        what: "a lost link can lose messages on their way from or into a work-queue or interest stream (nats-server #7613)",
        fixed: "2.14.0",
        has: |version| version < (2, 14, 0),
        exposed: |shape| (shape.is_work_queue || shape.is_interest) && shape.is_fed,
    },
];

pub(super) fn look(facts: &Facts, findings: &mut Vec<Finding>) {
    let (Some(stream), Some(version)) = (facts.stream.found(), version(&facts.server.version)) else {
        return;
    };
    let durable = facts.durable.found();
    let shape = Shape {
        is_interest: stream.config.retention == "interest",
        is_work_queue: stream.config.retention == "workqueue",
        is_replicated: stream.config.num_replicas > 1,
        has_limit: durable.is_some_and(|durable| durable.config.max_deliver > 0),
        has_filters: durable.is_some_and(|durable| !durable.config.filters().is_empty()),
        is_unfiltered: durable.is_some_and(|durable| durable.config.filters().is_empty()),
        is_fed: stream.config.mirror.is_some() || !stream.config.sources.is_empty(),
    };
    for mistake in MISTAKES.iter().filter(|mistake| (mistake.has)(version) && (mistake.exposed)(&shape)) {
        findings.push(Finding::warning(
            Code::ServerRetentionBug,
            format!(
                "nats-server {} on stream {} ({} retention): {}",
                facts.server.version, stream.config.name, stream.config.retention, mistake.what
            ),
            format!("upgrade: fixed in {}", mistake.fixed),
        ));
    }
}

/// A server's version as numbers; `None` of a build that has none.
#[must_use]
pub fn version(version: &str) -> Option<Version> {
    let version = version.trim_start_matches('v');
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("2.15.1"), Some((2, 15, 1)));
        assert_eq!(version("v2.14.0-RC.1"), Some((2, 14, 0)));
        assert_eq!(version("main"), None);
    }

    #[test]
    fn each_fix_ends_its_mistake_in_both_lines() {
        let has = |fixed: &str, version| {
            MISTAKES
                .iter()
                .find(|mistake| mistake.fixed == fixed)
                .is_some_and(|mistake| (mistake.has)(version))
        };
        let both = "2.12.9 and 2.14.1";
        for (version, expected) in [
            ((2, 9, 10), true),
            ((2, 12, 8), true),
            ((2, 12, 9), false),
            ((2, 14, 0), true),
            ((2, 14, 1), false),
            ((2, 15, 1), false),
        ] {
            assert_eq!(has(both, version), expected, "{version:?}");
        }
        assert!(has("2.10.26 and 2.11.0", (2, 10, 25)) && !has("2.10.26 and 2.11.0", (2, 11, 0)));
        assert!(has("2.12.5 and 2.14.0", (2, 12, 4)) && !has("2.12.5 and 2.14.0", (2, 12, 8)));
    }
}
