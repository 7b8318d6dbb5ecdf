//! Messages that the reference signed: the outcome and the signed bytes are as it says.

use super::*;

struct Vector {
    name: String,
    message: Message,
    rule: AuthenticityRule,
    key_id: String,
    fields: Vec<SignedField>,
    canonical: Vec<u8>,
    expect: String,
}

fn vectors() -> Vec<Vector> {
    let lines = include_str!("../../../../tests/vectors/authenticity.jsonl").lines();
    lines.map(|line| vector(&serde_json::from_str(line).unwrap())).collect()
}

fn vector(json: &serde_json::Value) -> Vector {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut message =
        Message::new(&text(&json["subject"]), &STANDARD.decode(text(&json["payload_base64"])).unwrap());
    for header in json["headers"].as_array().unwrap() {
        message = message.header(&text(&header[0]), text(&header[1]));
    }
    let own = &json["rule"];
    let named = |name: &str| SignedField::ALL.iter().copied().find(|field| field.as_str() == name).unwrap();
    let fields: Vec<_> = own["signed_fields"].as_array().unwrap().iter().map(|n| named(&text(n))).collect();
    let algorithm = BOTH.into_iter().find(|own_name| own_name.as_str() == own["algorithm"]).unwrap();
    let key = KeySettings {
        key_id: text(&own["key_id"]),
        source: SecretSource::Inline(Secret::new(text(&own["key_base64"]))),
        not_before: None,
        not_after: None,
    };
    Vector {
        name: text(&json["name"]),
        message,
        key_id: key.key_id.clone(),
        rule: rule(">", algorithm, vec![key], &fields),
        fields,
        canonical: STANDARD.decode(text(&json["canonical_base64"])).unwrap(),
        expect: text(&json["expect"]),
    }
}

#[test]
fn every_vector_ends_as_it_says() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 24);
    for vector in vectors {
        let outcome = reason(&open(vec![vector.rule]), &vector.message);
        let outcome = outcome.map_or("pass", ReasonCode::as_str);
        assert_eq!(outcome, vector.expect, "{}", vector.name);
    }
}

#[test]
fn every_vector_has_the_signed_bytes_it_says() {
    for vector in vectors() {
        let mut message = vector.message.clone();
        if vector.name.starts_with("tampered/") {
            // The bytes are those of the body that was signed.
            message.payload = b"{\"id\":1}".to_vec();
        }
        let envelope = message.envelope();
        let reading = MetadataReader::new(MetadataSettings::default()).read(&envelope);
        let algorithm = vector.rule.signature.as_ref().unwrap().algorithm;
        let input = input(&envelope, &reading.metadata);
        let bytes = signed_bytes(algorithm, &vector.key_id, &vector.fields, &input);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            String::from_utf8(vector.canonical).unwrap(),
            "{}",
            vector.name
        );
    }
}
