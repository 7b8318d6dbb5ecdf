//! The answer of `explain` as data; text and JSON are written from it.

use serde::Serialize;

use super::asked;
use crate::checks::explain::{Explanation, Finding, Origin, SignatureRuleFound};
use crate::cli::output::on_one_line;
use crate::config::{Settings, SinkSettings};
use crate::dead_letter::Format;
use crate::delivery::{Rejection, Verdict};
use crate::envelope::Envelope;
use crate::nats::chain;

/// Everything `explain` says.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) message: Facts,
    pub(super) metadata: Vec<Field>,
    pub(super) authenticity: Check,
    pub(super) size: Check,
    pub(super) policy: Check,
    /// What the gate as a whole says.
    pub(super) verdict: FindingReport,
    /// What happens then.
    pub(super) then: String,
}

/// What the message is.
#[derive(Serialize)]
pub(super) struct Facts {
    pub(super) subject: String,
    pub(super) payload_bytes: usize,
    pub(super) header_lines: usize,
    pub(super) stored_at: String,
    /// Of a message that came through the server's MQTT gateway.
    pub(super) mqtt: Option<MqttFacts>,
}

/// What the gateway says.
#[derive(Serialize)]
pub(super) struct MqttFacts {
    pub(super) qos: u8,
    /// Nothing where the subject is none that the gateway makes.
    pub(super) topic: Option<String>,
}

/// One field of the metadata.
#[derive(Serialize)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) value: Option<serde_json::Value>,
    /// `header`, the rule's key in the configuration, `default`; nothing if nobody sets it.
    pub(super) from: Option<String>,
}

/// One check: the rules that apply, and what it says.
#[derive(Serialize)]
pub(super) struct Check {
    /// What is asked, where no rule says it.
    pub(super) asked: Option<String>,
    pub(super) rules: Vec<Rule>,
    #[serde(flatten)]
    pub(super) finding: FindingReport,
}

/// One rule that applies.
#[derive(Serialize)]
pub(super) struct Rule {
    /// Its key in the configuration, with its index.
    pub(super) rule: String,
    pub(super) subject: String,
    pub(super) asked: String,
    /// What it says alone; nothing where the check has one rule only.
    #[serde(flatten)]
    pub(super) finding: Option<FindingReport>,
}

/// What a check says.
#[derive(Clone, Serialize)]
pub(in crate::cli) struct FindingReport {
    pub(in crate::cli) result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) stage: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) error_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) detail: Option<String>,
}

/// Yes, no, or something between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::cli) enum Outcome {
    Passes,
    Warns,
    Fails,
    NotReached,
    CannotJudge,
}

impl Outcome {
    pub(in crate::cli) const fn as_str(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::Warns => "passes with a warning",
            Self::Fails => "fails",
            Self::NotReached => "not judged",
            Self::CannotJudge => "cannot be judged here",
        }
    }
}

impl FindingReport {
    const fn plain(result: Outcome) -> Self {
        Self { result, stage: None, reason: None, error_type: None, detail: None }
    }

    fn of_rejection(result: Outcome, rejection: &Rejection) -> Self {
        Self {
            result,
            stage: Some(rejection.stage.as_str()),
            reason: Some(rejection.reason.as_str()),
            error_type: Some(rejection.error_type.as_str()),
            detail: Some(rejection.detail.clone()),
        }
    }

    /// The outcome, and where it has one the reason.
    pub(in crate::cli) fn on_one_line(&self) -> String {
        format!("{}{}", self.result.as_str(), self.because())
    }

    /// The reason with a colon before it; nothing where there is none.
    pub(in crate::cli) fn because(&self) -> String {
        let detail = self.detail.as_deref().map(on_one_line).unwrap_or_default();
        match (self.stage, self.reason, self.error_type) {
            (Some(stage), Some(reason), Some(error_type)) => {
                format!(": {reason} (stage {stage}, {error_type}): {detail}")
            }
            _ if detail.is_empty() => String::new(),
            _ => format!(": {detail}"),
        }
    }

    fn cannot_judge(error: &dyn std::error::Error) -> Self {
        Self { detail: Some(chain(error)), ..Self::plain(Outcome::CannotJudge) }
    }
}

impl From<&Finding> for FindingReport {
    fn from(finding: &Finding) -> Self {
        match finding {
            Finding::Passes => Self::plain(Outcome::Passes),
            Finding::Warns(rejection) => Self::of_rejection(Outcome::Warns, rejection),
            Finding::Fails(rejection) => Self::of_rejection(Outcome::Fails, rejection),
            Finding::NotReached(rejection) => Self::of_rejection(Outcome::NotReached, rejection),
            Finding::CannotJudge(error) => Self::cannot_judge(error),
        }
    }
}

