//! Which rule applies, what is looked at in which order, and what is ambiguous.

use super::*;

fn signed(algorithm: Algorithm) -> Message {
    Message::new("orders.new", b"body").header("Nats-Msg-Id", "m1").signed_by(
        &key(algorithm),
        "k1",
        DEFAULT_FIELDS,
    )
}

fn check(algorithm: Algorithm) -> AuthenticityCheck {
    open(vec![rule("orders.>", algorithm, vec![verifying(&key(algorithm), "k1")], DEFAULT_FIELDS)])
}

const NAMES: [&str; 3] = [
    "Nats-Sinks-Authenticity-Algorithm",
    "Nats-Sinks-Authenticity-Key-Id",
    "Nats-Sinks-Authenticity-Signature",
];

#[test]
fn the_first_rule_that_matches_decides_and_what_none_covers_is_rejected() {
    let keys = vec![verifying(&key(Algorithm::HmacSha256), "k1")];
    let rules = vec![
        exempt("orders.open.*"),
        rule("orders.>", Algorithm::HmacSha256, keys, DEFAULT_FIELDS),
        exempt("orders.>"),
    ];
    let strict = open(rules.clone());
    assert_eq!(reason(&strict, &Message::new("orders.open.1", b"")), None);
    assert_eq!(reason(&strict, &Message::new("orders.new", b"")), Some(ReasonCode::AlgorithmHeaderMissing));
    assert_eq!(
        reason(&strict, &Message::new("other", b"")),
        Some(ReasonCode::SubjectNotCoveredByAuthenticityPolicy)
    );
    let settings =
        AuthenticitySettings { headers: AuthenticityHeaders::default(), rules, allow_unmatched: true };
    let lenient =
        AuthenticityCheck::open(Authenticity::Required(settings), &MetadataSettings::default()).unwrap();
    assert_eq!(reason(&lenient, &Message::new("other", b"")), None);
}

#[test]
fn only_a_public_key_signature_is_heavy() {
    assert!(!check(Algorithm::HmacSha256).is_heavy());
    assert!(check(Algorithm::Ed25519).is_heavy());
    assert!(!open(vec![exempt(">")]).is_heavy());
}

#[test]
fn reasons_come_in_the_order_of_formats_2() {
    for algorithm in BOTH {
        let check = check(algorithm);
        let message = signed(algorithm);
        assert_eq!(reason(&check, &message), None);
        let mut bare = Message::new("orders.new", b"body");
        for (name, wrong, missing, mismatch) in [
            (NAMES[0], "rsa", ReasonCode::AlgorithmHeaderMissing, ReasonCode::AlgorithmMismatch),
            (NAMES[1], "k2", ReasonCode::KeyIdHeaderMissing, ReasonCode::KeyIdMismatch),
            (NAMES[2], "AAAA", ReasonCode::SignatureHeaderMissing, ReasonCode::SignatureInvalid),
        ] {
            assert_eq!(reason(&check, &bare), Some(missing));
            assert_eq!(reason(&check, &bare.clone().header(name, " \t")), Some(missing));
            assert_eq!(reason(&check, &bare.clone().header(name, wrong)), Some(mismatch));
            assert_eq!(reason(&check, &bare.clone().header(name, b"\xff")), Some(mismatch));
            let (_, right) = message.headers.iter().find(|(own, _)| own == name).unwrap();
            bare = bare.header(name, right);
        }
        // The message id is signed, and is not there.
        assert_eq!(reason(&check, &bare), Some(ReasonCode::SignatureInvalid));
    }
}

#[test]
fn the_algorithm_is_compared_after_trimming_and_folding() {
    let check = check(Algorithm::HmacSha256);
    let message = signed(Algorithm::HmacSha256).without(NAMES[0]);
    for text in ["hmac-sha256", " HMAC_SHA256 ", "Hmac-Sha256"] {
        assert_eq!(reason(&check, &message.clone().header(NAMES[0], text)), None, "{text}");
    }
    for text in ["hmac-sha25", "hmac-sha2567", "ed25519", "hmac sha256", "none"] {
        let mismatch = Some(ReasonCode::AlgorithmMismatch);
        assert_eq!(reason(&check, &message.clone().header(NAMES[0], text)), mismatch, "{text}");
    }
}

