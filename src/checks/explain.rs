//! What the gate says of one message, check by check, and which rules apply: for tools that explain a configuration.
//!
//! Every finding is a judgement of a real gate: of the gate itself, or of one that asks for a single check or a single rule.
//! Nothing that a check does is written here a second time. Rules for other subjects ask for nothing in these gates, so
//! their keys and schemas are not read.

use super::authenticity::{Authenticity, AuthenticitySettings};
use super::metadata::{MetadataReader, MetadataSettings, MetadataValues};
use super::policy::{Policy, PolicyRule, PolicySettings};
use super::{Gate, GateError, GateSettings, SizeLimits};
use crate::delivery::{Gate as _, Judgement, Rejection, Verdict};
use crate::envelope::{Envelope, SharedMetadata};
use crate::reason::Stage;
use crate::subject::SubjectPattern;

/// Limits that nothing breaks.
const UNLIMITED: SizeLimits = SizeLimits {
    max_payload_bytes: usize::MAX,
    max_header_count: usize::MAX,
    max_header_name_bytes: usize::MAX,
    max_header_value_bytes: usize::MAX,
    max_headers_bytes: usize::MAX,
    max_label_count: usize::MAX,
    max_label_bytes: usize::MAX,
    max_labels_bytes: usize::MAX,
    max_mission_metadata_bytes: usize::MAX,
    max_standard_metadata_bytes: usize::MAX,
    max_normalized_record_bytes: usize::MAX,
    max_batch_messages: usize::MAX,
};

/// What the gate says of one message, and why.
#[derive(Debug)]
pub struct Explanation {
    /// What was read of the message, as far as it could be read.
    pub metadata: SharedMetadata,
    /// Where each field comes from.
    pub origins: Origins,
    /// Which rule for signatures applies.
    pub signature_rule: SignatureRuleFound,
    /// Each policy rule for the subject, by its index, with what it says alone.
    pub policy_rules: Vec<(usize, Finding)>,
    /// The first check.
    pub authenticity: Finding,
    /// The second.
    pub size: Finding,
    /// The third.
    pub policy: Finding,
    /// The answer of the gate as a whole; an error when it cannot be opened here.
    pub verdict: Result<Verdict, GateError>,
}

/// What one check says, whatever the others say.
#[derive(Debug)]
pub enum Finding {
    /// Yes.
    Passes,
    /// Yes, since the policy only warns; it would have said no.
    Warns(Box<Rejection>),
    /// No.
    Fails(Box<Rejection>),
    /// It is not judged, since a header that it rests on is malformed: this is what the check before it says.
    NotReached(Box<Rejection>),
    /// A key or a schema that it needs cannot be read here.
    CannotJudge(GateError),
}

/// Where the metadata of a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origins {
    /// Of the priority.
    pub priority: Origin,
    /// Of the classification.
    pub classification: Origin,
    /// Of the labels.
    pub labels: Origin,
    /// Of the mission metadata.
    pub mission_metadata: Origin,
    /// Of the security labels.
    pub security_labels: Origin,
}

/// Where one field comes from; a header or rule may also say that there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its header.
    Header,
    /// The rule for subjects with this index.
    Rule(usize),
    /// The default.
    Default,
    /// Nobody sets it.
    Nowhere,
}

/// The rule for signatures that applies to a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureRuleFound {
    /// The check is off.
    NotRequired,
    /// No rule matches.
    None {
        /// Such messages pass.
        allowed: bool,
    },
    /// The rule with this index; it asks for nothing when it is an exemption.
    Rule(usize),
}

/// Explains what a gate with these settings says of the message. Reads the keys and schemas that its subject asks for.
#[must_use]
pub fn explain(settings: &GateSettings, envelope: &Envelope) -> Explanation {
    let settings = for_subject(settings, &envelope.subject);
    let nothing = GateSettings {
        authenticity: Authenticity::NotRequired,
        size: UNLIMITED,
        policy: Policy::NotRequired,
        metadata: settings.metadata.clone(),
    };
    let only_authenticity = GateSettings { authenticity: settings.authenticity.clone(), ..nothing.clone() };
    let only_size = GateSettings { size: settings.size.clone(), ..nothing.clone() };
    let only_policy = GateSettings { policy: settings.policy.clone(), ..nothing.clone() };
    Explanation {
        metadata: judge(nothing.clone(), envelope).map_or(SharedMetadata::NONE, |judged| judged.metadata),
        origins: origins(&settings.metadata, envelope),
        signature_rule: signature_rule(&settings.authenticity, &envelope.subject),
        policy_rules: policy_rules(&settings.policy, &nothing, envelope),
        authenticity: finding(Stage::Authenticity, only_authenticity, envelope),
        size: finding(Stage::Size, only_size, envelope),
        policy: finding(Stage::Policy, only_policy, envelope),
        verdict: judge(settings, envelope).map(|judged| judged.verdict),
    }
}

