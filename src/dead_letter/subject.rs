//! The subject that a letter is published to: `dead_letter.subject`, and what `dead_letter.subject_tokens` puts behind it.

use super::message_id::push_escaped;
use super::settings::SubjectToken;
use crate::delivery::Rejection;
use crate::reason::{ReasonCode, Stage};
use crate::subject::{SubjectError, SubjectPattern};

/// The subjects of one durable's letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterSubject {
    base: String,
    tokens: Vec<SubjectToken>,
    stream: String,
    consumer: String,
}

impl LetterSubject {
    /// Subjects that begin with `base`.
    #[must_use]
    pub fn new(base: &str, tokens: &[SubjectToken], stream: &str, consumer: &str) -> Self {
        Self {
            base: base.to_owned(),
            tokens: tokens.to_vec(),
            stream: stream.to_owned(),
            consumer: consumer.to_owned(),
        }
    }

    /// The subject of one letter.
    #[must_use]
    pub fn of(&self, rejection: &Rejection) -> String {
        self.with(Some((rejection.stage, rejection.reason)))
    }

    /// What matches every subject that is used.
    ///
    /// # Errors
    /// The base is no subject.
    pub fn pattern(&self) -> Result<SubjectPattern, SubjectError> {
        SubjectPattern::parse(&self.with(None))
    }

    /// Every subject that may be used: one, unless stage or reason stand in it.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        let every = Stage::ALL
            .iter()
            .flat_map(|stage| ReasonCode::ALL.iter().map(|reason| self.with(Some((*stage, *reason)))));
        let mut every: Vec<_> = every.collect();
        every.sort_unstable();
        every.dedup();
        every
    }

    fn with(&self, rejection: Option<(Stage, ReasonCode)>) -> String {
        let mut subject = self.base.clone();
        for token in &self.tokens {
            subject.push('.');
            match token {
                SubjectToken::Stage => subject.push_str(rejection.map_or("*", |(stage, _)| stage.as_str())),
                SubjectToken::Reason => {
                    subject.push_str(rejection.map_or("*", |(_, reason)| reason.as_str()))
                }
                SubjectToken::Stream => push_escaped(&mut subject, &self.stream),
                SubjectToken::Consumer => push_escaped(&mut subject, &self.consumer),
            }
        }
        subject
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::ErrorType;

    #[test]
    fn facts_become_tokens_in_the_order_of_the_setting() {
        let tokens =
            [SubjectToken::Reason, SubjectToken::Consumer, SubjectToken::Stage, SubjectToken::Stream];
        let subject = LetterSubject::new("dlq", &tokens, "OR.D*", "a>ü%");
        let rejection = Rejection {
            stage: Stage::Size,
            reason: ReasonCode::PayloadTooLarge,
            error_type: ErrorType::SizePolicyViolation,
            detail: String::new(),
        };
        assert_eq!(subject.of(&rejection), "dlq.payload_too_large.a%3E%C3%BC%25.size.OR%2ED%2A");
        let pattern = subject.pattern().unwrap();
        assert_eq!(pattern.as_str(), "dlq.*.a%3E%C3%BC%25.*.OR%2ED%2A");
        let all = subject.all();
        assert_eq!(all.len(), Stage::ALL.len() * ReasonCode::ALL.len());
        assert!(all.contains(&subject.of(&rejection)));
        for one in &all {
            assert!(pattern.matches(one) && SubjectPattern::parse(one).unwrap().is_literal(), "{one}");
        }
    }

    #[test]
    fn without_tokens_there_is_one_subject() {
        let subject = LetterSubject::new("dlq.orders", &[], "S", "c");
        assert_eq!(subject.all(), ["dlq.orders"]);
        assert_eq!(subject.pattern().unwrap().as_str(), "dlq.orders");
    }
}