#[test]
fn a_header_that_the_check_rests_on_is_there_once() {
    let key = key(Algorithm::HmacSha256);
    let every = SignedField::ALL;
    let check = open(vec![rule(">", Algorithm::HmacSha256, vec![verifying(&key, "k1")], every)]);
    let ambiguous = Some(ReasonCode::AuthenticityHeaderAmbiguous);
    let plain = Message::new("a", b"")
        .header("Nats-Msg-Id", "m1")
        .header("Nats-Message-Id", "m2")
        .header("message-id", "m3")
        .header("Nats-Sinks-Priority", "high")
        .header("Nats-Sinks-Classification", "open")
        .header("Nats-Sinks-Labels", "x")
        .header("Other", "1")
        .header("Other", "2");
    let message = plain.signed_by(&key, "k1", every);
    assert_eq!(reason(&check, &message), None);
    for (name, value) in message.headers.clone() {
        let expected = if name == "Other" { None } else { ambiguous };
        assert_eq!(reason(&check, &message.clone().header(&name, &value)), expected, "{name}");
        assert_eq!(reason(&check, &message.clone().header(&name.to_uppercase(), &value)), expected, "{name}");
    }
    // It is looked at before anything else.
    let nothing = Message::new("a", b"").header(NAMES[2], "").header("nats-sinks-authenticity-SIGNATURE", "");
    assert_eq!(reason(&check, &nothing), ambiguous);
    // A header behind a field that is not signed may be there twice.
    let fewer =
        open(vec![rule(">", Algorithm::HmacSha256, vec![verifying(&key, "k1")], &[SignedField::Subject])]);
    let message = Message::new("a", b"")
        .header("Nats-Sinks-Priority", "a")
        .header("Nats-Sinks-Priority", "b")
        .header("Nats-Msg-Id", "1")
        .header("nats-msg-id", "2")
        .signed_by(&key, "k1", &[SignedField::Subject]);
    assert_eq!(reason(&fewer, &message), None);
}

#[test]
fn an_omitted_body_is_never_verified() {
    for algorithm in BOTH {
        let check = check(algorithm);
        let message = Message::new("orders.new", b"").header("Nats-Msg-Id", "m1").signed_by(
            &key(algorithm),
            "k1",
            DEFAULT_FIELDS,
        );
        let mut envelope = message.envelope();
        assert_eq!(judge(&check, &envelope), Ok(()));
        envelope.body = Body::Omitted { original_size: Some(0), malformed: false };
        let rejection = judge(&check, &envelope).unwrap_err();
        assert_eq!(rejection.reason, ReasonCode::SignatureInvalid);
        assert!(rejection.detail.contains("headers-only"), "{}", rejection.detail);
    }
}

#[test]
fn a_signed_field_that_cannot_be_read_is_rejected_for_its_own_fault() {
    let key = key(Algorithm::HmacSha256);
    let fault = |reason| {
        Box::new(Rejection {
            stage: Stage::Size,
            reason,
            error_type: ErrorType::Validation,
            detail: "it is not JSON".into(),
        })
    };
    let fields = [SignedField::Subject, SignedField::MissionMetadata];
    let check = open(vec![rule(">", Algorithm::HmacSha256, vec![verifying(&key, "k1")], &fields)]);
    let message = Message::new("a", b"").signed_by(&key, "k1", &fields);
    let judge = |message: &Message, reason| {
        let envelope = message.envelope();
        let reading = Reading { malformed: Some(fault(reason)), ..reading_of(&envelope) };
        check.check(&envelope, &reading).map(drop)
    };
    let rejection = judge(&message, ReasonCode::MissionMetadataInvalid).unwrap_err();
    assert_eq!(rejection.stage, Stage::Authenticity);
    assert_eq!(rejection.reason, ReasonCode::MissionMetadataInvalid);
    assert_eq!(rejection.error_type, ErrorType::Validation);
    // Not signed: its own check will reject it.
    assert_eq!(judge(&message, ReasonCode::SecurityLabelsInvalid), Ok(()));
    // Without a signature, that is the answer.
    let bare = message.without(NAMES[2]);
    let rejection = judge(&bare, ReasonCode::MissionMetadataInvalid).unwrap_err();
    assert_eq!(rejection.reason, ReasonCode::SignatureHeaderMissing);
}

fn reading_of(envelope: &Envelope) -> Reading {
    MetadataReader::new(MetadataSettings::default()).read(envelope)
}

#[test]
fn rejections_show_nothing_of_the_message() {
    let check = check(Algorithm::HmacSha256);
    let message = Message::new("orders.CANARY", b"CANARY").header("Nats-Msg-Id", "CANARY");
    let mut last = message.clone();
    for name in NAMES {
        let (_, right) =
            signed(Algorithm::HmacSha256).headers.into_iter().find(|(own, _)| own == name).unwrap();
        for candidate in [last.clone(), last.clone().header(name, "CANARY")] {
            let rejection = judge(&check, &candidate.envelope()).unwrap_err();
            assert!(!format!("{rejection:?}").contains("CANARY"), "{rejection:?}");
        }
        last = last.header(name, right);
    }
    let rejection = judge(&check, &last.envelope()).unwrap_err();
    assert_eq!(rejection.reason, ReasonCode::SignatureInvalid);
    assert!(!format!("{rejection:?}").contains("CANARY"));
}
