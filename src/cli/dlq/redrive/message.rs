//! The message that a redrive publishes: pure.
//!
//! The original's headers come back as they were, but for those that are commands to the server (`Nats-*`, `Nmqtt-*`): said
//! again they could wipe, refuse or expire, and the original's `Nats-Msg-Id` would be swallowed by the window that saw it
//! already. They travel on under another name. `Nats-Sinks-*` and `Nats-Message-Id` are no commands.

use bytes::Bytes;

use crate::clock::Timestamp;
use crate::dead_letter::Recovered;
use crate::envelope::Headers;

/// Counts how often a message was sent again.
pub(super) const COUNT: &str = "Jetsink-Redrive-Count";
const RENAMED: &str = "Jetsink-Original-";
const MESSAGE_ID: &str = "Nats-Msg-Id";
const OWN_ID: &str = "jetsink.redrive.";

/// Where the letter is stored: what its successor's id is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) stream: &'a str,
    pub(super) sequence: u64,
    pub(super) stored_at: Timestamp,
}

/// How to send it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Another subject than the original's.
    pub(super) to: Option<String>,
    /// A message that was sent again so often is left alone.
    pub(super) max_redrives: u64,
    /// Say the original's `Nats-Msg-Id` again.
    pub(super) keep_message_id: bool,
    /// Send the body only.
    pub(super) without_headers: bool,
    /// Bytes of headers and body that the server takes.
    pub(super) max_payload: usize,
}

/// What to publish.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) subject: String,
    pub(super) headers: Headers,
    pub(super) body: Bytes,
    /// How often it was sent again, this time included.
    pub(super) count: u64,
    /// There was no room for an id: a repeat cannot be told.
    pub(super) bare: bool,
}

/// Makes the message, or says why the letter has to stay.
pub(super) fn rebuild(original: Recovered, place: Place<'_>, plan: &Plan) -> Result<Message, String> {
    let subject = plan.to.clone().unwrap_or(original.subject);
    if subject.is_empty() || subject.chars().any(|sign| sign.is_whitespace() || sign.is_control()) {
        return Err("its subject cannot be published to; name another one by --to".into());
    }
    let body = original.body.ok_or("it does not carry the body")?;
    let count = original.headers.as_ref().and_then(|headers| headers.get(COUNT));
    let count = count.and_then(|value| std::str::from_utf8(value).ok()?.trim().parse().ok());
    let count: u64 = count.unwrap_or(0);
    if count >= plan.max_redrives {
        return Err(format!(
            "it was sent again {count} times already (--max-redrives {})",
            plan.max_redrives
        ));
    }
    let count = count.saturating_add(1);
    if !original.redacted.is_empty() && !plan.without_headers {
        return Err(format!(
            "it has marks in place of the values of {} (dead_letter.redact_headers); --without-headers sends the body only",
            original.redacted.join(", ")
        ));
    }
    let own = match (original.headers, plan.without_headers) {
        (_, true) => Headers::new(),
        (Some(headers), false) => headers,
        (None, false) => {
            return Err(
                "it does not carry the original's headers, or as bytes that no client can send; --without-headers sends the \
                        body only".into()
            );
        }
    };
    let id = kept_id(&own, plan).unwrap_or_else(|| {
        let Place { stream, sequence, stored_at } = place;
        format!("{OWN_ID}{stream}.{sequence}.{}.{count}", stored_at.0).into_bytes().into()
    });
    let bare = own.is_empty() && wire_bytes(&Headers::new(), &body) <= plan.max_payload;
    let mut fitting = Vec::new();
    for with_commands in [true, false] {
        let mut headers = restored(&own, plan.keep_message_id, with_commands);
        headers.append(MESSAGE_ID, id.clone());
        headers.append(COUNT, count.to_string());
        fitting.push(headers);
    }
    let room = fitting.into_iter().find(|headers| wire_bytes(headers, &body) <= plan.max_payload);
    match room {
        Some(headers) => Ok(Message { subject, headers, body, count, bare: false }),
        // The original filled `max_payload` and had no header: nothing but an id is lost.
        None if bare => Ok(Message { subject, headers: Headers::new(), body, count, bare: true }),
        None => Err("headers and body are above the server's max_payload".into()),
    }
}

fn kept_id(own: &Headers, plan: &Plan) -> Option<Bytes> {
    if !plan.keep_message_id {
        return None;
    }
    let renamed = format!("{RENAMED}{MESSAGE_ID}");
    let id = own.get(MESSAGE_ID).filter(|id| !id.starts_with(OWN_ID.as_bytes()));
    id.or_else(|| own.get(&renamed)).filter(|id| !id.is_empty()).cloned()
}

fn restored(own: &Headers, keep_message_id: bool, with_commands: bool) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in own.iter() {
        if name.eq_ignore_ascii_case(COUNT) {
            continue;
        }
        if !is_command(name) {
            headers.append(name, value.clone());
            continue;
        }
        let is_id = name.eq_ignore_ascii_case(MESSAGE_ID);
        let is_ours = is_id && value.starts_with(OWN_ID.as_bytes());
        if with_commands && !is_ours && !(is_id && keep_message_id) {
            headers.append(format!("{RENAMED}{name}"), value.clone());
        }
    }
    headers
}

/// Whether a server obeys a header of this name.
pub(in crate::cli::dlq) fn is_command(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let known_as_data = name.starts_with("nats-sinks-") || name == "nats-message-id";
    name.starts_with("nmqtt-") || (name.starts_with("nats-") && !known_as_data)
}

