//! What a case expects.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::output::on_one_line;
use crate::delivery::{Judgement, Verdict};
use crate::envelope::Envelope;
use crate::reason::{ReasonCode, Stage};

/// The verdict that a case expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// `pass`
    Pass,
    /// `warn`: it passes, and the policy that only warns has something against it.
    Warn,
    /// A reason code, and the stage if one is named.
    Rejected(ReasonCode, Option<Stage>),
}

impl Expectation {
    /// Reads `expect` and `stage`.
    pub(super) fn parse(expect: &str, stage: Option<&str>) -> Result<Self, String> {
        let stage = stage
            .map(|text| {
                let stages = [Stage::Authenticity, Stage::Size, Stage::Policy];
                let found = stages.into_iter().find(|stage| stage.as_str() == text);
                found.ok_or("stage is none of authenticity, size, policy")
            })
            .transpose()?;
        match (expect, stage) {
            ("pass", None) => Ok(Self::Pass),
            ("warn", None) => Ok(Self::Warn),
            ("pass" | "warn", Some(_)) => Err("a stage is named, yet no rejection is expected".into()),
            (code, stage) => {
                let found = ReasonCode::ALL.iter().find(|own| own.as_str() == code);
                let found =
                    found.ok_or("expect is neither pass, warn nor a reason code (docs/reason-codes.md)")?;
                Ok(Self::Rejected(*found, stage))
            }
        }
    }

    /// Whether the verdict is the expected one.
    pub(super) fn is_met_by(self, verdict: &Verdict) -> bool {
        match (self, verdict) {
            (Self::Pass, Verdict::Permitted) | (Self::Warn, Verdict::PermittedWithWarning(_)) => true,
            (Self::Rejected(reason, stage), Verdict::Rejected(rejection)) => {
                rejection.reason == reason && stage.is_none_or(|stage| rejection.stage == stage)
            }
            (Self::Pass | Self::Warn | Self::Rejected(..), _) => false,
        }
    }

    /// In words.
    pub(super) fn text(self) -> String {
        match self {
            Self::Pass => "pass".into(),
            Self::Warn => "warn".into(),
            Self::Rejected(reason, None) => reason.as_str().into(),
            Self::Rejected(reason, Some(stage)) => format!("{reason} at stage {}", stage.as_str()),
        }
    }
}

/// The metadata that a case expects; what it does not name is not looked at. A blank text and an empty list say: nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ExpectedMetadata {
    message_id: Option<String>,
    priority: Option<String>,
    classification: Option<String>,
    labels: Option<Vec<String>>,
    mission_metadata: Option<Value>,
    security_labels: Option<Value>,
}

/// One field that is not as expected.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub(super) field: &'static str,
    pub(super) expected: Value,
    pub(super) found: Value,
}

impl ExpectedMetadata {
    /// What differs.
    pub(super) fn differences(&self, envelope: &Envelope, judgement: &Judgement) -> Vec<Difference> {
        let metadata = &judgement.metadata;
        let fields = [
            ("message_id", text(self.message_id.as_deref()), of(envelope.message_id())),
            ("priority", text(self.priority.as_deref()), of(metadata.priority.as_deref())),
            ("classification", text(self.classification.as_deref()), of(metadata.classification.as_deref())),
            ("labels", self.labels.clone().map(Value::from), metadata.labels.clone().into()),
            (
                "mission_metadata",
                document(self.mission_metadata.as_ref()),
                parsed(metadata.mission_metadata.as_deref()),
            ),
            (
                "security_labels",
                document(self.security_labels.as_ref()),
                parsed(metadata.security_labels.as_deref()),
            ),
        ];
        let differing = fields.into_iter().filter_map(|(field, expected, found)| {
            expected.filter(|expected| *expected != found).map(|expected| Difference {
                field,
                expected,
                found,
            })
        });
        differing.collect()
    }
}

impl Difference {
    /// In words.
    pub(super) fn text(&self) -> String {
        on_one_line(&format!("metadata.{}: expected {}, found {}", self.field, self.expected, self.found))
    }
}

/// An expected text; a blank one is null.
fn text(expected: Option<&str>) -> Option<Value> {
    expected.map(|text| of(Some(text.trim()).filter(|text| !text.is_empty())))
}

fn of(found: Option<&str>) -> Value {
    found.map_or(Value::Null, Value::from)
}

/// An expected document: a table, or its JSON text; a blank text is null.
fn document(expected: Option<&Value>) -> Option<Value> {
    expected.map(|value| match value.as_str().map(str::trim) {
        Some("") => Value::Null,
        Some(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        None => value.clone(),
    })
}

fn parsed(found: Option<&str>) -> Value {
    found.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}
