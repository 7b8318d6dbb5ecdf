//! What the server's MQTT gateway says about a message, and how it makes a subject of a topic.
//!
//! The gateway turns a PUBLISH into a NATS message with the header `Nmqtt-Pub`, whose value begins with the quality of
//! service; it does not store the topic. The topic is read back from the subject, by the gateway's own rules (nats-server
//! 2.15.1, measured):
//!
//! | topic | subject |
//! |---|---|
//! | `/` between two levels | `.` |
//! | a level without a character | `/` |
//! | `.` within a level | `//` |
//!
//! Every other character stays. No two topics have the same subject, but not every subject has a topic.
//!
//! What the gateway itself stores (`$MQTT.…`) has other rules; a stream that copies it shows subjects that are no topics.

use std::fmt;

use bytes::Bytes;

use super::Envelope;

/// The header that the gateway adds, in the gateway's spelling; names of NATS headers are compared with their case.
const GATEWAY_HEADER: &str = "Nmqtt-Pub";
/// Where the gateway keeps its own messages: `$MQTT.msgs.sens.a` is not the topic `$MQTT/msgs/sens/a`.
const GATEWAY_SUBJECTS: &str = "$MQTT.";
/// Bytes of a topic: its length on the wire has two bytes (MQTT 3.1.1 §1.5.3).
const MAX_TOPIC: usize = 65_535;

/// The facts of a message that came through the server's MQTT gateway.
///
/// They are what the message says: a NATS publisher can write the same header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mqtt<'a> {
    /// The quality of service that its publisher asked for.
    pub qos: Qos,
    subject: &'a str,
}

/// MQTT's quality of service: what publisher and gateway promised each other, and nothing about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Qos {
    /// 0: sent once, not confirmed.
    AtMostOnce,
    /// 1: confirmed by PUBACK, sent again until then.
    AtLeastOnce,
    /// 2: confirmed in two steps, so that sending it again changes nothing.
    ExactlyOnce,
}

/// Why a text is not a topic that the gateway takes in a PUBLISH. It does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// No character.
    #[error("it is empty")]
    Empty,
    /// More than 65 535 bytes.
    #[error("it has more than {MAX_TOPIC} bytes")]
    TooLong,
    /// `+` or `#`, which stand in filters only.
    #[error("it holds a wildcard of a topic filter")]
    Wildcard,
    /// A space, tab, line feed, carriage return, form feed, DEL or NUL.
    #[error("it holds a character that the gateway refuses")]
    Character,
}

impl Envelope {
    /// The MQTT facts of a message that came through the gateway.
    ///
    /// `None` for every other message. The gateway writes one header line whose value is the digit of the quality of
    /// service (0 to 2), followed by nothing or by one hexadecimal digit of flags; a header that is anything else, or that
    /// is there twice, was not written by the gateway.
    #[must_use]
    pub fn mqtt(&self) -> Option<Mqtt<'_>> {
        let mut own = self.headers.iter().filter(|(name, _)| *name == GATEWAY_HEADER);
        let (Some((_, value)), None) = (own.next(), own.next()) else { return None };
        Some(Mqtt { qos: Qos::of_header(value)?, subject: &self.subject })
    }
}

impl Mqtt<'_> {
    /// The topic it was published to; `None` when the subject is not the subject of any topic, or one of the gateway's own
    /// (`$MQTT.…`), so that nothing is made up.
    #[must_use]
    pub fn topic(&self) -> Option<String> {
        let mut topic = String::with_capacity(self.subject.len());
        self.topic_into(&mut topic).then_some(topic)
    }

    /// Writes the topic into a text that is kept for the purpose, and says whether there is one. What was in it is gone.
    #[must_use]
    pub fn topic_into(&self, topic: &mut String) -> bool {
        topic.clear();
        !self.subject.starts_with(GATEWAY_SUBJECTS) && decode(self.subject, topic).is_some()
    }
}

impl Qos {
    /// 0, 1 or 2.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::AtMostOnce => 0,
            Self::AtLeastOnce => 1,
            Self::ExactlyOnce => 2,
        }
    }

    /// The one with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    fn of_header(value: &Bytes) -> Option<Self> {
        let (digit, flags) = value.split_first()?;
        let known_flags = match flags {
            [] => true,
            [flag] => flag.is_ascii_hexdigit(),
            _ => false,
        };
        known_flags.then_some(digit.wrapping_sub(b'0')).and_then(Self::from_number)
    }
}

