//! The reply subject of a delivery: where it stands in stream and durable (NATS: `$JS.ACK.…`, 9 or 11 and more tokens).

use crate::clock::Timestamp;

/// The facts in a reply subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeliveryFacts {
    pub(super) delivered: u64,
    pub(super) stream_sequence: u64,
    pub(super) consumer_sequence: u64,
    pub(super) stored_at: Timestamp,
    pub(super) pending: u64,
}

/// Reads a reply subject of either form: `$JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<ns>.<pending>`, or with
/// domain and account hash before the stream and optional tokens after the number of pending messages.
pub(super) fn parse(reply: &str) -> Option<DeliveryFacts> {
    let rest = reply.strip_prefix("$JS.ACK.")?;
    let skipped = match rest.split('.').count() {
        7 => 2,
        9.. => 4,
        _ => return None,
    };
    let mut tokens = rest.split('.').skip(skipped);
    let mut number = || tokens.next().and_then(|token| token.parse::<u64>().ok());
    let (delivered, stream_sequence, consumer_sequence) = (number()?, number()?, number()?);
    let stored_at = Timestamp(i64::try_from(number()?).ok()?);
    let pending = number()?;
    Some(DeliveryFacts { delivered, stream_sequence, consumer_sequence, stored_at, pending })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    const FACTS: DeliveryFacts = DeliveryFacts {
        delivered: 1,
        stream_sequence: 2,
        consumer_sequence: 3,
        stored_at: Timestamp(1_796_078_187_322_511_484),
        pending: 4,
    };

    #[test]
    fn both_forms_are_read() {
        assert_eq!(parse("$JS.ACK.S.C.1.2.3.1796078187322511484.4"), Some(FACTS));
        assert_eq!(parse("$JS.ACK._.NUmM6cRx.S.C.1.2.3.1796078187322511484.4"), Some(FACTS));
        assert_eq!(parse("$JS.ACK.hub.NUmM6cRx.S.C.1.2.3.1796078187322511484.4.token"), Some(FACTS));
    }

    #[test]
    fn anything_else_is_not() {
        for text in
            ["", "_INBOX.x", "$JS.ACK.S.C.1.2.3.4", "$JS.ACK.a.S.C.1.2.3.4.5", "$JS.ACK.S.C.1.x.3.4.5"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_total(text in any::<String>()) {
            let _facts = parse(&text);
            let _facts = parse(&format!("$JS.ACK.{text}"));
        }
    }
}
