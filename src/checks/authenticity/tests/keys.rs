//! Keys: what is one, where it is read, overlap, windows, reload.

use super::*;

fn text(bytes: &[u8]) -> Secret {
    Secret::new(STANDARD.encode(bytes))
}

fn opened(algorithm: Algorithm, source: SecretSource) -> Result<AuthenticityCheck, KeyRingError> {
    let key = KeySettings { key_id: "k1".into(), source, not_before: None, not_after: None };
    let rules = vec![rule("orders.>", algorithm, vec![key], DEFAULT_FIELDS)];
    let settings =
        AuthenticitySettings { headers: AuthenticityHeaders::default(), rules, allow_unmatched: false };
    AuthenticityCheck::open(Authenticity::Required(settings), &MetadataSettings::default())
}

fn key_error(algorithm: Algorithm, secret: Secret) -> Option<KeyError> {
    match opened(algorithm, SecretSource::Inline(secret)) {
        Ok(_) => None,
        Err(KeyRingError::Unusable { source, .. }) => Some(source),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_a_key_is() {
    for (length, valid) in [(0, false), (31, false), (32, true), (64, true), (1024, true), (1025, false)] {
        let error = (!valid).then_some(KeyError::HmacLength { bytes: length });
        assert_eq!(key_error(Algorithm::HmacSha256, text(&vec![0; length])), error);
        assert_eq!(SigningKey::parse(Algorithm::HmacSha256, &text(&vec![0; length])).err(), error);
    }
    for length in [0, 31, 33, 64] {
        let error = Some(KeyError::Ed25519Length { bytes: length });
        assert_eq!(key_error(Algorithm::Ed25519, text(&vec![0; length])), error);
        assert_eq!(SigningKey::parse(Algorithm::Ed25519, &text(&vec![0; length])).err(), error);
    }
    let mut identity = [0; 32];
    identity[0] = 1;
    // The neutral element, and the point of order 4 with y = 0.
    assert_eq!(key_error(Algorithm::Ed25519, text(&identity)), Some(KeyError::Weak));
    assert_eq!(key_error(Algorithm::Ed25519, text(&[0; 32])), Some(KeyError::Weak));
    let mut no_point = [0; 32];
    no_point[0] = 2;
    assert_eq!(key_error(Algorithm::Ed25519, text(&no_point)), Some(KeyError::NoPoint));
}

#[test]
fn keys_are_strict_standard_base64() {
    let good = STANDARD.encode([0xFB_u8; 32]);
    for bad in [
        good.trim_end_matches('=').to_owned(),
        good.replace('+', "-").replace('/', "_"),
        good.split_at(4).0.to_owned() + " " + good.split_at(4).1,
        format!("{good}x"),
        // Bits that stand for nothing are not zero.
        good.replace("s=", "t="),
        "CANARY!".to_owned(),
    ] {
        assert_ne!(bad, good);
        for algorithm in BOTH {
            let error = key_error(algorithm, Secret::new(bad.clone()));
            assert_eq!(error, Some(KeyError::NotBase64), "{bad}");
        }
    }
    assert_eq!(key_error(Algorithm::HmacSha256, Secret::new(format!(" {good}\n\n"))), None);
}

#[test]
fn errors_name_the_place_and_never_the_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("the-key");
    let error = opened(Algorithm::HmacSha256, SecretSource::File(path.clone())).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(error.to_string(), "message_authenticity.rules[0] (orders.>): key k1 cannot be read");
    assert!(source.contains("the-key"), "{source}");
    std::fs::write(&path, "CANARY\n").unwrap();
    let error = opened(Algorithm::HmacSha256, SecretSource::File(path)).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.to_string().contains("the-key"), "{error}");
    assert!(source.contains("jetsink keygen"), "{source}");
    assert!(!format!("{error} {error:?} {source}").contains("CANARY"));
}

#[test]
fn keys_never_show_themselves() {
    for algorithm in BOTH {
        let key = SigningKey::generate(algorithm).unwrap();
        let secret = key.secret_text();
        let check = open(vec![rule(">", algorithm, vec![verifying(&key, "k1")], DEFAULT_FIELDS)]);
        let shown = format!("{key:?} {check:?} {secret:?}");
        assert!(!shown.contains(secret.expose()));
        let bytes = STANDARD.decode(secret.expose()).unwrap();
        assert!(!shown.contains(format!("{:?}", &bytes[..4]).trim_matches(['[', ']'])), "{shown}");
        let again = SigningKey::parse(algorithm, &secret).unwrap();
        assert_eq!(again.secret_text(), secret);
        assert_eq!(again.public_text(), key.public_text());
        assert_eq!(again.algorithm(), algorithm);
        assert_ne!(SigningKey::generate(algorithm).unwrap().secret_text(), secret);
    }
}