/// The subject that the gateway publishes a topic to.
///
/// # Errors
/// [`TopicError`] when the gateway would close the connection instead.
pub fn topic_to_subject(topic: &str) -> Result<String, TopicError> {
    check_topic(topic)?;
    let mut subject = String::with_capacity(topic.len() + 8);
    for (index, level) in topic.split('/').enumerate() {
        if index > 0 {
            subject.push('.');
        }
        if level.is_empty() {
            subject.push('/');
        }
        for (part, text) in level.split('.').enumerate() {
            if part > 0 {
                subject.push_str("//");
            }
            subject.push_str(text);
        }
    }
    Ok(subject)
}

/// The topic whose subject this is; `None` when there is none, as for `nats.a/b`.
#[must_use]
pub fn subject_to_topic(subject: &str) -> Option<String> {
    let mut topic = String::with_capacity(subject.len());
    decode(subject, &mut topic)?;
    Some(topic)
}

/// Appends the topic, or leaves a part of it there and gives `None`.
fn decode(subject: &str, topic: &mut String) -> Option<()> {
    let start = topic.len();
    for (index, token) in subject.split('.').enumerate() {
        if index > 0 {
            topic.push('/');
        }
        match token {
            "" => return None,
            "/" => {}
            _ => decode_level(token, topic)?,
        }
    }
    check_topic(topic.get(start..)?).ok()
}

/// Slashes within a token stand in pairs, each pair for one dot.
fn decode_level(token: &str, topic: &mut String) -> Option<()> {
    let mut rest = token;
    while let Some((text, behind)) = rest.split_once('/') {
        topic.push_str(text);
        topic.push('.');
        rest = behind.strip_prefix('/')?;
    }
    topic.push_str(rest);
    Some(())
}

fn check_topic(topic: &str) -> Result<(), TopicError> {
    if topic.is_empty() {
        return Err(TopicError::Empty);
    }
    if topic.len() > MAX_TOPIC {
        return Err(TopicError::TooLong);
    }
    if topic.contains(['+', '#']) {
        return Err(TopicError::Wildcard);
    }
    if topic.contains([' ', '\t', '\n', '\r', '\u{c}', '\u{7f}', '\0']) {
        return Err(TopicError::Character);
    }
    Ok(())
}

