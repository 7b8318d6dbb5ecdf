//! One advisory as the server writes it: pure.

use serde::Deserialize;

use crate::clock::Timestamp;
use crate::envelope::SourceNames;
use crate::nats::advisories::names::advisory_subjects;
use crate::reason::ReasonCode;

/// The server writes some hundred bytes; a term's reason can be as long as a message.
const LARGEST: usize = 2 << 20;
/// What stands before the reason code in a term of ours, so that its advisory is known as our own.
const OWN_MARK: &str = "jetsink:";
/// The server's reason when it removes a message that was delivered and not settled.
const DELETED: &str = "Unacknowledged message was deleted";

/// The server says that it delivers a message no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::nats) struct Advisory {
    pub(in crate::nats) kind: Kind,
    /// Of the message.
    pub(in crate::nats) stream_sequence: u64,
    /// How often it was delivered; 0 where the server does not say.
    pub(in crate::nats) deliveries: u64,
    /// When the advisory was stored: the server's word, where the time in its body is its author's.
    pub(in crate::nats) at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::nats) enum Kind {
    /// `max_deliver` is spent.
    Exhausted,
    /// Somebody sent a term.
    Terminated {
        /// Who did it says why. Text of a stranger: for the dead letter, not for logs.
        reason: String,
    },
    /// A term of ours, or of another daemon on the same durable: its dead letter is confirmed.
    TerminatedByUs,
    /// The server removed the message from the stream while it was delivered and not settled.
    Deleted,
    /// No advisory says so: a work queue keeps it, and its durable neither delivers nor awaits it.
    Stuck,
}

/// What a captured message is instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::nats) enum NoAdvisory {
    /// An advisory of another kind or about another durable, by its subject.
    #[error("it is an advisory of another kind, or about another durable")]
    Other,
    /// It stands on the right subject and is not what the server writes.
    #[error("{0}")]
    Malformed(&'static str),
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    stream: String,
    #[serde(default)]
    consumer: String,
    #[serde(default)]
    stream_seq: u64,
    #[serde(default)]
    deliveries: u64,
    #[serde(default)]
    reason: String,
}

/// The text of a term of ours: `+TERM jetsink:<reason code>`.
pub(in crate::nats) fn own_reason(reason: ReasonCode) -> String {
    format!("{OWN_MARK}{reason}")
}

