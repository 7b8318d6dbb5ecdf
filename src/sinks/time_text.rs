//! Times as text, fast: records of one batch mostly fall into the same second.

use crate::clock::Timestamp;

const NANOSECONDS: i64 = 1_000_000_000;
const SECONDS_A_DAY: i64 = 86_400;

/// Formats times; keeps the text of the last second.
#[derive(Debug)]
pub(crate) struct TimeText {
    second: i64,
    /// `YYYY-MM-DDTHH:MM:SS`
    text: Vec<u8>,
}

impl Default for TimeText {
    fn default() -> Self {
        Self { second: i64::MIN, text: Vec::with_capacity(19) }
    }
}

impl TimeText {
    /// Appends RFC 3339 in UTC with nanoseconds.
    pub(crate) fn write_rfc3339(&mut self, at: Timestamp, out: &mut Vec<u8>) {
        out.extend_from_slice(self.second_of(at));
        out.push(b'.');
        write_padded(at.0.rem_euclid(NANOSECONDS), 9, out);
        out.push(b'Z');
    }

    /// `YYYY-MM-DD` in UTC.
    pub(crate) fn date(&mut self, at: Timestamp) -> &str {
        let date = self.second_of(at).get(..10).unwrap_or_default();
        std::str::from_utf8(date).unwrap_or_default()
    }

    fn second_of(&mut self, at: Timestamp) -> &[u8] {
        let second = at.0.div_euclid(NANOSECONDS);
        if second != self.second {
            self.second = second;
            self.text.clear();
            write_second(second, &mut self.text);
        }
        &self.text
    }
}

fn write_second(second: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(second.div_euclid(SECONDS_A_DAY));
    let of_day = second.rem_euclid(SECONDS_A_DAY);
    for (value, width, end) in [
        (year, 4, Some(b'-')),
        (month, 2, Some(b'-')),
        (day, 2, Some(b'T')),
        (of_day / 3600, 2, Some(b':')),
        (of_day / 60 % 60, 2, Some(b':')),
        (of_day % 60, 2, None),
    ] {
        write_padded(value, width, out);
        out.extend(end);
    }
}

/// Year, month and day of a count of days since 1970-01-01, by eras of 400 years that begin in March.
const fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Appends exactly `width` decimal digits.
fn write_padded(value: i64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + width, b'0');
    let mut rest = value;
    for slot in out.iter_mut().skip(start).rev() {
        *slot = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn times_read_as_the_clock_says_them(at in any::<i64>(), step in 0i64..3_000_000_000) {
            let mut text = TimeText::default();
            for at in [Timestamp(at), Timestamp(at.saturating_add(step))] {
                let mut out = Vec::new();
                text.write_rfc3339(at, &mut out);
                prop_assert_eq!(String::from_utf8(out).unwrap(), at.rfc3339());
                prop_assert_eq!(text.date(at), at.utc_date());
            }
        }
    }
}
