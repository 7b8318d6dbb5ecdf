//! Names of headers: each has one meaning.

use crate::config::raw::Raw;
use crate::config::validate::{Validator, names};

pub(super) fn check(raw: &Raw, validator: &mut Validator<'_>) {
    let (metadata, authenticity) = (&raw.message_metadata, &raw.message_authenticity);
    let headers = [
        ("message_metadata.priority_header", &metadata.priority_header),
        ("message_metadata.classification_header", &metadata.classification_header),
        ("message_metadata.labels_header", &metadata.labels_header),
        ("message_metadata.mission_metadata_header", &metadata.mission_metadata_header),
        ("security_labels.header", &raw.security_labels.header),
        ("message_authenticity.algorithm_header", &authenticity.algorithm_header),
        ("message_authenticity.key_id_header", &authenticity.key_id_header),
        ("message_authenticity.signature_header", &authenticity.signature_header),
    ];
    for (index, (key, name)) in headers.iter().enumerate() {
        if let Some(fault) = names::header_fault_of(name) {
            validator.refuse(&[key], fault, "write printable ASCII without blanks and colons");
        }
        validator.require(
            !names::is_reserved_header(name),
            &[key],
            "names a header that has a meaning of its own for the server",
            "choose another name; those that begin with Nats- (but for Nats-Sinks-) or Nmqtt-, and message-id, are taken",
        );
        let twin = headers.iter().take(index).find(|(_, other)| other.eq_ignore_ascii_case(name));
        if let Some((other, _)) = twin {
            validator.refuse(
                &[key, other],
                format!("{key} and {other} name the same header"),
                "give each its own header",
            );
        }
    }
}
