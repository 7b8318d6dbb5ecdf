//! Which dead letters: flags, and the filter that they make.

use std::ops::RangeInclusive;

use clap::Args;

use super::failure::Failure;
use crate::clock::{Clock as _, SystemClock, Timestamp};
use crate::config::parse_duration;
use crate::dead_letter::Summary;
use crate::envelope::Headers;
use crate::nats::StreamState;
use crate::subject::SubjectPattern;

/// Which dead letters. Every flag narrows; of one flag given several times, one has to fit.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which dead letters")]
pub(super) struct Selection {
    /// Stage: authenticity, size, policy, sink, delivery
    #[arg(long, value_delimiter = ',')]
    stage: Vec<String>,
    /// Reason code, or the error type of letters that have no reason
    #[arg(long, value_delimiter = ',')]
    reason: Vec<String>,
    /// Subject of the original; wildcards * and > as in NATS
    #[arg(long, value_name = "PATTERN", value_parser = subject)]
    subject: Vec<SubjectPattern>,
    /// Stream of the original
    #[arg(long, value_name = "NAME")]
    from_stream: Vec<String>,
    /// Durable that delivered the original
    #[arg(long, value_name = "NAME")]
    consumer: Vec<String>,
    /// Sequence of the dead letter: 7, 7.., ..9 or 7..9 (both ends included)
    #[arg(long, value_name = "RANGE", value_parser = range)]
    sequence: Option<RangeInclusive<u64>>,
    /// Sequence of the original in its stream
    #[arg(long, value_name = "RANGE", value_parser = range)]
    original_sequence: Option<RangeInclusive<u64>>,
    /// Rejected at this time or later: RFC 3339, or an age such as 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Rejected before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
    /// A header of the original; the name in any case
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Idempotency key
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
}

impl Selection {
    /// Whether nothing narrows.
    pub(super) fn is_everything(&self) -> bool {
        let lists = self.stage.is_empty() && self.reason.is_empty() && self.subject.is_empty();
        let names = self.from_stream.is_empty() && self.consumer.is_empty() && self.key.is_empty();
        let ranges = self.sequence.is_none() && self.original_sequence.is_none();
        let times = self.since.is_none() && self.until.is_none();
        lists && names && ranges && times && self.header.is_empty()
    }

    /// The sequences of the dead-letter stream to look at.
    pub(super) fn bounds(&self, state: &StreamState) -> (u64, u64) {
        let (first, last) = self.sequence.clone().unwrap_or(0..=u64::MAX).into_inner();
        (first.max(state.first).max(1), last.min(state.last))
    }

    /// Whether the letter fits, its original's headers aside. `stored_at` stands in where the letter tells no time.
    pub(super) fn fits(&self, summary: &Summary, stored_at: Timestamp) -> bool {
        let one_of = |wanted: &[String], own: Option<&String>| {
            wanted.is_empty() || own.is_some_and(|own| wanted.contains(own))
        };
        let at = summary.failed_at.unwrap_or(stored_at);
        let subject = &self.subject;
        one_of(&self.stage, summary.stage.as_ref())
            && one_of(&self.reason, summary.reason.as_ref().or(summary.error_type.as_ref()))
            && (subject.is_empty() || subject.iter().any(|pattern| pattern.matches(&summary.subject)))
            && one_of(&self.from_stream, summary.stream.as_ref())
            && one_of(&self.consumer, summary.consumer.as_ref())
            && one_of(&self.key, summary.idempotency_key.as_ref())
            && self
                .original_sequence
                .as_ref()
                .is_none_or(|range| summary.stream_sequence.is_some_and(|sequence| range.contains(&sequence)))
            && self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at < until)
    }

    /// Whether the original's headers must be read as well.
    pub(super) fn needs_headers(&self) -> bool {
        !self.header.is_empty()
    }

    /// Whether the original's headers fit: of each name asked for, one of the values asked for.
    pub(super) fn fits_headers(&self, headers: Option<&Headers>) -> bool {
        self.header.iter().all(|(name, _)| {
            let wanted = self.header.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
            headers.is_some_and(|headers| {
                let mut wanted = wanted.clone();
                wanted.any(|(name, value)| headers.all_ignoring_case(name).any(|own| own == value.as_bytes()))
            })
        })
    }

    /// Refuses a selection of sequences by name together with flags.
    pub(super) fn refuse_with(&self, sequences: &[u64]) -> Result<(), Failure> {
        if sequences.is_empty() || self.is_everything() {
            return Ok(());
        }
        Err(Failure::refused("give either sequences or flags that select, not both"))
    }
}

