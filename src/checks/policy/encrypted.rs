//! Whether a body is an encrypted payload envelope (formats §8).
//!
//! The form is all that can be judged without a key. It is judged strictly, so that nothing readable rides along: exactly
//! the fields of formats §8, each at most once, of the right kind. `plaintext_sha256` and `plaintext_size_bytes` may be
//! absent or null, since they tell something about the plaintext; everything else must be there.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;

const SCHEMA: &str = "nats_sinks.encrypted_payload.v1";
/// Characters of base64 that are decoded at a time, a multiple of four, and the bytes that they stand for.
const CHARACTERS: usize = 1024;
const BYTES: usize = CHARACTERS / 4 * 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload<'a> {
    #[serde(borrow, rename = "_nats_sinks_encryption")]
    encryption: Object<Encryption<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Encryption<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    version: u64,
    #[serde(borrow)]
    algorithm: Cow<'a, str>,
    #[serde(borrow)]
    key_id: Cow<'a, str>,
    #[serde(borrow)]
    nonce: Cow<'a, str>,
    nonce_size_bytes: u64,
    #[serde(borrow)]
    ciphertext: Cow<'a, str>,
    #[serde(borrow)]
    ciphertext_encoding: Cow<'a, str>,
    tag_length: u64,
    #[serde(borrow, default)]
    plaintext_sha256: Option<Text<'a>>,
    #[serde(default, rename = "plaintext_size_bytes")]
    _plaintext_size_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A JSON object; the derived reading of a struct would take an array as well.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Object<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Visitor(PhantomData))
    }
}

/// Why a body is no such envelope, in fixed words.
pub(super) fn check(payload: &[u8]) -> Result<(), &'static str> {
    let read = serde_json::from_slice::<Object<Payload<'_>>>(payload);
    // What serde says could quote the body.
    let Ok(Object(Payload { encryption: Object(encryption) })) = read else {
        return Err("the body is no object with exactly the fields of the envelope");
    };
    encryption.check()
}

impl Encryption<'_> {
    fn check(&self) -> Result<(), &'static str> {
        if self.schema != SCHEMA || self.version != 1 {
            return Err("its schema or version is not known");
        }
        // What the two modes define: SP 800-38D (GCM) and SP 800-38C (CCM); a GCM tag below 12 bytes is for special uses.
        let (nonce, tag) = match &*self.algorithm {
            "aes-256-gcm" => (8..=128, 12..=16),
            "aes-256-ccm" => (7..=13, 4..=16),
            _ => return Err("its algorithm is not known"),
        };
        if self.key_id.trim().is_empty() {
            return Err("its key id is blank");
        }
        if !nonce.contains(&self.nonce_size_bytes) || decoded_size(&self.nonce) != Some(self.nonce_size_bytes)
        {
            return Err(
                "its nonce is no base64 of the stated size, or of a size that the algorithm does not have",
            );
        }
        let even_if_ccm = self.algorithm == "aes-256-gcm" || self.tag_length.is_multiple_of(2);
        if !tag.contains(&self.tag_length) || !even_if_ccm {
            return Err("its tag length is none that the algorithm has");
        }
        if self.ciphertext_encoding != "base64" {
            return Err("its encoding is not known");
        }
        // The tag is part of the ciphertext, so an empty plaintext still leaves the tag.
        if decoded_size(&self.ciphertext).is_none_or(|size| size < self.tag_length) {
            return Err("its ciphertext is no base64, or shorter than the tag");
        }
        match &self.plaintext_sha256 {
            Some(Text(hash)) if !is_sha256(hash) => {
                Err("its plaintext_sha256 is no 64 lower-case hex digits")
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The bytes that strict standard base64 stands for; decoded piece by piece, so that a large body needs no memory.
fn decoded_size(text: &str) -> Option<u64> {
    let mut decoded = [0; BYTES];
    let mut size = 0;
    let mut pieces = text.as_bytes().chunks(CHARACTERS).peekable();
    while let Some(piece) = pieces.next() {
        let bytes = STANDARD.decode_slice(piece, &mut decoded).ok()?;
        // Padding stands at the end only.
        if bytes != BYTES && pieces.peek().is_some() {
            return None;
        }
        size += u64::try_from(bytes).ok()?;
    }
    Some(size)
}
