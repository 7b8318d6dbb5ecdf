//! Sizes as people write them: `8 MiB`, `64KiB`, `1 GB`. Whole numbers with a unit; exact, no floats, overflow refused.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units from large to small, with their length in bytes. The binary ones come first, so that [`format`] prefers them.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// A number of bytes of the configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteSize(pub(super) u64);

/// What is wrong with a text that should be a size. It does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SizeError {
    #[error("the size is empty")]
    Empty,
    #[error("the number has no unit")]
    UnitMissing,
    #[error("the unit is not one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB")]
    UnitUnknown,
    #[error("it is not one whole number with a unit")]
    NotANumber,
    #[error("the size is too large")]
    TooLarge,
}

/// Reads a size such as `8 MiB`. Blanks may stand before the unit. Case of the unit does not matter.
///
/// # Errors
/// See [`SizeError`].
pub(super) fn parse(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() || unit.starts_with(['.', ',']) {
        return Err(SizeError::NotANumber);
    }
    let unit = unit.trim_start_matches(' ');
    if unit.is_empty() {
        return Err(SizeError::UnitMissing);
    }
    let (_, length) =
        UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(SizeError::UnitUnknown)?;
    let number: u64 = digits.parse().map_err(|_| SizeError::TooLarge)?;
    number.checked_mul(*length).ok_or(SizeError::TooLarge)
}

/// Writes a size so that [`parse`] reads it back, in the largest unit that divides it.
pub(super) fn format(bytes: u64) -> String {
    let (unit, length) =
        UNITS.iter().find(|(_, length)| bytes != 0 && bytes.is_multiple_of(*length)).unwrap_or(&("B", 1));
    format!("{} {unit}", bytes / length)
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(self.0))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ByteSize {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "jetsink-size",
            "pattern": r"^ *[0-9]+ *([KkMmGgTt][Ii]?)?[Bb] *$",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn sizes_are_read_exactly() {
        for (text, bytes) in [
            ("8 MiB", 8 << 20),
            ("64KiB", 64 << 10),
            ("64kib", 64 << 10),
            ("1 GB", 1_000_000_000),
            ("0 B", 0),
            ("512 B", 512),
            ("18446744073709551615 B", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_its_reason() {
        for (text, error) in [
            ("", SizeError::Empty),
            ("8", SizeError::UnitMissing),
            ("8 ", SizeError::UnitMissing),
            ("1.5 MiB", SizeError::NotANumber),
            ("-1 B", SizeError::NotANumber),
            ("MiB", SizeError::NotANumber),
            ("8 M", SizeError::UnitUnknown),
            ("8 MiB 1 B", SizeError::UnitUnknown),
            ("18446744073709551616 B", SizeError::TooLarge),
            ("16777216 TiB", SizeError::TooLarge),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_total(text in any::<String>()) {
            if let Ok(bytes) = parse(&text) {
                prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
            }
        }

        #[test]
        fn parsing_is_total_on_near_misses(text in "[0-9]{0,22} ?[kKMiGTB.]{0,4}") {
            if let Ok(bytes) = parse(&text) {
                prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
            }
        }

        #[test]
        fn every_size_is_read_back(bytes in any::<u64>()) {
            prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
        }
    }
}
