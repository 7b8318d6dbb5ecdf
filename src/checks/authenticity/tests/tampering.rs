//! Properties: what does not matter changes nothing, and what matters changes the verdict.

use super::*;

const FIELDS: &[SignedField] = &[
    SignedField::Subject,
    SignedField::MessageId,
    SignedField::Priority,
    SignedField::Classification,
    SignedField::Labels,
];

fn checks() -> Vec<(AuthenticityCheck, SigningKey)> {
    let one = |algorithm| {
        let rule = rule(">", algorithm, vec![verifying(&key(algorithm), "k1")], FIELDS);
        (open(vec![rule]), key(algorithm))
    };
    BOTH.into_iter().map(one).collect()
}

fn message() -> impl Strategy<Value = Message> {
    let word = "[a-z]{1,6}";
    (
        "[a-z]{1,4}\\.[a-z]{1,4}",
        word,
        word,
        word,
        "[a-z]{1,3}(;[a-z]{1,3}){0,3}",
        proptest::collection::vec(any::<u8>(), 0..80),
    )
        .prop_map(|(subject, id, priority, classification, labels, payload)| {
            Message::new(&subject, &payload)
                .header("Nats-Msg-Id", id)
                .header("Nats-Sinks-Priority", priority)
                .header("Nats-Sinks-Classification", classification)
                .header("Nats-Sinks-Labels", labels)
        })
}

fn bytes_of(message: &Message) -> Vec<u8> {
    let envelope = message.envelope();
    let reading = MetadataReader::new(MetadataSettings::default()).read(&envelope);
    signed_bytes(Algorithm::Ed25519, "k1", FIELDS, &input(&envelope, &reading.metadata))
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

proptest! {
    // A public-key signature is slow in a test build.
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_headers_and_fields_changes_nothing(
        message in message(), order in any::<u64>(), fields in proptest::sample::subsequence(FIELDS.to_vec(), 0..=5).prop_shuffle(),
    ) {
        for (check, key) in checks() {
            let signed = message.clone().signed_by(&key, "k1", FIELDS);
            let mut other = signed.clone();
            let count = other.headers.len();
            for position in 1..count {
                other.headers.swap(position, usize::try_from(order.rotate_left(u32::try_from(position).unwrap()) % (u64::try_from(position).unwrap() + 1)).unwrap());
            }
            prop_assert_eq!(bytes_of(&signed), bytes_of(&other));
            prop_assert_eq!(reason(&check, &other), None);
        }
        let envelope = message.envelope();
        let reading = MetadataReader::new(MetadataSettings::default()).read(&envelope);
        let input = input(&envelope, &reading.metadata);
        let mut sorted = fields.clone();
        sorted.sort_unstable();
        sorted.extend(sorted.clone());
        prop_assert_eq!(
            signed_bytes(Algorithm::HmacSha256, "k", &fields, &input),
            signed_bytes(Algorithm::HmacSha256, "k", &sorted, &input)
        );
    }

    #[test]
    fn the_signed_bytes_are_canonical_json(message in message()) {
        let text = String::from_utf8(bytes_of(&message)).unwrap();
        let bounds = crate::json::Bounds { bytes: 1 << 16, depth: 8, fields: 100, items: 100 };
        prop_assert_eq!(crate::json::Object::parse(text.as_bytes(), &bounds).unwrap().canonical(), text);
    }

    #[test]
    fn any_bit_of_the_payload_counts(message in message(), bit in any::<proptest::sample::Index>()) {
        for (check, key) in checks() {
            let mut signed = message.clone().signed_by(&key, "k1", FIELDS);
            if signed.payload.is_empty() {
                signed.payload.push(0);
            } else {
                let bits = signed.payload.len() * 8;
                flip(&mut signed.payload, bit.index(bits));
            }
            prop_assert_eq!(reason(&check, &signed), Some(ReasonCode::SignatureInvalid));
        }
    }

    #[test]
    fn any_bit_of_a_signed_field_counts(
        message in message(), header in 0..4_usize, bit in any::<proptest::sample::Index>(), of_subject in any::<bool>(),
    ) {
        for (check, key) in checks() {
            let signed = message.clone().signed_by(&key, "k1", FIELDS);
            let mut changed = signed.clone();
            if of_subject {
                let mut subject = changed.subject.into_bytes();
                let bits = subject.len() * 8;
                flip(&mut subject, bit.index(bits));
                // A subject is text.
                let Ok(subject) = String::from_utf8(subject) else { continue };
                changed.subject = subject;
                prop_assert!(reason(&check, &changed).is_some());
                continue;
            }
            let value = &mut changed.headers[header].1;
            let bits = value.len() * 8;
            flip(value, bit.index(bits));
            if std::str::from_utf8(value).is_err() {
                prop_assert!(matches!(
                    reason(&check, &changed),
                    Some(ReasonCode::MissionMetadataInvalid | ReasonCode::SignatureInvalid)
                ));
                continue;
            }
            if bytes_of(&changed) == bytes_of(&signed) {
                // White space at an end, or an empty label.
                continue;
            }
            let rejected = reason(&check, &changed);
            prop_assert!(
                matches!(rejected, Some(ReasonCode::SignatureInvalid | ReasonCode::MissionMetadataInvalid)),
                "{:?}", rejected
            );
        }
    }

    #[test]
    fn any_bit_of_the_signature_counts(message in message(), bit in any::<proptest::sample::Index>()) {
        for (check, key) in checks() {
            let signed = message.clone().signed_by(&key, "k1", FIELDS);
            let mut of_text = signed.clone();
            let text = &mut of_text.headers.last_mut().unwrap().1;
            let bits = text.len() * 8;
            flip(text, bit.index(bits));
            prop_assert_eq!(reason(&check, &of_text), Some(ReasonCode::SignatureInvalid));
            let mut of_bytes = signed;
            let text = &mut of_bytes.headers.last_mut().unwrap().1;
            let mut bytes = STANDARD.decode(&*text).unwrap();
            let bits = bytes.len() * 8;
            flip(&mut bytes, bit.index(bits));
            *text = STANDARD.encode(bytes).into_bytes();
            prop_assert_eq!(reason(&check, &of_bytes), Some(ReasonCode::SignatureInvalid));
        }
    }

    #[test]
    fn judging_is_total(
        headers in proptest::collection::vec((0..6_usize, proptest::collection::vec(any::<u8>(), 0..100)), 0..6),
    ) {
        let names = AuthenticityHeaders::default();
        let names = [&names.algorithm, &names.key_id, &names.signature, "Nats-Msg-Id", "Nats-Sinks-Labels", "x"];
        for (check, _) in checks() {
            let message = Message::new("a.b", b"x");
            let message = headers.iter().fold(message, |own, (name, value)| own.header(names[*name], value));
            prop_assert!(reason(&check, &message).is_some());
        }
    }
}
