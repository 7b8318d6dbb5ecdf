//! Durations as people write them: `30s`, `500ms`, `1h30m`. Whole numbers with units; exact, no floats, overflow refused.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units from large to small, with their length in nanoseconds.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The longest duration: what a signed count of nanoseconds holds, which is how NATS carries durations.
const LONGEST: u64 = i64::MAX.unsigned_abs();

/// A duration of the configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

/// What is wrong with a text that should be a duration. It does not quote the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DurationError {
    #[error("the duration is empty")]
    Empty,
    #[error("a number has no unit")]
    UnitMissing,
    #[error("a unit is not one of d, h, m, s, ms, us, ns")]
    UnitUnknown,
    #[error("it is not whole numbers with units")]
    NotANumber,
    #[error("its units do not go from large to small, each once")]
    UnitOrder,
    #[error("the duration is too long")]
    TooLong,
}

/// Reads a duration such as `1h30m`. One blank may stand between parts and before a unit.
///
/// # Errors
/// See [`DurationError`].
pub(super) fn parse(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total: u64 = 0;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let (digits, after) = split(rest, |character| character.is_ascii_digit());
        if digits.is_empty() {
            return Err(DurationError::NotANumber);
        }
        let (unit, after) = split(after.trim_start_matches(' '), char::is_alphabetic);
        if unit.is_empty() {
            let decimal = after.starts_with(['.', ',']);
            return Err(if decimal { DurationError::NotANumber } else { DurationError::UnitMissing });
        }
        let (index, length) = UNITS
            .iter()
            .enumerate()
            .find_map(|(index, (name, length))| (*name == unit).then_some((index, *length)))
            .ok_or(DurationError::UnitUnknown)?;
        if index < next_unit {
            return Err(DurationError::UnitOrder);
        }
        next_unit = index + 1;
        let number: u64 = digits.parse().map_err(|_| DurationError::TooLong)?;
        total = number
            .checked_mul(length)
            .and_then(|part| total.checked_add(part))
            .filter(|sum| *sum <= LONGEST)
            .ok_or(DurationError::TooLong)?;
        rest = after.trim_start_matches(' ');
    }
    Ok(Duration::from_nanos(total))
}

/// Writes a duration so that [`parse`] reads it back; `0s` for none.
pub(super) fn format(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_nanos()).unwrap_or(LONGEST).min(LONGEST);
    if rest == 0 {
        return "0s".into();
    }
    let mut text = String::new();
    for (unit, length) in UNITS {
        let count = rest / length;
        rest %= length;
        if count > 0 && write!(text, "{count}{unit}").is_err() {
            return text;
        }
    }
    text
}

fn split(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|character| !keep(character)).unwrap_or(text.len()))
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "jetsink-duration",
            "pattern": r"^ *([0-9]+ *(d|h|m|s|ms|us|ns) *)+$",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn durations_are_read_exactly() {
        for (text, millis) in [
            ("30s", 30_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2 d", 172_800_000),
            (" 1s ", 1_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("1us1ns"), Ok(Duration::from_nanos(1_001)));
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_its_reason() {
        for (text, error) in [
            ("", DurationError::Empty),
            ("  ", DurationError::Empty),
            ("30", DurationError::UnitMissing),
            ("1h30", DurationError::UnitMissing),
            ("1.5s", DurationError::NotANumber),
            ("-1s", DurationError::NotANumber),
            ("s", DurationError::NotANumber),
            ("5 sec", DurationError::UnitUnknown),
            ("5S", DurationError::UnitUnknown),
            ("5m1h", DurationError::UnitOrder),
            ("1s1s", DurationError::UnitOrder),
            ("99999999999999999999s", DurationError::TooLong),
            ("106752d", DurationError::TooLong),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn durations_are_written_with_the_largest_units() {
        assert_eq!(format(Duration::from_secs(5400)), "1h30m");
        assert_eq!(format(Duration::from_millis(1_500)), "1s500ms");
        assert_eq!(format(Duration::ZERO), "0s");
    }

    proptest! {
        #[test]
        fn parsing_is_total(text in any::<String>()) {
            if let Ok(duration) = parse(&text) {
                prop_assert_eq!(parse(&format(duration)), Ok(duration));
            }
        }

        #[test]
        fn parsing_is_total_on_near_misses(text in "[0-9 dhmsun.]{0,24}") {
            if let Ok(duration) = parse(&text) {
                prop_assert_eq!(parse(&format(duration)), Ok(duration));
            }
        }

        #[test]
        fn every_duration_is_read_back(nanoseconds in 0..=LONGEST) {
            let duration = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
