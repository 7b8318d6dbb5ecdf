//! What a stream for dead letters should be: pure.

use std::time::Duration;

use serde_json::{Value, json};

use crate::subject::SubjectPattern;

/// The stream that is wished for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) subjects: Vec<String>,
    pub(super) replicas: u32,
    /// Zero: for ever.
    pub(super) max_age: Duration,
    /// `None`: no limit of its own.
    pub(super) max_bytes: Option<u64>,
    pub(super) duplicate_window: Duration,
}

const DESCRIPTION: &str = "Dead letters of jetsink";

impl Wish {
    /// The configuration, with no field that servers of 2.9 do not know. A full stream refuses: then messages wait on their
    /// own stream, and no older dead letter is pushed out.
    pub(super) fn config(&self) -> Value {
        json!({
            "name": self.name,
            "description": DESCRIPTION,
            "subjects": self.subjects,
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "num_replicas": self.replicas,
            "max_age": nanoseconds(self.max_age),
            "max_bytes": self.max_bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1),
            "max_msgs": -1,
            "max_msg_size": -1,
            "max_msgs_per_subject": -1,
            "max_consumers": -1,
            "duplicate_window": nanoseconds(self.duplicate_window),
            "allow_direct": true,
            "deny_delete": false,
            "deny_purge": false,
            "allow_rollup_hdrs": false,
        })
    }

    /// The command that makes the same stream.
    pub(super) fn command(&self) -> String {
        let mut words = vec!["nats stream add".to_owned(), quoted(&self.name)];
        words.extend(self.subjects.iter().map(|subject| format!("--subjects {}", quoted(subject))));
        words.push(format!("--description {}", quoted(DESCRIPTION)));
        words.push("--storage file --retention limits --discard new".to_owned());
        words.push(format!("--replicas {}", self.replicas));
        words.push(format!(
            "--max-age={}",
            if self.max_age.is_zero() { "-1".to_owned() } else { go_duration(self.max_age) }
        ));
        words.push(format!(
            "--max-bytes={}",
            self.max_bytes.map_or_else(|| "-1".to_owned(), |bytes| bytes.to_string())
        ));
        words.push("--max-msgs=-1 --max-msg-size=-1 --max-msgs-per-subject=-1 --max-consumers=-1".to_owned());
        words.push(format!("--dupe-window {}", go_duration(self.duplicate_window)));
        words.push("--allow-direct --no-deny-delete --no-deny-purge --no-allow-rollup --defaults".to_owned());
        words.join(" ")
    }

    /// What an existing stream has otherwise, as sentences; empty when it suits.
    pub(super) fn differences(&self, config: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let flag = |field: &str| config.get(field).and_then(Value::as_bool).unwrap_or(false);
        let number = |field: &str| config.get(field).and_then(Value::as_i64).unwrap_or(0);
        for (field, wanted) in [("retention", "limits"), ("storage", "file"), ("discard", "new")] {
            let own = text(field);
            if own != wanted {
                found.push(format!("{field}: it has {own}, wanted is {wanted}"));
            }
        }
        for (field, wanted) in [
            ("no_ack", false),
            ("sealed", false),
            ("deny_delete", false),
            ("allow_direct", true),
            ("allow_rollup_hdrs", false),
        ] {
            if flag(field) != wanted {
                found.push(format!("{field}: it has {}, wanted is {wanted}", !wanted));
            }
        }
        let own: Vec<_> = config.get("subjects").and_then(Value::as_array).into_iter().flatten().collect();
        let own: Vec<&str> = own.into_iter().filter_map(Value::as_str).collect();
        let captured = |subject: &str| {
            own.iter().any(|own| {
                *own == subject || SubjectPattern::parse(own).is_ok_and(|pattern| pattern.matches(subject))
            })
        };
        for subject in self.subjects.iter().filter(|subject| !captured(subject)) {
            found.push(format!("subjects: it does not capture {subject}"));
        }
        let window = Duration::from_nanos(u64::try_from(number("duplicate_window")).unwrap_or(0));
        if window < self.duplicate_window {
            found.push(format!(
                "duplicate_window: it has {window:?}, wanted is {:?} at least",
                self.duplicate_window
            ));
        }
        let replicas = number("num_replicas");
        if replicas < i64::from(self.replicas) {
            found.push(format!("num_replicas: it has {replicas}, wanted are {}", self.replicas));
        }
        let age = number("max_age");
        if age != nanoseconds(self.max_age) {
            let age = Duration::from_nanos(u64::try_from(age).unwrap_or(0));
            let said = |age: Duration| if age.is_zero() { "none".to_owned() } else { format!("{age:?}") };
            found.push(format!("max_age: it has {}, wanted is {}", said(age), said(self.max_age)));
        }
        found
    }
}

pub(super) fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// As Go reads it.
pub(super) fn go_duration(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
    }
}

/// For a POSIX shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Wish {
        Wish {
            name: "ORDERS_DLQ".into(),
            subjects: vec!["orders.dlq".into()],
            replicas: 3,
            max_age: Duration::from_secs(86_400),
            max_bytes: Some(1 << 30),
            duplicate_window: Duration::from_secs(300),
        }
    }

    #[test]
    fn what_it_makes_suits_it() {
        assert!(wish().differences(&wish().config()).is_empty());
        let command = wish().command();
        for part in [
            "--subjects 'orders.dlq'",
            "--replicas 3",
            "--max-age=86400s",
            "--dupe-window 300s",
            "--max-bytes=1073741824",
        ] {
            assert!(command.contains(part), "{command}");
        }
    }

    #[test]
    fn every_difference_is_told() {
        let other = json!({
            "subjects": ["other.>"], "retention": "interest", "storage": "memory", "discard": "old", "no_ack": true,
            "sealed": true, "deny_delete": true, "num_replicas": 1, "max_age": 0, "duplicate_window": 1_000_000_000,
            "allow_rollup_hdrs": true,
        });
        let found = wish().differences(&other);
        assert_eq!(found.len(), 12, "{found:#?}");
        let wider = json!({ "subjects": ["orders.>"] });
        assert!(!wish().differences(&wider).iter().any(|difference| difference.starts_with("subjects")));
    }

    #[test]
    fn a_shell_takes_the_words_as_they_are() {
        assert_eq!(quoted("a'b $c"), "'a'\\''b $c'");
    }
}
