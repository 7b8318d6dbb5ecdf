//! The rules in the form in which they judge: made once at start, and cheap for every message.
//!
//! A message that passes costs no memory unless a rule asks for JSON; what several rules ask of one body is found out once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::IgnoredAny;

use super::encrypted;
use super::error::PolicyError;
use super::schema::{Instance, Schema};
use super::settings::{PolicyRule, PolicySettings};
use crate::delivery::Rejection;
use crate::envelope::{Body, Envelope, Metadata, Qos};
use crate::json::StrictReader;
use crate::reason::{ErrorType, ReasonCode, Stage};
use crate::subject::SubjectPattern;

/// The rules of a policy.
#[derive(Clone, Debug)]
pub(in crate::checks) struct Rules {
    only_warns: bool,
    allow_unmatched: bool,
    rules: Arc<[Rule]>,
}

impl Rules {
    /// Makes the rules; reads the schemas they name, each file once.
    pub(in crate::checks) fn open(settings: &PolicySettings) -> Result<Self, PolicyError> {
        let mut schemas = HashMap::new();
        let rules = settings.rules.iter().enumerate();
        let rules = rules.map(|(number, rule)| Rule::open(number, rule, &mut schemas));
        Ok(Self {
            only_warns: settings.only_warns,
            allow_unmatched: settings.allow_unmatched,
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    pub(super) const fn only_warns(&self) -> bool {
        self.only_warns
    }

    pub(super) fn judge(&self, envelope: &Envelope, metadata: &Metadata) -> Result<(), Box<Rejection>> {
        let mut message = Message { envelope, metadata, is_json: None, instance: None };
        let mut covered = self.allow_unmatched;
        for rule in self.rules.iter().filter(|rule| rule.subjects.cover(&envelope.subject)) {
            covered = true;
            rule.judge(&mut message)?;
        }
        if covered {
            Ok(())
        } else {
            Err(violation(ReasonCode::SubjectNotCoveredByPolicy, "no policy rule matches the subject"))
        }
    }
}

/// One message, with what was found out about its body.
struct Message<'a> {
    envelope: &'a Envelope,
    metadata: &'a Metadata,
    is_json: Option<bool>,
    instance: Option<Instance>,
}

impl Message<'_> {
    /// Whether the body is strict JSON.
    fn is_json(&mut self) -> bool {
        let payload = &self.envelope.payload;
        *self.is_json.get_or_insert_with(|| StrictReader::default().read(payload).is_some())
    }

    /// The body as schemas read it; it must be strict JSON.
    fn instance(&mut self) -> &Instance {
        let payload = &self.envelope.payload;
        self.instance.get_or_insert_with(|| Instance::read(payload))
    }
}

/// The subjects of a rule; the two plain kinds are compared without splitting anything.
#[derive(Debug)]
enum Subjects {
    All,
    One(String),
    Pattern(SubjectPattern),
}

impl Subjects {
    fn new(pattern: &SubjectPattern) -> Self {
        match pattern.as_str() {
            ">" => Self::All,
            subject if pattern.is_literal() => Self::One(subject.to_owned()),
            _ => Self::Pattern(pattern.clone()),
        }
    }

    fn cover(&self, subject: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(own) => own == subject,
            Self::Pattern(pattern) => pattern.matches(subject),
        }
    }
}

#[derive(Debug)]
struct Rule {
    subjects: Subjects,
    priority: bool,
    classification: bool,
    labels: Vec<String>,
    mission_metadata: bool,
    /// Sorted.
    mission_metadata_keys: Option<Vec<String>>,
    body: BodyRule,
    mqtt_qos: Option<Qos>,
}

/// What a rule asks of the body.
#[derive(Debug)]
struct BodyRule {
    encrypted: bool,
    max_bytes: Option<usize>,
    json: bool,
    schema: Option<Arc<Schema>>,
}

impl Rule {
    fn open(
        number: usize,
        rule: &PolicyRule,
        schemas: &mut HashMap<PathBuf, Arc<Schema>>,
    ) -> Result<Self, PolicyError> {
        if let Some(label) = rule.required_labels.iter().find(|label| !can_be_carried(label)) {
            return Err(PolicyError::Label { rule: number, label: label.clone() });
        }
        let mqtt_qos = rule
            .require_mqtt_qos
            .map(|qos| Qos::from_number(qos).ok_or(PolicyError::MqttQos { rule: number, qos }));
        let schema = rule.json_schema.as_deref().map(|path| open_schema(number, path, schemas));
        let mut mission_metadata_keys = rule.allowed_mission_metadata_keys.clone();
        if let Some(keys) = &mut mission_metadata_keys {
            keys.sort_unstable();
        }
        Ok(Self {
            subjects: Subjects::new(&rule.subject),
            priority: rule.require_priority,
            classification: rule.require_classification,
            labels: rule.required_labels.clone(),
            mission_metadata: rule.require_mission_metadata,
            mission_metadata_keys,
            body: BodyRule {
                encrypted: rule.require_encrypted_payload,
                max_bytes: rule.max_payload_bytes,
                json: rule.require_json,
                schema: schema.transpose()?,
            },
            mqtt_qos: mqtt_qos.transpose()?,
        })
    }

    fn judge(&self, message: &mut Message<'_>) -> Result<(), Box<Rejection>> {
        self.judge_metadata(message.metadata)?;
        self.body.judge_first(message.envelope)?;
        self.judge_mqtt(message.envelope)?;
        self.body.judge_json(message)
    }

