//! What the metadata of a message is (formats §1): from its headers, else from a rule for its subject, else the default.
//! Header names are compared in any case, and the first header of a name counts. A header that is there and blank says
//! explicitly *nothing*.
//!
//! Reading is total: whatever a header holds, there is metadata, and perhaps a fault for which the message is rejected. A
//! message without metadata headers is read without taking memory, also when rules or defaults give it metadata.

mod given;
mod labels;
mod mission;
mod security_labels;
mod settings;

use std::sync::Arc;

pub use settings::{
    AllowedLabels, MAX_DOCUMENT_BYTES, MetadataError, MetadataHeaders, MetadataRule, MetadataSettings,
    MetadataValues, SecurityLabelSettings,
};

use self::given::Given;
use self::security_labels::Profile;
use crate::delivery::Rejection;
use crate::envelope::{Envelope, Headers, Metadata, SharedMetadata};
use crate::reason::{ErrorType, ReasonCode, Stage};

/// What was read of one message.
#[derive(Debug)]
pub(super) struct Reading {
    /// The metadata; without the field that is malformed.
    pub(super) metadata: SharedMetadata,
    /// The rejection that a malformed header causes once its turn has come (`mission_metadata_invalid`, …).
    pub(super) malformed: Option<Box<Rejection>>,
    /// The labels are those of the message's header.
    pub(super) own_labels: bool,
}

/// Reads the metadata of messages.
#[derive(Clone, Debug)]
pub(super) struct MetadataReader {
    headers: MetadataHeaders,
    given: Arc<Given>,
}

impl MetadataReader {
    pub(super) fn new(settings: MetadataSettings) -> Self {
        let given = Given::new(settings.rules, settings.defaults, settings.security_labels);
        Self { headers: settings.headers, given: Arc::new(given) }
    }

    pub(super) const fn headers(&self) -> &MetadataHeaders {
        &self.headers
    }

    pub(super) fn read(&self, envelope: &Envelope) -> Reading {
        let subject = &envelope.subject;
        let Some(own) = self.find(&envelope.headers) else {
            let (metadata, fault) = self.given.answer(subject);
            return Reading { metadata, malformed: fault.map(rejection), own_labels: false };
        };
        let (metadata, fault) = self.merged(subject, &own);
        Reading {
            metadata: SharedMetadata::new(metadata),
            malformed: fault.map(rejection),
            own_labels: own.labels.is_some(),
        }
    }

    /// The metadata headers of a message, if it has any.
    fn find<'a>(&self, headers: &'a Headers) -> Option<Own<'a>> {
        let names = &self.headers;
        let security = self.given.security().map(|settings| settings.header.as_str());
        let mut own = Own::default();
        for (name, value) in headers.iter() {
            let field = if name.eq_ignore_ascii_case(&names.priority) {
                &mut own.priority
            } else if name.eq_ignore_ascii_case(&names.classification) {
                &mut own.classification
            } else if name.eq_ignore_ascii_case(&names.labels) {
                &mut own.labels
            } else if name.eq_ignore_ascii_case(&names.mission_metadata) {
                &mut own.mission_metadata
            } else if security.is_some_and(|security| name.eq_ignore_ascii_case(security)) {
                &mut own.security_labels
            } else {
                continue;
            };
            field.get_or_insert(value);
        }
        (own != Own::default()).then_some(own)
    }

    /// The metadata of a message that has headers of its own, and the first fault of them.
    fn merged(&self, subject: &str, own: &Own<'_>) -> (Metadata, Option<MetadataError>) {
        let given = &self.given;
        let sources = given.sources(subject);
        let mut faults = Faults(None);
        let mut metadata = Metadata {
            priority: match own.priority {
                Some(value) => faults.taken(text("priority", value)).and_then(labels::text),
                None => given.priority(sources),
            },
            classification: match own.classification {
                Some(value) => faults.taken(text("classification", value)).and_then(labels::text),
                None => given.classification(sources),
            },
            labels: match own.labels {
                Some(value) => labels::unique(faults.taken(text("labels", value)).unwrap_or("").split(';')),
                None => given.labels(sources),
            },
            mission_metadata: match own.mission_metadata {
                Some(value) => faults.taken(mission::read(value)).flatten(),
                None => given.mission_metadata(sources),
            },
            security_labels: None,
        };
        let security_labels = match (own.security_labels, given.security()) {
            (Some(value), Some(settings)) => Profile::read(value, settings)
                .and_then(|profile| profile.map(|profile| profile.complete(&metadata, settings)).transpose()),
            _ => given.security_labels(subject, &metadata),
        };
        metadata.security_labels = faults.taken(security_labels).flatten();
        (metadata, faults.0)
    }
}

/// The first value of each metadata header.
#[derive(Debug, Default, PartialEq, Eq)]
struct Own<'a> {
    priority: Option<&'a [u8]>,
    classification: Option<&'a [u8]>,
    labels: Option<&'a [u8]>,
    mission_metadata: Option<&'a [u8]>,
    security_labels: Option<&'a [u8]>,
}

/// The first fault of a message.
struct Faults(Option<MetadataError>);

impl Faults {
    fn taken<T>(&mut self, read: Result<T, MetadataError>) -> Option<T> {
        read.map_err(|fault| self.0.get_or_insert(fault).to_owned()).ok()
    }
}

/// A header that is text. Bytes that are no text are a fault and not *nothing*: a default must not take their place.
fn text<'a>(field: &'static str, value: &'a [u8]) -> Result<&'a str, MetadataError> {
    std::str::from_utf8(value).map_err(|_| MetadataError::NotText { field })
}

fn rejection(error: MetadataError) -> Box<Rejection> {
    let reason = match error {
        MetadataError::NotText { .. } | MetadataError::MissionMetadata(_) => {
            ReasonCode::MissionMetadataInvalid
        }
        MetadataError::SecurityLabels(_) | MetadataError::Profile { .. } => ReasonCode::SecurityLabelsInvalid,
        MetadataError::NotAllowed { .. } => ReasonCode::SecurityLabelNotAllowed,
    };
    Box::new(Rejection {
        stage: Stage::Size,
        reason,
        error_type: ErrorType::Validation,
        detail: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
