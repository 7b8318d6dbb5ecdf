//! The bytes that a signature covers (formats §2): one JSON object in canonical spelling, written by hand with its keys in
//! their sorted order. Nothing is read back, so there is no second opinion about what they say.

use sha2::{Digest as _, Sha256};

use super::settings::{Algorithm, SignedField};
use crate::envelope::Metadata;
use crate::json::{write_canonical_string, write_hex};

/// What of a message a signature may cover.
#[derive(Clone, Copy, Debug)]
pub struct SigningInput<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The message id, trimmed; `None` = there is none.
    pub message_id: Option<&'a str>,
    /// The metadata, after normalisation.
    pub metadata: &'a Metadata,
    /// The body as it is.
    pub payload: &'a [u8],
}

/// The bytes that a signature of this message covers. `fields` in any order; one that stands twice counts once.
#[must_use]
pub fn signed_bytes(
    algorithm: Algorithm,
    key_id: &str,
    fields: &[SignedField],
    input: &SigningInput<'_>,
) -> Vec<u8> {
    let mut out = opening(algorithm, key_id);
    write_rest(&ordered(fields), input, &mut out);
    out
}

/// The fields in the order of the signed bytes.
pub(super) fn ordered(fields: &[SignedField]) -> Vec<SignedField> {
    SignedField::ALL.iter().copied().filter(|field| fields.contains(field)).collect()
}

/// What is the same for every message that one key signs: everything up to the metadata.
pub(super) fn opening(algorithm: Algorithm, key_id: &str) -> Vec<u8> {
    let mut out = b"{\"algorithm\":".to_vec();
    write_canonical_string(algorithm.as_str(), &mut out);
    out.extend_from_slice(b",\"key_id\":");
    write_canonical_string(key_id, &mut out);
    out.extend_from_slice(b",\"metadata\":{");
    out
}

/// Appends everything behind the opening. `fields` are [`ordered`].
pub(super) fn write_rest(fields: &[SignedField], input: &SigningInput<'_>, out: &mut Vec<u8>) {
    let mut separator: &[u8] = b"\"";
    for field in fields {
        out.extend_from_slice(separator);
        out.extend_from_slice(field.as_str().as_bytes());
        out.extend_from_slice(b"\":");
        write_field(*field, input, out);
        separator = b",\"";
    }
    out.extend_from_slice(b"},\"payload_sha256\":\"");
    write_hex(&Sha256::digest(input.payload), out);
    out.extend_from_slice(b"\",\"schema\":\"nats_sinks.message_authenticity.v1\",\"version\":1}");
}

fn write_field(field: SignedField, input: &SigningInput<'_>, out: &mut Vec<u8>) {
    let metadata = input.metadata;
    match field {
        SignedField::Classification => write_text(metadata.classification.as_deref(), out),
        SignedField::Labels => write_texts(&metadata.labels, out),
        SignedField::MessageId => write_text(input.message_id, out),
        SignedField::MissionMetadata => write_json(metadata.mission_metadata.as_deref(), out),
        SignedField::Priority => write_text(metadata.priority.as_deref(), out),
        SignedField::SecurityLabels => write_json(metadata.security_labels.as_deref(), out),
        SignedField::Subject => write_canonical_string(input.subject, out),
    }
}

fn write_text(text: Option<&str>, out: &mut Vec<u8>) {
    match text {
        Some(text) => write_canonical_string(text, out),
        None => out.extend_from_slice(b"null"),
    }
}

fn write_texts(texts: &[String], out: &mut Vec<u8>) {
    out.push(b'[');
    let mut separator: &[u8] = b"";
    for text in texts {
        out.extend_from_slice(separator);
        write_canonical_string(text, out);
        separator = b",";
    }
    out.push(b']');
}

/// Metadata keeps JSON in its canonical spelling, so it is part of the signed bytes as it is.
fn write_json(canonical: Option<&str>, out: &mut Vec<u8>) {
    out.extend_from_slice(canonical.unwrap_or("null").as_bytes());
}