    fn judge_metadata(&self, metadata: &Metadata) -> Result<(), Box<Rejection>> {
        use ReasonCode as Code;
        if self.priority && metadata.priority.is_none() {
            return Err(violation(Code::PriorityRequired, "a rule for the subject requires a priority"));
        }
        if self.classification && metadata.classification.is_none() {
            let detail = "a rule for the subject requires a classification";
            return Err(violation(Code::ClassificationRequired, detail));
        }
        if let Some(label) = self.labels.iter().find(|label| !metadata.labels.contains(label)) {
            let detail = format!("a required label is missing: {label}");
            return Err(violation(Code::RequiredLabelMissing, detail));
        }
        match (&metadata.mission_metadata, &self.mission_metadata_keys) {
            (None, _) if self.mission_metadata => {
                let detail = "a rule for the subject requires mission metadata";
                Err(violation(Code::MissionMetadataRequired, detail))
            }
            (Some(text), Some(allowed)) if !has_only_keys(text, allowed) => {
                let detail = "mission metadata has a key that a rule does not allow";
                Err(violation(Code::MissionMetadataKeyNotAllowed, detail))
            }
            (None | Some(_), _) => Ok(()),
        }
    }

    fn judge_mqtt(&self, envelope: &Envelope) -> Result<(), Box<Rejection>> {
        let Some(asked) = self.mqtt_qos else { return Ok(()) };
        match envelope.mqtt().map(|mqtt| mqtt.qos) {
            Some(qos) if qos < asked => {
                let (qos, asked) = (qos.number(), asked.number());
                let detail = format!("the message came with MQTT QoS {qos}, a rule asks for {asked}");
                Err(violation(ReasonCode::MqttQosTooLow, detail))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl BodyRule {
    fn judge_first(&self, envelope: &Envelope) -> Result<(), Box<Rejection>> {
        if self.encrypted {
            let code = ReasonCode::EncryptedPayloadRequired;
            refuse_omitted(envelope, code)?;
            if let Err(why) = encrypted::check(&envelope.payload) {
                let detail = format!("a rule for the subject requires an encrypted payload: {why}");
                return Err(violation(code, detail));
            }
        }
        if let Some(limit) = self.max_bytes {
            // The size that a headers-only delivery states stands in a header that its publisher may have written.
            refuse_omitted(envelope, ReasonCode::PayloadTooLarge)?;
            let size = envelope.payload.len();
            if size > limit {
                let detail = format!("the payload has {size} bytes, the limit of a rule is {limit}");
                return Err(violation(ReasonCode::PayloadTooLarge, detail));
            }
        }
        Ok(())
    }

    fn judge_json(&self, message: &mut Message<'_>) -> Result<(), Box<Rejection>> {
        if !self.json && self.schema.is_none() {
            return Ok(());
        }
        refuse_omitted(message.envelope, ReasonCode::PayloadNotJson)?;
        if !message.is_json() {
            let detail = "a rule for the subject requires strict JSON";
            return Err(violation(ReasonCode::PayloadNotJson, detail));
        }
        match &self.schema {
            None => Ok(()),
            Some(schema) => schema
                .judge(message.instance())
                .map_err(|misfit| violation(ReasonCode::SchemaViolation, misfit.to_string())),
        }
    }
}

fn open_schema(
    number: usize,
    path: &Path,
    schemas: &mut HashMap<PathBuf, Arc<Schema>>,
) -> Result<Arc<Schema>, PolicyError> {
    if let Some(schema) = schemas.get(path) {
        return Ok(Arc::clone(schema));
    }
    let schema = Schema::open(path).map(Arc::new).map_err(|source| PolicyError::Schema {
        rule: number,
        path: path.to_owned(),
        source,
    })?;
    schemas.insert(path.to_owned(), Arc::clone(&schema));
    Ok(schema)
}

fn can_be_carried(label: &str) -> bool {
    !label.is_empty() && label.trim() == label && !label.contains(';')
}

/// Whether an object has no top-level key beyond these, which are sorted. A text that is no object has.
fn has_only_keys(object: &str, allowed: &[String]) -> bool {
    struct Keys<'a>(&'a [String]);

    impl<'de> serde::de::Visitor<'de> for Keys<'_> {
        type Value = bool;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
            let mut fits = true;
            // Read as text that is borrowed where it can be: a plain `Cow` would always be copied.
            while let Some(Key(key)) = map.next_key()? {
                map.next_value::<IgnoredAny>()?;
                fits &= self.0.binary_search_by(|own| own.as_str().cmp(&key)).is_ok();
            }
            Ok(fits)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(object);
    serde::Deserializer::deserialize_map(&mut deserializer, Keys(allowed)).unwrap_or(false)
}

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

fn refuse_omitted(envelope: &Envelope, reason: ReasonCode) -> Result<(), Box<Rejection>> {
    match envelope.body {
        Body::Present => Ok(()),
        Body::Omitted { .. } | Body::Lost => {
            let detail = "a rule looks at the body, and the durable consumer delivers headers only";
            Err(violation(reason, detail))
        }
    }
}

fn violation(reason: ReasonCode, detail: impl Into<String>) -> Box<Rejection> {
    Box::new(Rejection {
        stage: Stage::Policy,
        reason,
        error_type: ErrorType::PolicyViolation,
        detail: detail.into(),
    })
}