#[test]
fn two_keys_of_a_rule_overlap_and_have_distinct_ids() {
    for algorithm in BOTH {
        let (old, new) = (SigningKey::generate(algorithm).unwrap(), SigningKey::generate(algorithm).unwrap());
        let keys = vec![verifying(&old, "old"), verifying(&new, "new")];
        let check = open(vec![rule(">", algorithm, keys, DEFAULT_FIELDS)]);
        assert_eq!(check.key_ids(), ["old", "new"]);
        let message = Message::new("a", b"x");
        assert_eq!(reason(&check, &message.clone().signed_by(&old, "old", DEFAULT_FIELDS)), None);
        assert_eq!(reason(&check, &message.clone().signed_by(&new, "new", DEFAULT_FIELDS)), None);
        // The id is part of what is signed, and chooses the key.
        let crossed = message.clone().signed_by(&old, "new", DEFAULT_FIELDS);
        assert_eq!(reason(&check, &crossed), Some(ReasonCode::SignatureInvalid));
        let other = message.signed_by(&old, "other", DEFAULT_FIELDS);
        assert_eq!(reason(&check, &other), Some(ReasonCode::KeyIdMismatch));
    }
    let key = key(Algorithm::HmacSha256);
    let twice = vec![verifying(&key, "k1"), verifying(&key, "k1")];
    let settings = AuthenticitySettings {
        headers: AuthenticityHeaders::default(),
        rules: vec![exempt("a"), rule(">", Algorithm::HmacSha256, twice, DEFAULT_FIELDS)],
        allow_unmatched: false,
    };
    let error = AuthenticityCheck::open(Authenticity::Required(settings), &MetadataSettings::default());
    assert!(matches!(error, Err(KeyRingError::IdTwice { rule: 1, .. })));
}

#[test]
fn a_key_outside_its_window_counts_as_not_there() {
    let key = key(Algorithm::HmacSha256);
    let window = |first: Option<i64>, last: Option<i64>| {
        let settings = KeySettings {
            not_before: first.map(Timestamp),
            not_after: last.map(Timestamp),
            ..verifying(&key, "k1")
        };
        open(vec![rule(">", Algorithm::HmacSha256, vec![settings], DEFAULT_FIELDS)])
    };
    let message = Message::new("a", b"x").signed_by(&key, "k1", DEFAULT_FIELDS);
    let outside = Some(ReasonCode::KeyIdMismatch);
    for (first, last, expected) in [
        (None, None, None),
        (Some(1_000), Some(1_000), None),
        (Some(1_001), None, outside),
        (None, Some(999), outside),
        (Some(999), Some(1_001), None),
    ] {
        assert_eq!(reason(&window(first, last), &message), expected, "{first:?} {last:?}");
    }
}

#[test]
fn a_reload_swaps_every_key_or_none() {
    for algorithm in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let (old, new) = (SigningKey::generate(algorithm).unwrap(), SigningKey::generate(algorithm).unwrap());
        let write = |key: &SigningKey| {
            let text = key.public_text().map_or_else(|| key.secret_text(), Secret::new);
            std::fs::write(&path, text.expose()).unwrap();
        };
        write(&old);
        let check = opened(algorithm, SecretSource::File(path.clone())).unwrap();
        let message = Message::new("orders.new", b"x");
        let by_old = message.clone().signed_by(&old, "k1", DEFAULT_FIELDS);
        let by_new = message.signed_by(&new, "k1", DEFAULT_FIELDS);
        let invalid = Some(ReasonCode::SignatureInvalid);
        assert_eq!((reason(&check, &by_old), reason(&check, &by_new)), (None, invalid));
        std::fs::write(&path, "no key").unwrap();
        assert!(matches!(check.reload_keys(), Err(KeyRingError::Unusable { rule: 0, .. })));
        assert_eq!((reason(&check, &by_old), reason(&check, &by_new)), (None, invalid));
        write(&new);
        assert_eq!(check.reload_keys().unwrap(), ["k1"]);
        assert_eq!((reason(&check, &by_old), reason(&check, &by_new)), (invalid, None));
    }
    let nothing = AuthenticityCheck::open(Authenticity::NotRequired, &MetadataSettings::default()).unwrap();
    assert!(nothing.reload_keys().unwrap().is_empty());
}