/// Bytes as the server counts them; without headers there is no block.
fn wire_bytes(headers: &Headers, body: &Bytes) -> usize {
    let block = if headers.is_empty() { 0 } else { "NATS/1.0\r\n\r\n".len() };
    block + headers.total_bytes() + headers.len() * ": \r\n".len() + body.len()
}

/// Shows where it goes, never what it says.
impl std::fmt::Debug for Message {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Message")
            .field("count", &self.count)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place { stream: "DLQ", sequence: 7, stored_at: Timestamp(9) };

    fn plan() -> Plan {
        Plan { to: None, max_redrives: 3, keep_message_id: false, without_headers: false, max_payload: 1024 }
    }

    fn original(lines: &[(&str, &str)], body: usize) -> Recovered {
        let mut headers = Headers::new();
        for (name, value) in lines {
            headers.append(*name, (*value).to_owned());
        }
        Recovered {
            subject: "orders.new".into(),
            headers: Some(headers),
            redacted: Vec::new(),
            body: Some(vec![b'x'; body].into()),
            stream: "ORDERS".into(),
            stream_sequence: 42,
            stored_at: None,
            reason: "payload_too_large".into(),
        }
    }

    fn lines(message: &Message) -> Vec<(String, String)> {
        let lines = message.headers.iter();
        lines.map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned())).collect()
    }

    fn expected(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn headers_come_back_and_commands_do_not() {
        let own = [
            ("Tenant", "a"),
            ("Tenant", "b"),
            ("Nats-Sinks-Priority", "high"),
            ("Nats-Msg-Id", "order-17"),
            ("nats-Rollup", "all"),
            ("Nmqtt-Pub", "1"),
        ];
        let message = rebuild(original(&own, 10), PLACE, &plan()).unwrap();
        let wanted = [
            ("Tenant", "a"),
            ("Tenant", "b"),
            ("Nats-Sinks-Priority", "high"),
            ("Jetsink-Original-Nats-Msg-Id", "order-17"),
            ("Jetsink-Original-nats-Rollup", "all"),
            ("Jetsink-Original-Nmqtt-Pub", "1"),
            ("Nats-Msg-Id", "jetsink.redrive.DLQ.7.9.1"),
            ("Jetsink-Redrive-Count", "1"),
        ];
        assert_eq!(lines(&message), expected(&wanted));
        assert_eq!(message.subject, "orders.new");
    }

    #[test]
    fn a_second_redrive_counts_on_and_has_another_id() {
        let own = [
            ("Jetsink-Original-Nats-Msg-Id", "order-17"),
            ("Nats-Msg-Id", "jetsink.redrive.DLQ.3.1.1"),
            (COUNT, "1"),
        ];
        let message = rebuild(original(&own, 10), PLACE, &plan()).unwrap();
        let wanted = [
            ("Jetsink-Original-Nats-Msg-Id", "order-17"),
            ("Nats-Msg-Id", "jetsink.redrive.DLQ.7.9.2"),
            (COUNT, "2"),
        ];
        assert_eq!(lines(&message), expected(&wanted));
        let kept = Plan { keep_message_id: true, ..plan() };
        let message = rebuild(original(&own, 10), PLACE, &kept).unwrap();
        assert_eq!(message.headers.get(MESSAGE_ID).map(AsRef::as_ref), Some(&b"order-17"[..]));
    }

    #[test]
    fn what_cannot_be_sent_stays() {
        let too_often = rebuild(original(&[(COUNT, "3")], 10), PLACE, &plan()).unwrap_err();
        assert!(too_often.contains("3 times already"), "{too_often}");
        let without = |change: fn(&mut Recovered)| {
            let mut original = original(&[], 10);
            change(&mut original);
            original
        };
        assert!(rebuild(without(|original| original.body = None), PLACE, &plan()).is_err());
        let headless = without(|original| original.headers = None);
        assert!(rebuild(headless.clone(), PLACE, &plan()).is_err());
        let body_only = Plan { without_headers: true, ..plan() };
        assert!(rebuild(headless, PLACE, &body_only).is_ok());
        let redacted = without(|original| original.redacted = vec!["Cookie".into()]);
        let refused = rebuild(redacted.clone(), PLACE, &plan()).unwrap_err();
        assert!(refused.contains("Cookie"), "{refused}");
        assert!(rebuild(redacted, PLACE, &body_only).is_ok());
        let spaced = without(|original| original.subject = "a b\r\nPUB c 1".into());
        assert!(rebuild(spaced.clone(), PLACE, &plan()).is_err());
        let elsewhere = Plan { to: Some("repair".into()), ..plan() };
        assert_eq!(rebuild(spaced, PLACE, &elsewhere).unwrap().subject, "repair");
    }

    #[test]
    fn a_body_that_fills_the_limit_goes_without_an_id_and_nothing_else() {
        let full = rebuild(original(&[], 1024), PLACE, &plan()).unwrap();
        assert!(full.bare && full.headers.is_empty() && full.body.len() == 1024);
        assert!(rebuild(original(&[("A", "b")], 1005), PLACE, &plan()).is_err());
        assert!(rebuild(original(&[], 1025), PLACE, &plan()).is_err());
        let long = "x".repeat(200);
        let renamed = rebuild(original(&[("A", "b"), ("Nats-TTL", &long)], 850), PLACE, &plan()).unwrap();
        assert_eq!(renamed.headers.len(), 3, "what was no more than a name of a command is left out first");
    }
}