impl From<&Verdict> for FindingReport {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Permitted => Self::plain(Outcome::Passes),
            Verdict::PermittedWithWarning(rejection) => Self::of_rejection(Outcome::Warns, rejection),
            Verdict::Rejected(rejection) => Self::of_rejection(Outcome::Fails, rejection),
        }
    }
}

impl Report {
    pub(super) fn new(settings: &Settings, envelope: &Envelope, explanation: &Explanation) -> Self {
        let verdict = match &explanation.verdict {
            Ok(verdict) => FindingReport::from(verdict),
            Err(error) => FindingReport::cannot_judge(error),
        };
        Self {
            message: Facts {
                subject: envelope.subject.clone(),
                payload_bytes: envelope.payload.len(),
                header_lines: envelope.headers.len(),
                stored_at: envelope.stored_at.rfc3339(),
                mqtt: envelope.mqtt().map(|mqtt| MqttFacts { qos: mqtt.qos.number(), topic: mqtt.topic() }),
            },
            metadata: fields(envelope, explanation),
            authenticity: authenticity(settings, explanation),
            size: Check {
                asked: Some("the limits of size_policy".into()),
                rules: Vec::new(),
                finding: (&explanation.size).into(),
            },
            policy: policy(settings, explanation),
            then: then(settings, verdict.result),
            verdict,
        }
    }
}

fn fields(envelope: &Envelope, explanation: &Explanation) -> Vec<Field> {
    let (metadata, origins) = (&explanation.metadata, explanation.origins);
    let text = |text: &Option<String>| text.clone().map(serde_json::Value::String);
    let document = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let labels = (!metadata.labels.is_empty()).then(|| metadata.labels.clone().into());
    let from = |origin, rules: &str| match origin {
        Origin::Header => Some("header".to_owned()),
        Origin::Rule(index) => Some(format!("{rules}[{index}]")),
        Origin::Default => Some("default".to_owned()),
        Origin::Nowhere => None,
    };
    let rules = "message_metadata.rules";
    let id = envelope.message_id();
    let field = |name, value, from| Field { name, value, from };
    vec![
        field("message_id", id.map(Into::into), id.map(|_| "header".to_owned())),
        field("priority", text(&metadata.priority), from(origins.priority, rules)),
        field("classification", text(&metadata.classification), from(origins.classification, rules)),
        field("labels", labels, from(origins.labels, rules)),
        field(
            "mission_metadata",
            document(&metadata.mission_metadata),
            from(origins.mission_metadata, rules),
        ),
        field(
            "security_labels",
            document(&metadata.security_labels),
            from(origins.security_labels, "security_labels.rules"),
        ),
    ]
}

fn authenticity(settings: &Settings, explanation: &Explanation) -> Check {
    let found = explanation.signature_rule;
    let asked = match found {
        SignatureRuleFound::NotRequired => Some("nothing: message_authenticity is off".to_owned()),
        SignatureRuleFound::None { allowed } => Some(asked::unmatched(allowed)),
        SignatureRuleFound::Rule(_) => None,
    };
    let rules = match found {
        SignatureRuleFound::Rule(index) => asked::signature_rule(&settings.gate.authenticity, index),
        SignatureRuleFound::NotRequired | SignatureRuleFound::None { .. } => None,
    };
    Check { asked, rules: rules.into_iter().collect(), finding: (&explanation.authenticity).into() }
}

fn policy(settings: &Settings, explanation: &Explanation) -> Check {
    let rules: Vec<_> = explanation
        .policy_rules
        .iter()
        .filter_map(|(index, finding)| asked::policy_rule(&settings.gate.policy, *index, finding.into()))
        .collect();
    let asked = asked::policy(&settings.gate.policy, rules.is_empty());
    Check { asked, rules, finding: (&explanation.policy).into() }
}

/// What happens to the message after the gate.
fn then(settings: &Settings, result: Outcome) -> String {
    match (result, &settings.dead_letter) {
        (Outcome::Passes | Outcome::Warns, _) => match &settings.sink {
            SinkSettings::File(file) => format!("the file sink writes it below {}", file.directory.display()),
            SinkSettings::Stdout(_) => "the stdout sink writes it to standard output".into(),
        },
        (Outcome::Fails, None) => {
            "it stays on the stream and readiness says so: dead_letter.subject is not set".into()
        }
        (Outcome::Fails, Some(letters)) => {
            let format = match letters.record.format {
                Format::Json => "json",
                Format::Original => "original",
            };
            let stream =
                letters.stream.as_ref().map_or_else(String::new, |stream| format!(" (stream {stream})"));
            let settled =
                if settings.delivery.ack_term_after_publish { "terminated" } else { "acknowledged" };
            format!(
                "its dead letter is published to {}{stream} in format {format}; then it is {settled}",
                letters.subject
            )
        }
        (Outcome::NotReached | Outcome::CannotJudge, _) => {
            "unknown here: the daemon does not start without what cannot be read".into()
        }
    }
}