fn subject(text: &str) -> Result<SubjectPattern, String> {
    SubjectPattern::parse(text).map_err(|error| error.to_string())
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| "a range is 7, 7.., ..9 or 7..9".to_owned());
    let range = match text.split_once("..") {
        None => {
            let only = number(text)?;
            only..=only
        }
        Some((first, last)) => {
            let first = if first.is_empty() { 0 } else { number(first)? };
            let last = last.strip_prefix('=').unwrap_or(last);
            first..=if last.is_empty() { u64::MAX } else { number(last)? }
        }
    };
    if range.is_empty() { Err("the range holds nothing".into()) } else { Ok(range) }
}

/// RFC 3339, or an age.
fn time(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return i64::try_from(at.as_nanosecond())
            .map(Timestamp)
            .map_err(|_| "the time is out of range".into());
    }
    let age = parse_duration(text).map_err(|error| {
        format!("neither a time such as 2026-11-30T22:36:27Z nor an age such as 2h: {error}")
    })?;
    let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
    Ok(Timestamp(SystemClock.now().0.saturating_sub(age)))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it is NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letter::Form;

    fn summary() -> Summary {
        Summary {
            form: Form::Json,
            subject: "orders.new".into(),
            stream: Some("ORDERS".into()),
            stream_sequence: Some(42),
            consumer: Some("sink".into()),
            reason: Some("payload_too_large".into()),
            stage: Some("size".into()),
            error_type: Some("SizePolicyViolationError".into()),
            error: None,
            failed_at: Some(Timestamp(100)),
            stored_at: None,
            message_id: None,
            idempotency_key: Some("stream-sequence:ORDERS:42".into()),
            sink: None,
            delivery_count: None,
            body_bytes: None,
            body_unavailable: None,
            data_bytes: None,
            headers_unread: false,
        }
    }

    #[test]
    fn ranges_have_both_ends() {
        assert_eq!(range("7").unwrap(), 7..=7);
        assert_eq!(range("7..").unwrap(), 7..=u64::MAX);
        assert_eq!(range("..9").unwrap(), 0..=9);
        assert_eq!(range("7..=9").unwrap(), 7..=9);
        assert!(range("9..7").is_err() && range("a").is_err() && range("").is_err());
    }

    #[test]
    fn times_are_dates_or_ages() {
        assert_eq!(time("1970-01-01T00:00:01Z").unwrap(), Timestamp(1_000_000_000));
        assert!(time("2h").unwrap() < SystemClock.now());
        assert!(time("yesterday").is_err());
    }

    #[test]
    fn every_flag_narrows() {
        let text = |text: &str| vec![text.to_owned()];
        let everything = Selection::default();
        assert!(everything.is_everything() && everything.fits(&summary(), Timestamp(0)));
        let fitting = Selection {
            stage: text("size"),
            reason: vec!["sink_refused".into(), "payload_too_large".into()],
            subject: vec![subject("orders.*").unwrap()],
            from_stream: text("ORDERS"),
            consumer: text("sink"),
            sequence: None,
            original_sequence: Some(40..=42),
            since: Some(Timestamp(100)),
            until: Some(Timestamp(101)),
            header: Vec::new(),
            key: text("stream-sequence:ORDERS:42"),
        };
        assert!(fitting.fits(&summary(), Timestamp(0)));
        for other in [
            Selection { stage: text("sink"), ..fitting.clone() },
            Selection { reason: text("sink_refused"), ..fitting.clone() },
            Selection { subject: vec![subject("orders").unwrap()], ..fitting.clone() },
            Selection { from_stream: text("orders"), ..fitting.clone() },
            Selection { consumer: text("other"), ..fitting.clone() },
            Selection { original_sequence: Some(43..=50), ..fitting.clone() },
            Selection { since: Some(Timestamp(101)), ..fitting.clone() },
            Selection { until: Some(Timestamp(100)), ..fitting.clone() },
            Selection { key: text("x"), ..fitting.clone() },
        ] {
            assert!(!other.fits(&summary(), Timestamp(100)) && !other.is_everything(), "{other:?}");
        }
    }

    #[test]
    fn a_header_fits_by_any_of_the_values_of_its_name() {
        let mut headers = Headers::new();
        headers.append("Tenant", "a");
        headers.append("Zone", "1");
        let wanted = |pairs: &[&str]| Selection {
            header: pairs.iter().map(|pair| header(pair).unwrap()).collect(),
            ..Selection::default()
        };
        assert!(wanted(&["tenant=a"]).fits_headers(Some(&headers)));
        assert!(wanted(&["tenant=b", "Tenant=a", "zone=1"]).fits_headers(Some(&headers)));
        assert!(!wanted(&["tenant=a", "zone=2"]).fits_headers(Some(&headers)));
        assert!(!wanted(&["tenant=a"]).fits_headers(None));
    }
}
