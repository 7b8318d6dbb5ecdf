//! `jetsink dlq stats`.

use std::collections::BTreeMap;
use std::io::Write as _;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::letters::{Letter, Tally, Upwards};
use super::print::{Format, seconds, visible};
use super::progress::Progress;
use super::selection::Selection;
use super::target::Target;
use crate::cli::output;
use crate::clock::Timestamp;

/// Different values that are counted apart of one fact; whatever comes beyond is counted together.
const APART: usize = 10_000;
const OTHERS: &str = "(others)";

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    selection: Selection,
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Lines of each table, the most frequent ones
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// Counts by one fact.
#[derive(Debug, Default)]
struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn add(&mut self, value: &str) {
        if let Some(count) = self.0.get_mut(value) {
            *count += 1;
        } else {
            let value = if self.0.len() < APART { value } else { OTHERS };
            *self.0.entry(value.to_owned()).or_default() += 1;
        }
    }

    fn top(&self, limit: usize) -> Vec<(&str, u64)> {
        let mut all: Vec<_> = self.0.iter().map(|(value, count)| (value.as_str(), *count)).collect();
        all.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
        all.truncate(limit);
        all
    }
}

#[derive(Debug, Default)]
struct Stats {
    letters: u64,
    body_bytes: u64,
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
    reasons: Counts,
    stages: Counts,
    origins: Counts,
    subjects: Counts,
}

impl Stats {
    fn add(&mut self, letter: &Letter) {
        let summary = &letter.summary;
        let at = summary.failed_at.unwrap_or(letter.stored_at);
        self.letters += 1;
        self.body_bytes = self.body_bytes.saturating_add(summary.body_bytes.unwrap_or(0));
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
        self.newest = Some(self.newest.map_or(at, |newest| newest.max(at)));
        self.reasons.add(letter.reason());
        self.stages.add(summary.stage.as_deref().unwrap_or("-"));
        let stream = summary.stream.as_deref().unwrap_or("-");
        self.origins.add(&format!("{stream} > {}", summary.consumer.as_deref().unwrap_or("-")));
        self.subjects.add(&summary.subject);
    }

    fn tables(&self) -> [(&'static str, &Counts); 4] {
        [
            ("reason", &self.reasons),
            ("stage", &self.stages),
            ("stream > durable", &self.origins),
            ("subject", &self.subjects),
        ]
    }

    fn table(&self, top: usize) -> String {
        let time = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), seconds);
        let mut text = format!(
            "{} dead letters, bodies of {} bytes, rejected from {} to {}\n",
            self.letters,
            self.body_bytes,
            time(self.oldest),
            time(self.newest)
        );
        for (name, counts) in self.tables() {
            text.push_str(&format!("\n{:>10}  {name}\n", "LETTERS"));
            for (value, count) in counts.top(top) {
                text.push_str(&format!("{count:>10}  {}\n", visible(value)));
            }
        }
        text
    }

    fn object(&self, tally: Tally, top: usize) -> Value {
        let counts = |counts: &Counts| -> Value {
            counts
                .top(top)
                .into_iter()
                .map(|(value, count)| json!({ "value": value, "letters": count }))
                .collect()
        };
        json!({
            "letters": self.letters,
            "payload_bytes": self.body_bytes,
            "oldest": self.oldest.map(Timestamp::rfc3339),
            "newest": self.newest.map(Timestamp::rfc3339),
            "messages": tally.messages,
            "no_dead_letters": tally.strangers,
            "incomplete": tally.incomplete,
            "reasons": counts(&self.reasons),
            "stages": counts(&self.stages),
            "origins": counts(&self.origins),
            "subjects": counts(&self.subjects),
        })
    }
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut opened = arguments.target.open().await?;
    let mut upwards = Upwards::new(&arguments.selection, arguments.selection.bounds(&opened.state));
    let mut stats = Stats::default();
    let mut progress = Progress::new();
    while let Some((letter, _)) = upwards.next(&mut opened.pages).await? {
        stats.add(&letter);
        progress.show(upwards.tally.messages, opened.state.messages);
    }
    progress.clear();
    let text = match arguments.format {
        Format::Table => stats.table(arguments.top),
        Format::Json => format!("{}\n", stats.object(upwards.tally, arguments.top)),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    output::to_stderr(&upwards.tally.remarks());
    opened.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_values_are_bounded() {
        let mut counts = Counts::default();
        for number in 0..APART + 500 {
            counts.add(&number.to_string());
        }
        counts.add("0");
        assert_eq!(counts.0.len(), APART + 1);
        assert_eq!(counts.top(2), [(OTHERS, 500), ("0", 2)]);
    }
}