/// Shows no subject: it is the publisher's word.
impl fmt::Debug for Mqtt<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mqtt").field("qos", &self.qos).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::clock::Timestamp;
    use crate::envelope::{Body, Headers, SharedMetadata, SourceNames};

    /// Topics and their subjects, as nats-server 2.15.1 makes them.
    const PAIRS: [(&str, &str); 16] = [
        ("x", "x"),
        ("sens/a/b", "sens.a.b"),
        ("x//y", "x./.y"),
        ("/x", "/.x"),
        ("x/", "x./"),
        ("/", "/./"),
        ("//", "/././"),
        ("x.y", "x//y"),
        ("x/.", "x.//"),
        (".", "//"),
        ("./x", "//.x"),
        ("a/b/c.d.e//f", "a.b.c//d//e./.f"),
        ("x/>", "x.>"),
        ("x/*/y", "x.*.y"),
        ("größe/7", "größe.7"),
        ("$a/..", "$a.////"),
    ];

    fn envelope(subject: &str, lines: &[(&str, &'static str)]) -> Envelope {
        let mut headers = Headers::new();
        for (name, value) in lines {
            headers.append(*name, *value);
        }
        Envelope {
            subject: subject.into(),
            headers,
            payload: Bytes::new(),
            body: Body::Present,
            source: SourceNames::shared("S", "c"),
            stream_sequence: 1,
            consumer_sequence: 1,
            delivery_count: 1,
            stored_at: Timestamp(0),
            pending: 0,
            metadata: SharedMetadata::NONE,
        }
    }

    #[test]
    fn topics_and_subjects_are_pairs() {
        for (topic, subject) in PAIRS {
            assert_eq!(topic_to_subject(topic).as_deref(), Ok(subject), "{topic}");
            assert_eq!(subject_to_topic(subject).as_deref(), Some(topic), "{subject}");
        }
    }

    #[test]
    fn what_is_no_topic() {
        let long = "x".repeat(MAX_TOPIC + 1);
        for (topic, error) in [
            ("", TopicError::Empty),
            ("x/+", TopicError::Wildcard),
            ("#", TopicError::Wildcard),
            ("a b", TopicError::Character),
            ("a\tb", TopicError::Character),
            ("a\u{7f}", TopicError::Character),
            ("a\0", TopicError::Character),
            (&long, TopicError::TooLong),
        ] {
            assert_eq!(topic_to_subject(topic), Err(error));
        }
    }

    #[test]
    fn a_subject_that_no_topic_has_cannot_be_decoded() {
        for subject in
            ["", "/", "nats.a/b", "a/", "/a", "a.///", "a..b", ".a", "a.", "a.+", "a.#", "a b", "a.\0"]
        {
            assert_eq!(subject_to_topic(subject), None, "{subject:?}");
        }
        let mut kept = "what was there".to_owned();
        let message = envelope("nats.a/b", &[("Nmqtt-Pub", "1")]);
        assert!(!message.mqtt().unwrap().topic_into(&mut kept));
        let message = envelope("nats.a//b", &[("Nmqtt-Pub", "1")]);
        assert!(message.mqtt().unwrap().topic_into(&mut kept));
        assert_eq!(kept, "nats/a.b");
    }

    #[test]
    fn the_header_of_the_gateway_gives_the_quality_of_service() {
        for (value, qos) in [
            ("0", Some(Qos::AtMostOnce)),
            ("1", Some(Qos::AtLeastOnce)),
            ("2", Some(Qos::ExactlyOnce)),
            ("24", Some(Qos::ExactlyOnce)),
            ("1b", Some(Qos::AtLeastOnce)),
            ("3", None),
            ("/", None),
            ("", None),
            (" 1", None),
            ("1x", None),
            ("100", None),
            ("one", None),
        ] {
            let message = envelope("sens.a", &[("X", "2"), ("Nmqtt-Pub", value)]);
            assert_eq!(message.mqtt().map(|mqtt| mqtt.qos), qos, "{value:?}");
        }
        let message = envelope("sens.CANARY", &[("Nmqtt-Pub", "1")]);
        assert_eq!(message.mqtt().unwrap().topic().as_deref(), Some("sens/CANARY"));
        assert!(!format!("{:?}", message.mqtt()).contains("CANARY"));
        let message = envelope("$MQTT.msgs.sens.a", &[("Nmqtt-Pub", "1")]);
        assert_eq!(message.mqtt().unwrap().topic(), None, "a copy of the gateway's own stream");
        assert!(Qos::ExactlyOnce > Qos::AtLeastOnce && Qos::AtLeastOnce > Qos::AtMostOnce);
    }

    #[test]
    fn what_did_not_come_through_the_gateway_has_no_mqtt_facts() {
        assert_eq!(envelope("sens.a", &[]).mqtt(), None);
        for name in ["nmqtt-pub", "NMQTT-PUB", "Nmqtt-Pub "] {
            assert_eq!(envelope("sens.a", &[(name, "1")]).mqtt(), None, "{name}");
        }
        assert_eq!(envelope("sens.a", &[("Nmqtt-Pub", "1"), ("Nmqtt-Pub", "1")]).mqtt(), None);
    }

    proptest! {
        #[test]
        fn every_topic_comes_back(topic in "[a-c./*>$é]{1,12}") {
            let subject = topic_to_subject(&topic).unwrap();
            prop_assert!(!subject.split('.').any(str::is_empty), "{}", subject);
            prop_assert_eq!(subject_to_topic(&subject), Some(topic));
        }

        #[test]
        fn any_text_either_comes_back_or_is_refused(topic in any::<String>()) {
            match topic_to_subject(&topic) {
                Ok(subject) => prop_assert_eq!(subject_to_topic(&subject), Some(topic)),
                Err(error) => prop_assert_eq!(Err(error), check_topic(&topic)),
            }
        }

        #[test]
        fn a_decoded_subject_is_the_very_subject_of_its_topic(subject in "[ab./+]{0,10}|.*") {
            if let Some(topic) = subject_to_topic(&subject) {
                prop_assert_eq!(topic_to_subject(&topic), Ok(subject));
            }
        }

        #[test]
        fn the_header_is_read_without_fail(value in any::<Vec<u8>>()) {
            let value = Bytes::from(value);
            if let Some(qos) = Qos::of_header(&value) {
                prop_assert_eq!(value.first().copied(), Some(b'0' + qos.number()));
            }
        }
    }
}
