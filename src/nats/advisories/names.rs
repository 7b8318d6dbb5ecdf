//! The subjects of advisories, and the name of the durable that reads those of one durable: pure.

use sha2::{Digest as _, Sha256};

const PREFIX: &str = "$JS.EVENT.ADVISORY.CONSUMER";
/// The server takes names of 255 bytes; some of its files carry more than the name.
const LONGEST: usize = 200;

/// The subjects that a stream must capture so that no message of this durable is given up on in silence.
#[must_use]
pub fn advisory_subjects(stream: &str, durable: &str) -> [String; 2] {
    ["MAX_DELIVERIES", "MSG_TERMINATED"].map(|kind| format!("{PREFIX}.{kind}.{stream}.{durable}"))
}

/// What the durable of the advisory stream filters: one pattern, since servers below 2.10 know no list.
#[must_use]
pub fn advisory_filter(stream: &str, durable: &str) -> String {
    format!("{PREFIX}.*.{stream}.{durable}")
}

/// The name of the durable on the advisory stream. What is legal in names of streams and durables is legal in it. Names with
/// a hyphen, or long ones, get a digest, so that no two pairs share a durable.
#[must_use]
pub fn advisory_durable(stream: &str, durable: &str) -> String {
    let plain = format!("jetsink-{stream}-{durable}");
    if !stream.contains('-') && !durable.contains('-') && plain.len() <= LONGEST {
        return plain;
    }
    let digest = Sha256::digest(format!("{stream}.{durable}"));
    let digest: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let mut name = String::new();
    for letter in plain.chars() {
        if name.len() + letter.len_utf8() > LONGEST {
            break;
        }
        name.push(letter);
    }
    format!("{name}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_pairs_apart_and_fit() {
        assert_eq!(advisory_durable("ORDERS", "archive"), "jetsink-ORDERS-archive");
        let long = "x".repeat(255);
        let names = [
            advisory_durable("A-B", "C"),
            advisory_durable("A", "B-C"),
            advisory_durable(&long, "a"),
            advisory_durable(&long, "b"),
            advisory_durable(&"ü".repeat(127), "b"),
        ];
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() <= 255 && !name.contains(['.', '*', '>', '/', ' ']), "{name}");
            assert_eq!(names.iter().position(|other| other == name), Some(index));
        }
    }

    #[test]
    fn the_filter_covers_the_subjects() {
        let filter = crate::subject::SubjectPattern::parse(&advisory_filter("S", "c")).unwrap();
        for subject in advisory_subjects("S", "c") {
            assert!(filter.matches(&subject));
        }
    }
}
