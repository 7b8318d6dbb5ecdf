//! Medians, ratios, and how they are shown.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::run::Figures;

/// All figures of one call.
#[derive(Debug)]
pub(crate) struct Report {
    messages: u64,
    runs: Vec<(&'static str, Vec<Figures>)>,
}

impl Report {
    pub(crate) const fn new(messages: u64) -> Self {
        Self { messages, runs: Vec::new() }
    }

    pub(crate) fn add(&mut self, name: &'static str, figures: Figures) {
        match self.runs.iter_mut().find(|(own, _)| *own == name) {
            Some((_, runs)) => runs.push(figures),
            None => self.runs.push((name, vec![figures])),
        }
    }

    fn median_rate(&self, name: &str) -> Option<f64> {
        let (_, runs) = self.runs.iter().find(|(own, _)| *own == name)?;
        let mut rates = runs.iter().map(|run| run.messages_per_second).collect::<Vec<_>>();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }

    fn peak(&self, name: &str) -> u64 {
        let runs = self.runs.iter().filter(|(own, _)| *own == name).flat_map(|(_, runs)| runs);
        runs.map(|run| run.peak_rss_kib).max().unwrap_or_default()
    }

    /// Median against the median of the bare loop, if that has run.
    fn ratio(&self, name: &str) -> Option<f64> {
        Some(self.median_rate(name)? / self.median_rate("bare")?)
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{} messages of 512 bytes\n", self.messages);
        text.push_str("contestant        messages/s (median)   peak RSS MiB   ratio to bare\n");
        for (name, _) in &self.runs {
            let rate = self.median_rate(name).unwrap_or_default();
            let mib = f64::from(u32::try_from(self.peak(name)).unwrap_or(u32::MAX)) / 1024.0;
            let ratio = self.ratio(name).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
            writeln!(text, "{name:<16} {rate:>20.0} {mib:>14.1} {ratio:>15}").unwrap();
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let runs = self.runs.iter().map(|(name, runs)| {
            let rates = runs.iter().map(|run| run.messages_per_second).collect::<Vec<_>>();
            let own = json!({
                "messages_per_second": self.median_rate(name),
                "messages_per_second_runs": rates,
                "peak_rss_kib": self.peak(name),
                "ratio_to_bare": self.ratio(name),
            });
            ((*name).to_owned(), own)
        });
        let report = json!({ "messages": self.messages, "message_bytes": 512, "runs": runs.collect::<Map<String, Value>>() });
        serde_json::to_string_pretty(&report).unwrap() + "\n"
    }
}