impl Advisory {
    /// Reads what was captured on `subject` and stored at `at`.
    pub(in crate::nats) fn read(
        subject: &str,
        body: &[u8],
        at: Timestamp,
        names: &SourceNames,
    ) -> Result<Self, NoAdvisory> {
        let [exhausted, terminated] = advisory_subjects(&names.stream, &names.consumer);
        let expected = if subject == exhausted {
            "io.nats.jetstream.advisory.v1.max_deliver"
        } else if subject == terminated {
            "io.nats.jetstream.advisory.v1.terminated"
        } else {
            return Err(NoAdvisory::Other);
        };
        if body.len() > LARGEST {
            return Err(NoAdvisory::Malformed("it is larger than any advisory"));
        }
        let wire: Wire = serde_json::from_slice(body)
            .map_err(|_| NoAdvisory::Malformed("it is no JSON of an advisory"))?;
        if wire.kind != expected {
            return Err(NoAdvisory::Malformed("its type does not fit its subject"));
        }
        if wire.stream != names.stream || wire.consumer != names.consumer {
            return Err(NoAdvisory::Malformed("its stream and consumer do not fit its subject"));
        }
        if wire.stream_seq == 0 {
            return Err(NoAdvisory::Malformed("it names no stream sequence"));
        }
        let is_own = wire
            .reason
            .strip_prefix(OWN_MARK)
            .is_some_and(|code| ReasonCode::ALL.iter().any(|own| own.as_str() == code));
        let kind = if subject == exhausted {
            Kind::Exhausted
        } else if is_own {
            Kind::TerminatedByUs
        } else if wire.reason == DELETED {
            Kind::Deleted
        } else {
            Kind::Terminated { reason: wire.reason }
        };
        Ok(Self { kind, stream_sequence: wire.stream_seq, deliveries: wire.deliveries, at })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    const EXHAUSTED: &str = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C";
    const TERMINATED: &str = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C";

    fn read(subject: &str, body: &str) -> Result<Advisory, NoAdvisory> {
        let names = SourceNames::shared("S", "C");
        Advisory::read(subject, body.as_bytes(), Timestamp(7), &names)
    }

    fn terminated(reason: &str) -> Kind {
        let body = format!(
            r#"{{"type":"io.nats.jetstream.advisory.v1.terminated","id":"x","timestamp":"t","stream":"S","consumer":"C",
                "consumer_seq":3,"stream_seq":2,"deliveries":1,"reason":"{reason}"}}"#
        );
        read(TERMINATED, &body).unwrap().kind
    }

    #[test]
    fn what_servers_write_is_read() {
        let advisory = read(
            EXHAUSTED,
            r#"{"type":"io.nats.jetstream.advisory.v1.max_deliver","id":"qpQBar5QWWgvq1hHwbdLqJ",
                "timestamp":"2026-11-30T22:37:18.187951344Z","stream":"S","consumer":"C","stream_seq":9,"deliveries":4}"#,
        );
        let expected =
            Advisory { kind: Kind::Exhausted, stream_sequence: 9, deliveries: 4, at: Timestamp(7) };
        assert_eq!(advisory, Ok(expected));
        assert_eq!(terminated(""), Kind::Terminated { reason: String::new() });
        assert_eq!(terminated("bad order"), Kind::Terminated { reason: "bad order".into() });
        assert_eq!(terminated("Unacknowledged message was deleted"), Kind::Deleted);
    }

    #[test]
    fn a_term_of_ours_is_known_by_its_mark() {
        for code in ReasonCode::ALL {
            assert_eq!(terminated(&own_reason(*code)), Kind::TerminatedByUs);
        }
        let foreign = ["jetsink:", "jetsink:nonsense", "payload_too_large", " jetsink:payload_too_large"];
        for reason in foreign {
            assert_eq!(terminated(reason), Kind::Terminated { reason: reason.into() });
        }
    }

    #[test]
    fn what_is_forged_badly_is_malformed_and_what_is_another_kind_is_not_ours() {
        let right = r#"{"type":"io.nats.jetstream.advisory.v1.max_deliver","stream":"S","consumer":"C","stream_seq":1}"#;
        assert!(read(EXHAUSTED, right).is_ok());
        for body in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            &right.replace("max_deliver", "terminated"),
            &right.replace("\"S\"", "\"T\""),
            &right.replace("\"C\"", "\"D\""),
            &right.replace(":1}", ":0}"),
            &right.replace(":1}", ":-1}"),
            &right.replace(":1}", ":1e300}"),
            &right.replace(":1}", ":\"1\"}"),
        ] {
            assert!(matches!(read(EXHAUSTED, body), Err(NoAdvisory::Malformed(_))), "{body}");
        }
        assert!(matches!(read(TERMINATED, right), Err(NoAdvisory::Malformed(_))));
        for subject in [
            "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.S.C",
            "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.D",
            "x",
        ] {
            assert_eq!(read(subject, right), Err(NoAdvisory::Other));
        }
    }

    proptest! {
        #[test]
        fn reading_is_total(body in any::<Vec<u8>>(), sequence in any::<i64>(), reason in any::<String>()) {
            let names = SourceNames::shared("S", "C");
            let _advisory = Advisory::read(EXHAUSTED, &body, Timestamp(7), &names);
            let text = serde_json::json!({ "type": "io.nats.jetstream.advisory.v1.terminated", "stream": "S", "consumer": "C",
                "stream_seq": sequence, "reason": reason }).to_string();
            let _advisory = Advisory::read(TERMINATED, text.as_bytes(), Timestamp(7), &names);
        }
    }
}
