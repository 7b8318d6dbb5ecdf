//! Patterns of rules, and what they leave over.

use super::Validator;
use crate::subject::SubjectPattern;

const REMEDY: &str = "write tokens separated by dots; * is one whole token, > stands last";

/// The pattern of a rule.
pub(super) fn pattern(
    key: &str,
    text: Option<&str>,
    validator: &mut Validator<'_>,
) -> Option<SubjectPattern> {
    let Some(text) = text else {
        validator.missing(key, "write the pattern of the subjects; \">\" is every subject");
        return None;
    };
    SubjectPattern::parse(text)
        .map_err(|error| validator.refuse(&[key], format!("is not a subject: {error}"), REMEDY))
        .ok()
}

/// Warns of rules that never come into play since the first match counts. `rules` are the patterns by the path of their rule.
pub(super) fn warn_of_unreachable(rules: &[(String, &SubjectPattern)], validator: &mut Validator<'_>) {
    for (index, (rule, pattern)) in rules.iter().enumerate() {
        let covering = rules.iter().take(index).find(|(_, before)| before.covers(pattern));
        if let Some((before, wider)) = covering {
            validator.warn(format!(
                "{rule} (subject {pattern}) is never reached: {before} (subject {wider}) stands before it and covers it"
            ));
        }
    }
}

/// Warns of filters of the durable that the rules of a section do not cover while what they do not cover is rejected.
pub(super) fn warn_of_rejected(
    section: &str,
    rules: &[(String, &SubjectPattern)],
    filters: &[String],
    validator: &mut Validator<'_>,
) {
    for filter in filters.iter().filter_map(|filter| SubjectPattern::parse(filter).ok()) {
        if rules.iter().any(|(_, pattern)| pattern.covers(&filter)) {
            continue;
        }
        let extent = if rules.iter().any(|(_, pattern)| pattern.overlaps(&filter)) { "all of " } else { "" };
        validator.warn(format!(
            "{section}: no rule covers {extent}{filter} of consumer.filter_subjects; with unmatched_subject_action = \
             \"reject\" every message that no rule covers goes to the dead letters"
        ));
    }
}
