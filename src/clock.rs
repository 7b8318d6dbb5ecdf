//! The wall clock as a port.
//!
//! Delays and deadlines use tokio's clock, which tests pause. Only facts that leave the process (`failed_at`, a partition
//! by day) need the wall clock, and they take it from here, so a test can state the time it expects.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970-01-01 UTC. Signed, since the server's own timestamps are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The timestamp `later` after this one; saturates at the ends of the range.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(later.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// RFC 3339 in UTC with nanoseconds, as dead letters and records carry it.
    #[must_use]
    pub fn rfc3339(self) -> String {
        jiff::Timestamp::from_nanosecond(i128::from(self.0))
            .map_or_else(|_| String::from("invalid"), |at| format!("{at:.9}"))
    }

    /// Reads an RFC 3339 time with its offset; nothing if it is none, or is out of the range of 64 bits.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        // The library reads more than the standard allows: a zone in brackets, a blank for the T.
        let plain = |sign: char| sign.is_ascii_digit() || "-:.+TtZz".contains(sign);
        let at = text.chars().all(plain).then(|| text.parse::<jiff::Timestamp>().ok()).flatten()?;
        i64::try_from(at.as_nanosecond()).ok().map(Self)
    }

    /// `YYYY-MM-DD` in UTC, for partitions by day.
    #[must_use]
    pub fn utc_date(self) -> String {
        let mut text = self.rfc3339();
        text.truncate(text.find('T').unwrap_or(text.len()));
        text
    }
}

/// Tells the wall-clock time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_print_as_rfc3339_utc_with_nanoseconds() {
        assert_eq!(Timestamp(1_796_078_187_322_511_484).rfc3339(), "2026-11-30T22:36:27.322511484Z");
        assert_eq!(Timestamp(0).rfc3339(), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(Timestamp(1_796_078_187_322_511_484).utc_date(), "2026-11-30");
    }

    #[test]
    fn rfc3339_is_read_with_its_offset() {
        let read = |text| Timestamp::from_rfc3339(text).map(Timestamp::rfc3339);
        let expected = Some("2026-11-30T22:36:27.500000000Z".into());
        assert_eq!(read("2026-11-30T22:36:27.5Z"), expected);
        assert_eq!(read("2026-12-01T00:36:27.5+02:00"), expected);
        for text in
            ["2026-11-30", "2026-11-30T22:36:27", "2026-11-30 22:36:27Z", "9999-01-01T00:00:00Z", "x", ""]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read("2026-11-30T22:36:27Z[UTC]"), None);
    }

    #[test]
    fn plus_saturates() {
        assert_eq!(Timestamp(i64::MAX).plus(Duration::from_secs(1)), Timestamp(i64::MAX));
        assert_eq!(Timestamp(1).plus(Duration::from_nanos(2)), Timestamp(3));
    }
}
