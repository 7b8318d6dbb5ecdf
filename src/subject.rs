//! Subject patterns (formats §4): tokens split by `.`, none empty, no white space; `*` is one whole token; `>` stands last
//! and for at least one token; case-sensitive.

use std::fmt;

/// A checked subject pattern. One without wildcards is a subject.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubjectPattern(String);

/// Why a text is not a subject pattern. It does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// Nothing between two dots, at an end, or nothing at all.
    #[error("it has an empty token")]
    EmptyToken,
    /// White space.
    #[error("it holds white space")]
    WhiteSpace,
    /// A control character.
    #[error("it holds a control character")]
    ControlCharacter,
    /// `*` or `>` with something else in its token.
    #[error("a wildcard is not a whole token")]
    PartialWildcard,
    /// `>` with tokens after it.
    #[error("`>` is not the last token")]
    TailNotLast,
}

impl SubjectPattern {
    /// Checks a pattern.
    ///
    /// # Errors
    /// See [`SubjectError`].
    pub fn parse(text: &str) -> Result<Self, SubjectError> {
        let mut tail_seen = false;
        for token in text.split('.') {
            if tail_seen {
                return Err(SubjectError::TailNotLast);
            }
            check_token(token)?;
            tail_seen = token == ">";
        }
        Ok(Self(text.to_owned()))
    }

    /// `>`, which every subject matches.
    #[must_use]
    pub fn everything() -> Self {
        Self(">".to_owned())
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for one subject only.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        !self.tokens().any(|token| token == "*" || token == ">")
    }

    /// Whether `subject` matches. The subject is taken literally: a `*` or `>` in it is an ordinary token.
    #[must_use]
    pub fn matches(&self, subject: &str) -> bool {
        let mut tokens = subject.split('.');
        for wanted in self.tokens() {
            match tokens.next() {
                None => return false,
                Some(_) if wanted == ">" => return true,
                Some(token) if wanted != "*" && wanted != token => return false,
                Some(_) => {}
            }
        }
        tokens.next().is_none()
    }

    /// Whether some subject matches both patterns.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mut ours, mut theirs) = (self.tokens(), other.tokens());
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (None, Some(_)) | (Some(_), None) => return false,
                (Some(one), Some(another)) => {
                    if one == ">" || another == ">" {
                        return true;
                    }
                    if one != "*" && another != "*" && one != another {
                        return false;
                    }
                }
            }
        }
    }

    /// Whether every subject that matches the other pattern matches this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let (mut ours, mut theirs) = (self.tokens(), other.tokens());
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) | (Some(">"), Some(_)) => return true,
                (None, Some(_)) | (Some(_), None) | (Some(_), Some(">")) => return false,
                (Some(one), Some(another)) if one != "*" && one != another => return false,
                (Some(_), Some(_)) => {}
            }
        }
    }

    fn tokens(&self) -> std::str::Split<'_, char> {
        self.0.split('.')
    }
}

impl fmt::Display for SubjectPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for SubjectPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

fn check_token(token: &str) -> Result<(), SubjectError> {
    if token.is_empty() {
        return Err(SubjectError::EmptyToken);
    }
    if token.contains(char::is_whitespace) {
        return Err(SubjectError::WhiteSpace);
    }
    if token.contains(char::is_control) {
        return Err(SubjectError::ControlCharacter);
    }
    if token.len() > 1 && token.contains(['*', '>']) {
        return Err(SubjectError::PartialWildcard);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::{Just, Strategy};

    use super::*;

    fn pattern(text: &str) -> SubjectPattern {
        SubjectPattern::parse(text).unwrap()
    }

    #[test]
    fn the_rules_of_formats_4() {
        for (text, error) in [
            ("", SubjectError::EmptyToken),
            ("a..b", SubjectError::EmptyToken),
            (".a", SubjectError::EmptyToken),
            ("a.", SubjectError::EmptyToken),
            ("a b", SubjectError::WhiteSpace),
            ("a.\u{a0}", SubjectError::WhiteSpace),
            ("a.\0", SubjectError::ControlCharacter),
            ("a*", SubjectError::PartialWildcard),
            ("a.>b", SubjectError::PartialWildcard),
            ("**", SubjectError::PartialWildcard),
            (">.a", SubjectError::TailNotLast),
        ] {
            assert_eq!(SubjectPattern::parse(text), Err(error), "{text:?}");
        }
        for text in ["a", "a.b", "*", ">", "*.a.*", "a.>", "$JS.x", "größe.7"] {
            assert_eq!(pattern(text).as_str(), text);
        }
    }

    #[test]
    fn matching() {
        for (text, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "A.b", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.>", "a", false),
            ("a.>", "a.b.c", true),
            (">", "a", true),
            ("a.b", "a.*", false),
        ] {
            assert_eq!(pattern(text).matches(subject), expected, "{text} {subject}");
        }
    }

    #[test]
    fn overlapping() {
        for (one, another, expected) in [
            ("a.*", "*.b", true),
            ("a.>", "a", false),
            ("a.>", "a.*", true),
            ("a.*", "a.b.c", false),
            (SubjectPattern::everything().as_str(), "x", true),
            ("a.*.c", "a.b.>", true),
            ("a.b", "a.c", false),
        ] {
            assert_eq!(pattern(one).overlaps(&pattern(another)), expected, "{one} {another}");
            assert_eq!(pattern(another).overlaps(&pattern(one)), expected, "{another} {one}");
        }
    }

    #[test]
    fn covering() {
        for (one, another, expected) in [
            (">", "a.*.>", true),
            ("a.>", "a.b.*", true),
            ("a.>", "a", false),
            ("a.>", ">", false),
            ("a.*", "a.*", true),
            ("a.*", "a.b", true),
            ("a.*", "a.>", false),
            ("a.b", "a.*", false),
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
        ] {
            assert_eq!(pattern(one).covers(&pattern(another)), expected, "{one} {another}");
        }
    }

    fn tokens() -> impl Strategy<Value = Vec<&'static str>> {
        proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("*")], 1..5)
    }

    proptest! {
        #[test]
        fn parsing_is_total_and_keeps_the_text(text in any::<String>()) {
            if let Ok(parsed) = SubjectPattern::parse(&text) {
                prop_assert_eq!(parsed.as_str(), &text);
            }
        }

        #[test]
        fn a_subject_that_matches_two_patterns_makes_them_overlap(
            subject in proptest::collection::vec(prop_oneof![Just("a"), Just("b")], 1..5),
            one in tokens(), another in tokens(), one_tail in any::<bool>(), another_tail in any::<bool>(),
        ) {
            let build = |mut tokens: Vec<&str>, tail: bool| {
                if tail { tokens.push(">"); }
                pattern(&tokens.join("."))
            };
            let (one, another) = (build(one, one_tail), build(another, another_tail));
            let subject = subject.join(".");
            if one.matches(&subject) && another.matches(&subject) {
                prop_assert!(one.overlaps(&another));
            }
            if one.covers(&another) {
                prop_assert!(!another.matches(&subject) || one.matches(&subject));
            }
            let literal = pattern(&subject);
            prop_assert!(literal.is_literal());
            prop_assert_eq!(literal.overlaps(&one), one.matches(&subject));
        }
    }
}