/// The same settings for this subject: rules for other subjects keep their places and ask for nothing, so that a gate which
/// is opened with them reads only the keys and schemas that this subject needs.
#[must_use]
pub fn for_subject(settings: &GateSettings, subject: &str) -> GateSettings {
    let mut settings = settings.clone();
    let found = signature_rule(&settings.authenticity, subject);
    if let Authenticity::Required(AuthenticitySettings { rules, .. }) = &mut settings.authenticity {
        for (index, rule) in rules.iter_mut().enumerate() {
            if found != SignatureRuleFound::Rule(index) {
                rule.signature = None;
            }
        }
    }
    if let Policy::Required(policy) = &mut settings.policy {
        for rule in &mut policy.rules {
            if !rule.subject.matches(subject) {
                *rule = PolicyRule::new(rule.subject.clone());
            }
        }
    }
    settings
}

/// What the metadata of a message is.
///
/// # Errors
/// A header is malformed: the rejection that it causes once its turn has come.
pub fn read_metadata(settings: &GateSettings, envelope: &Envelope) -> Result<SharedMetadata, Box<Rejection>> {
    let reading = MetadataReader::new(settings.metadata.clone()).read(envelope);
    reading.malformed.map_or(Ok(reading.metadata), Err)
}

fn judge(settings: GateSettings, envelope: &Envelope) -> Result<Judgement, GateError> {
    Gate::open(settings).map(|gate| gate.judge(envelope))
}

/// What a gate says that asks for nothing beyond the check of this stage.
fn finding(stage: Stage, settings: GateSettings, envelope: &Envelope) -> Finding {
    match judge(settings, envelope).map(|judged| judged.verdict) {
        Ok(Verdict::Permitted) => Finding::Passes,
        Ok(Verdict::PermittedWithWarning(warning)) => Finding::Warns(warning),
        Ok(Verdict::Rejected(rejection)) if rejection.stage == stage => Finding::Fails(rejection.into()),
        // Malformed metadata is raised at a stage of its own choice: this check came before it, or is never asked.
        Ok(Verdict::Rejected(rejection)) if rejection.stage > stage => Finding::Passes,
        Ok(Verdict::Rejected(rejection)) => Finding::NotReached(rejection.into()),
        Err(error) => Finding::CannotJudge(error),
    }
}

fn signature_rule(authenticity: &Authenticity, subject: &str) -> SignatureRuleFound {
    match authenticity {
        Authenticity::NotRequired => SignatureRuleFound::NotRequired,
        Authenticity::Required(settings) => {
            let first = settings.rules.iter().position(|rule| rule.subject.matches(subject));
            first.map_or(
                SignatureRuleFound::None { allowed: settings.allow_unmatched },
                SignatureRuleFound::Rule,
            )
        }
    }
}

fn policy_rules(policy: &Policy, nothing: &GateSettings, envelope: &Envelope) -> Vec<(usize, Finding)> {
    let Policy::Required(settings) = policy else { return Vec::new() };
    let matching =
        settings.rules.iter().enumerate().filter(|(_, rule)| rule.subject.matches(&envelope.subject));
    let alone = |rule: &PolicyRule| PolicySettings { rules: vec![rule.clone()], ..settings.clone() };
    matching
        .map(|(index, rule)| {
            let settings = GateSettings { policy: Policy::Required(alone(rule)), ..nothing.clone() };
            (index, finding(Stage::Policy, settings, envelope))
        })
        .collect()
}

fn origins(settings: &MetadataSettings, envelope: &Envelope) -> Origins {
    let has = |name: &str| envelope.headers.all_ignoring_case(name).next().is_some();
    let of = |header: &str, is_set: fn(&MetadataValues) -> bool| {
        let rules = settings.rules.iter().map(|rule| (&rule.subject, is_set(&rule.values)));
        origin(has(header), rules, &envelope.subject, is_set(&settings.defaults))
    };
    Origins {
        priority: of(&settings.headers.priority, |values| values.priority.is_some()),
        classification: of(&settings.headers.classification, |values| values.classification.is_some()),
        labels: of(&settings.headers.labels, |values| values.labels.is_some()),
        mission_metadata: of(&settings.headers.mission_metadata, |values| values.mission_metadata.is_some()),
        security_labels: settings.security_labels.as_ref().map_or(Origin::Nowhere, |labels| {
            let rules = labels.rules.iter().map(|(subject, _)| (subject, true));
            origin(has(&labels.header), rules, &envelope.subject, labels.default.is_some())
        }),
    }
}

