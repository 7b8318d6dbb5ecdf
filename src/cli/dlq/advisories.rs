//! `jetsink dlq init`, its other half: the stream that captures the server's advisories about messages that it delivers no
//! more, and the durable by which the daemon reads them.

use std::time::Duration;

use serde_json::{Value, json};

use super::failure::Failure;
use super::wish::{go_duration, nanoseconds, quoted};
use crate::config::Settings;
use crate::nats::{
    Connection, advisory_durable, advisory_durable_configuration, advisory_filter, advisory_subjects,
    create_advisory_durable, create_stream, find_capturing_stream, stream_configuration,
};
use crate::subject::SubjectPattern;

/// An advisory that nobody has read by then goes: daemons are down for days, not for months.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Some hundred thousand advisories. The oldest go first, which are read already unless the daemon is down.
const MAX_BYTES: u64 = 256 << 20;
/// Advisories carry no id; this is the server's own default.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);
const DESCRIPTION: &str = "Advisories about messages that the server delivers no more, for jetsink";

/// What is wished for, for one pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AdvisoryWish {
    /// The stream that the configuration names, or a name that follows from the dead-letter stream.
    name: String,
    is_named: bool,
    source: String,
    durable: String,
    replicas: u32,
}

impl AdvisoryWish {
    pub(super) fn new(settings: &Settings, dead_letter_stream: &str, replicas: u32) -> Self {
        let named =
            settings.dead_letter.as_ref().and_then(|dead_letter| dead_letter.advisories.stream.clone());
        Self {
            is_named: named.is_some(),
            name: named.unwrap_or_else(|| format!("{dead_letter_stream}_ADVISORIES")),
            source: settings.consumer.stream.clone(),
            durable: settings.consumer.durable.clone(),
            replicas,
        }
    }

    /// Makes what is not there; says what it did.
    pub(super) async fn make(mut self, connection: &Connection) -> Result<String, Failure> {
        let [subject, _] = self.subjects();
        if !self.is_named
            && let Some(stream) = find_capturing_stream(connection, &subject).await?
        {
            self.name = stream;
        }
        let name = &self.name;
        let mut text = match stream_configuration(connection, name).await? {
            None => {
                create_stream(connection, name, &self.config()).await?;
                format!("made stream {name} for {}\n", self.subjects().join(", "))
            }
            Some(config) => {
                let differences = self.differences(&config);
                if !differences.is_empty() {
                    return Err(Failure::refused(format!(
                        "stream {name} exists and is left as it is; it cannot keep the advisories of {}, {}:\n  {}\nName \
                         another stream by dead_letter.advisory_stream",
                        self.source,
                        self.durable,
                        differences.join("\n  ")
                    )));
                }
                format!("stream {name} exists and captures the advisories\n")
            }
        };
        let made = create_advisory_durable(connection, name, &self.source, &self.durable).await?;
        let durable = advisory_durable(&self.source, &self.durable);
        text.push_str(&if made {
            format!("made durable {durable} on {name}\n")
        } else {
            format!("durable {durable} exists on {name}\n")
        });
        Ok(text)
    }

    fn subjects(&self) -> [String; 2] {
        advisory_subjects(&self.source, &self.durable)
    }

    fn config(&self) -> Value {
        json!({
            "name": self.name,
            "description": DESCRIPTION,
            "subjects": self.subjects(),
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "num_replicas": self.replicas,
            "max_age": nanoseconds(MAX_AGE),
            "max_bytes": MAX_BYTES,
            "max_msgs": -1,
            "max_msg_size": -1,
            "max_msgs_per_subject": -1,
            "max_consumers": -1,
            "duplicate_window": nanoseconds(DUPLICATE_WINDOW),
            "allow_direct": false,
            "deny_delete": false,
            "deny_purge": false,
            "allow_rollup_hdrs": false,
        })
    }

    /// The commands that make the same.
    pub(super) fn commands(&self) -> String {
        let [exhausted, terminated] = self.subjects();
        let durable = advisory_durable_configuration(&self.source, &self.durable);
        let description = durable.get("description").and_then(Value::as_str).unwrap_or_default();
        let wait = durable.get("ack_wait").and_then(Value::as_u64).unwrap_or_default();
        format!(
            "nats stream add {name} --subjects {} --subjects {} --description {} --storage file --retention limits --discard old \
             --replicas {} --max-age={} --max-bytes={MAX_BYTES} --max-msgs=-1 --max-msg-size=-1 --max-msgs-per-subject=-1 \
             --max-consumers=-1 --dupe-window {} --no-allow-direct --no-deny-delete --no-deny-purge --no-allow-rollup \
             --defaults\n\
             nats consumer add {name} {} --pull --description {} --filter {} --ack explicit --deliver all --replay instant \
             --wait {} --max-deliver=-1 --max-pending 1000 --defaults\n",
            quoted(&exhausted),
            quoted(&terminated),
            quoted(DESCRIPTION),
            self.replicas,
            go_duration(MAX_AGE),
            go_duration(DUPLICATE_WINDOW),
            quoted(&advisory_durable(&self.source, &self.durable)),
            quoted(description),
            quoted(&advisory_filter(&self.source, &self.durable)),
            go_duration(Duration::from_nanos(wait)),
            name = quoted(&self.name),
        )
    }

    /// What keeps an existing stream from being of use, as sentences.
    fn differences(&self, config: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let own: Vec<_> = config.get("subjects").and_then(Value::as_array).into_iter().flatten().collect();
        let own: Vec<_> = own.into_iter().filter_map(Value::as_str).collect();
        let is_captured = |subject: &String| {
            own.iter().any(|own| SubjectPattern::parse(own).is_ok_and(|pattern| pattern.matches(subject)))
        };
        for subject in self.subjects().iter().filter(|subject| !is_captured(subject)) {
            found.push(format!("subjects: it does not capture {subject}"));
        }
        let retention = config.get("retention").and_then(Value::as_str).unwrap_or_default();
        if retention != "limits" {
            found.push(format!("retention: it has {retention}, wanted is limits"));
        }
        if config.get("sealed").and_then(Value::as_bool) == Some(true) {
            found.push("sealed: it takes no message".into());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> AdvisoryWish {
        AdvisoryWish {
            name: "ORDERS_DLQ_ADVISORIES".into(),
            is_named: false,
            source: "ORDERS".into(),
            durable: "archive".into(),
            replicas: 3,
        }
    }

    #[test]
    fn what_it_makes_suits_it_and_a_wider_one_does_too() {
        assert!(wish().differences(&wish().config()).is_empty());
        let wider = json!({ "subjects": ["$JS.EVENT.ADVISORY.CONSUMER.>"], "retention": "limits" });
        assert!(wish().differences(&wider).is_empty());
        let other = json!({ "subjects": ["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"], "retention": "workqueue",
            "sealed": true });
        assert_eq!(wish().differences(&other).len(), 3);
    }

    #[test]
    fn the_commands_name_everything() {
        let commands = wish().commands();
        for part in [
            "nats stream add 'ORDERS_DLQ_ADVISORIES'",
            "--subjects '$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.archive'",
            "--subjects '$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.archive'",
            "nats consumer add 'ORDERS_DLQ_ADVISORIES' 'jetsink-ORDERS-archive'",
            "--filter '$JS.EVENT.ADVISORY.CONSUMER.*.ORDERS.archive'",
            "--replicas 3",
            "--wait 30s",
        ] {
            assert!(commands.contains(part), "{commands}");
        }
    }
}
