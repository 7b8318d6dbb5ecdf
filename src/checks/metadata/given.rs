//! What rules and defaults say about the messages of a subject.
//!
//! Most messages have no metadata of their own, and what rules give them depends on the subject alone: mostly on one rule
//! for metadata and one for security labels. Each such pair is worked out once, when it is first met, and shared from then
//! on.

use std::sync::OnceLock;

use super::security_labels::Profile;
use super::settings::{MetadataError, MetadataRule, MetadataValues, SecurityLabelSettings};
use crate::envelope::{Metadata, SharedMetadata};

/// With more pairs than this nothing is shared, which costs time and nothing else.
const MAX_PAIRS: usize = 65_536;

/// Rules and defaults.
#[derive(Debug)]
pub(super) struct Given {
    rules: Vec<MetadataRule>,
    defaults: MetadataValues,
    security: Option<GivenLabels>,
    /// By place of the metadata, then by place of the security labels.
    pairs: Vec<OnceLock<Answer>>,
}

/// What a message without headers has, and what is wrong with it.
pub(super) type Answer = (SharedMetadata, Option<MetadataError>);

/// Rules and default for security labels.
#[derive(Debug)]
struct GivenLabels {
    settings: SecurityLabelSettings,
    /// The default, then what the rules give in their order.
    profiles: Vec<Result<Option<Profile>, MetadataError>>,
}

/// Who gives each field to the messages of a subject: 0 = the defaults, else the number of a rule, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    priority: usize,
    classification: usize,
    labels: usize,
    mission_metadata: usize,
}

impl Sources {
    /// The one rule that gives something beside the defaults; 0 when there is none, `None` when there are several. The same
    /// rule alone always gives the same fields.
    fn only(self) -> Option<usize> {
        let all = [self.priority, self.classification, self.labels, self.mission_metadata];
        let rule = all.into_iter().max().unwrap_or(0);
        all.iter().all(|own| *own == 0 || *own == rule).then_some(rule)
    }
}

impl Given {
    pub(super) fn new(
        rules: Vec<MetadataRule>,
        defaults: MetadataValues,
        security: Option<SecurityLabelSettings>,
    ) -> Self {
        let security = security.map(GivenLabels::new);
        let columns = security.as_ref().map_or(1, |security| security.profiles.len());
        let pairs = (rules.len() + 1).saturating_mul(columns);
        let pairs = if pairs <= MAX_PAIRS { pairs } else { 0 };
        Self { rules, defaults, security, pairs: std::iter::repeat_with(OnceLock::new).take(pairs).collect() }
    }

    /// Everything a message has that says nothing itself.
    pub(super) fn answer(&self, subject: &str) -> Answer {
        let sources = self.sources(subject);
        let (columns, column) =
            self.security.as_ref().map_or((1, 0), |own| (own.profiles.len(), own.place(subject)));
        let pair = sources.only().and_then(|row| self.pairs.get(row * columns + column));
        match pair {
            Some(pair) => pair.get_or_init(|| self.worked_out(subject, sources)).clone(),
            None => self.worked_out(subject, sources),
        }
    }

    fn worked_out(&self, subject: &str, sources: Sources) -> Answer {
        let mut metadata = Metadata {
            priority: self.priority(sources),
            classification: self.classification(sources),
            labels: self.labels(sources),
            mission_metadata: self.mission_metadata(sources),
            security_labels: None,
        };
        let fault = match self.security_labels(subject, &metadata) {
            Ok(labels) => {
                metadata.security_labels = labels;
                None
            }
            Err(fault) => Some(fault),
        };
        (SharedMetadata::new(metadata), fault)
    }

    /// For each field the first rule for the subject that sets it.
    pub(super) fn sources(&self, subject: &str) -> Sources {
        let mut sources = Sources::default();
        for (number, rule) in (1..).zip(&self.rules) {
            let set = &rule.values;
            let fields = [
                (&mut sources.priority, set.priority.is_some()),
                (&mut sources.classification, set.classification.is_some()),
                (&mut sources.labels, set.labels.is_some()),
                (&mut sources.mission_metadata, set.mission_metadata.is_some()),
            ];
            let mut matches = None;
            for (source, sets) in fields {
                if sets && *source == 0 && *matches.get_or_insert_with(|| rule.subject.matches(subject)) {
                    *source = number;
                }
            }
        }
        sources
    }

    pub(super) fn priority(&self, sources: Sources) -> Option<String> {
        self.values(sources.priority).priority.clone().flatten()
    }

    pub(super) fn classification(&self, sources: Sources) -> Option<String> {
        self.values(sources.classification).classification.clone().flatten()
    }

    pub(super) fn labels(&self, sources: Sources) -> Vec<String> {
        self.values(sources.labels).labels.clone().unwrap_or_default()
    }

    pub(super) fn mission_metadata(&self, sources: Sources) -> Option<String> {
        self.values(sources.mission_metadata).mission_metadata.clone().flatten()
    }

    fn values(&self, source: usize) -> &MetadataValues {
        let rule = source.checked_sub(1).and_then(|index| self.rules.get(index));
        rule.map_or(&self.defaults, |rule| &rule.values)
    }

    /// The security labels of a message whose header is absent.
    pub(super) fn security_labels(
        &self,
        subject: &str,
        metadata: &Metadata,
    ) -> Result<Option<String>, MetadataError> {
        let Some(own) = &self.security else { return Ok(None) };
        match own.profiles.get(own.place(subject)) {
            Some(Ok(Some(profile))) => profile.complete(metadata, &own.settings).map(Some),
            Some(Ok(None)) | None => Ok(None),
            Some(Err(error)) => Err(*error),
        }
    }

    /// Where the security labels of messages come from, when they are read.
    pub(super) fn security(&self) -> Option<&SecurityLabelSettings> {
        self.security.as_ref().map(|own| &own.settings)
    }
}

impl GivenLabels {
    fn new(settings: SecurityLabelSettings) -> Self {
        let texts = std::iter::once(settings.default.as_ref())
            .chain(settings.rules.iter().map(|(_, profile)| profile.as_ref()));
        let profiles = texts
            .map(|text| text.map_or(Ok(None), |text| Profile::read_own(text.as_bytes(), &settings.allowed)))
            .collect();
        Self { settings, profiles }
    }

    /// The place of what a rule or the default gives to the subject.
    fn place(&self, subject: &str) -> usize {
        let rule = self.settings.rules.iter().position(|(pattern, _)| pattern.matches(subject));
        rule.map_or(0, |index| index + 1)
    }
}