/// Where a field comes from: its header, else the first rule for the subject that sets it, else the default.
fn origin<'a>(
    has_header: bool,
    rules: impl IntoIterator<Item = (&'a SubjectPattern, bool)>,
    subject: &str,
    has_default: bool,
) -> Origin {
    if has_header {
        return Origin::Header;
    }
    match rules.into_iter().position(|(pattern, sets)| sets && pattern.matches(subject)) {
        Some(index) => Origin::Rule(index),
        None if has_default => Origin::Default,
        None => Origin::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::authenticity::{
        Algorithm, AuthenticityHeaders, AuthenticityRule, KeySettings, SignatureRule, SignedField,
    };
    use crate::reason::ReasonCode;
    use crate::secret::{Secret, SecretSource};
    use crate::testing::builders;

    fn pattern(text: &str) -> SubjectPattern {
        SubjectPattern::parse(text).unwrap()
    }

    fn signature(source: SecretSource) -> SignatureRule {
        SignatureRule {
            algorithm: Algorithm::HmacSha256,
            keys: vec![KeySettings { key_id: "k".into(), source, not_before: None, not_after: None }],
            signed_fields: vec![SignedField::Subject],
        }
    }

    /// Signatures for `src.*` but `src.open`; a key of `other.>` that is not there; labels and a small body.
    fn settings() -> GateSettings {
        let key = SecretSource::Inline(Secret::new("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".into()));
        let rule = |subject, signature| AuthenticityRule { subject: pattern(subject), signature };
        let missing = SecretSource::Environment("JETSINK_NO_SUCH_KEY".into());
        let labels = PolicyRule { required_labels: vec!["audit".into()], ..PolicyRule::new(pattern(">")) };
        let priority = PolicyRule { require_priority: true, ..PolicyRule::new(pattern("src.a")) };
        GateSettings {
            authenticity: Authenticity::Required(AuthenticitySettings {
                headers: AuthenticityHeaders::default(),
                rules: vec![
                    rule("src.open", None),
                    rule("src.*", Some(signature(key))),
                    rule("other.>", Some(signature(missing))),
                ],
                allow_unmatched: false,
            }),
            size: SizeLimits { max_payload_bytes: 4, ..SizeLimits::default() },
            policy: Policy::Required(PolicySettings {
                only_warns: false,
                allow_unmatched: false,
                rules: vec![PolicyRule::new(pattern("nobody")), labels, priority],
            }),
            metadata: MetadataSettings::default(),
        }
    }

    fn reason(finding: &Finding) -> Option<ReasonCode> {
        match finding {
            Finding::Fails(rejection) => Some(rejection.reason),
            Finding::Passes | Finding::Warns(_) | Finding::NotReached(_) | Finding::CannotJudge(_) => None,
        }
    }

    #[test]
    fn every_check_speaks_for_itself_and_the_verdict_is_the_gates() {
        let settings = settings();
        let found = explain(&settings, &builders::envelope(1).payload("12345").build());
        assert_eq!(found.signature_rule, SignatureRuleFound::Rule(1));
        assert_eq!(reason(&found.authenticity), Some(ReasonCode::AlgorithmHeaderMissing));
        assert_eq!(reason(&found.size), Some(ReasonCode::PayloadTooLarge));
        assert_eq!(reason(&found.policy), Some(ReasonCode::RequiredLabelMissing));
        let rules: Vec<_> = found.policy_rules.iter().map(|(index, rule)| (*index, reason(rule))).collect();
        assert_eq!(
            rules,
            [(1, Some(ReasonCode::RequiredLabelMissing)), (2, Some(ReasonCode::PriorityRequired))]
        );
        let verdict = found.verdict.unwrap();
        assert!(matches!(verdict, Verdict::Rejected(rejection) if rejection.stage == Stage::Authenticity));
    }

    #[test]
    fn what_cannot_be_read_for_other_subjects_is_no_obstacle() {
        assert!(Gate::open(settings()).is_err());
        let open = builders::envelope(1).subject("src.open").header("Nats-Sinks-Labels", "audit").build();
        let found = explain(&settings(), &open);
        assert!(matches!(found.verdict, Ok(Verdict::Permitted)));
        assert_eq!(found.signature_rule, SignatureRuleFound::Rule(0));
        let other = builders::envelope(1).subject("other.a").payload("12345").build();
        let found = explain(&settings(), &other);
        assert!(matches!(found.authenticity, Finding::CannotJudge(_)) && found.verdict.is_err());
        assert_eq!(reason(&found.size), Some(ReasonCode::PayloadTooLarge));
        let none = explain(&settings(), &builders::envelope(1).subject("x").build());
        assert_eq!(none.signature_rule, SignatureRuleFound::None { allowed: false });
        assert_eq!(reason(&none.authenticity), Some(ReasonCode::SubjectNotCoveredByAuthenticityPolicy));
    }

    #[test]
    fn malformed_metadata_is_told_by_the_check_whose_turn_it_is() {
        let mut settings = settings();
        settings.authenticity = Authenticity::NotRequired;
        let envelope = builders::envelope(1).header("Nats-Sinks-Mission-Metadata", "{").build();
        let found = explain(&settings, &envelope);
        assert!(matches!(found.authenticity, Finding::Passes));
        assert_eq!(reason(&found.size), Some(ReasonCode::MissionMetadataInvalid));
        assert!(matches!(found.policy, Finding::NotReached(_)), "{:?}", found.policy);
        assert_eq!(found.origins.mission_metadata, Origin::Header);
        assert!(read_metadata(&settings, &envelope).is_err());
    }
}
