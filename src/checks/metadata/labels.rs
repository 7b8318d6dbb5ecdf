//! Texts and lists of texts, as headers carry them.

use std::collections::HashSet;

/// Trimmed; `None` when nothing is left.
pub(super) fn text(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Trimmed, blanks and duplicates dropped in order.
pub(super) fn unique<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    // A set, since a publisher may send thousands of labels.
    let mut seen = HashSet::new();
    let kept = texts.map(str::trim).filter(|text| !text.is_empty() && seen.insert(*text));
    kept.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_trimmed_and_unique() {
        let labels = |value: &str| unique(value.split(';'));
        assert_eq!(labels(" a;b ;; a ;\tc;"), ["a", "b", "c"]);
        assert!(labels(" ; ").is_empty());
        assert_eq!(text(" a b\t"), Some("a b".to_owned()));
        assert_eq!(text(" \t"), None);
    }
}
