//! `cargo bench --bench throughput`: the daemon against a bare async-nats loop, on the same server, in turn.
//!
//! Starts a server of its own, publishes JSON messages of 512 bytes, and lets each contestant carry all of them from a fresh
//! durable to a file: the bare loop (fetch → write → fdatasync → ack, the next fetch overlapped) and the release binary with
//! `record = "payload"` and `record = "full"`. Every contestant is a process of its own and is watched from outside, by the
//! durable's state: from its first delivery until nothing is pending and nothing is unacknowledged.
//!
//! Options: `--messages N` [200000], `--rounds N` [3], `--only CONTESTANT`, `--json FILE`, `--backlog N` (compares peak memory on a backlog of N
//! with one of 200000).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot go on ends"
)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the figures are the output")]
#![expect(clippy::indexing_slicing, reason = "answers of the server are read by field name")]

mod bare;
#[path = "../../integration/harness/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the harness serves the tests as well")]
mod harness;
mod report;
mod run;

use std::path::PathBuf;

use report::Report;
use run::{Contestant, Track};

/// What was asked for.
#[derive(Debug)]
struct Options {
    messages: u64,
    rounds: usize,
    only: Option<String>,
    json: Option<PathBuf>,
    backlog: Option<u64>,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Self {
        let mut options = Self { messages: 200_000, rounds: 3, only: None, json: None, backlog: None };
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
            match &*word {
                "--messages" => options.messages = value().parse().expect("a number of messages"),
                "--rounds" => options.rounds = value().parse().expect("a number of rounds"),
                "--only" => options.only = Some(value()),
                "--json" => options.json = Some(value().into()),
                "--backlog" => options.backlog = Some(value().parse().expect("a number of messages")),
                // Cargo adds this one.
                "--bench" => {}
                unknown => panic!("unknown option {unknown}"),
            }
        }
        options
    }
}

fn main() {
    let mut words = std::env::args().skip(1).peekable();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if words.peek().is_some_and(|word| word == bare::ROLE) {
        runtime.block_on(bare::carry(words.skip(1).collect()));
        return;
    }
    let options = Options::read(words);
    let report = runtime.block_on(async {
        match options.backlog {
            Some(backlog) => compare_backlogs(backlog).await,
            None => compare_contestants(&options).await,
        }
    });
    println!("{}", report.table());
    if let Some(path) = &options.json {
        std::fs::write(path, report.json()).unwrap();
    }
}

/// Rounds of every contestant in turn, so that a slow minute of the machine falls on all of them.
async fn compare_contestants(options: &Options) -> Report {
    let track = Track::prepare(options.messages).await;
    let mut report = Report::new(options.messages);
    for round in 1..=options.rounds {
        let all = Contestant::ALL.iter();
        let asked = |one: &&Contestant| options.only.as_ref().is_none_or(|only| only == one.name());
        for contestant in all.filter(asked) {
            let figures = track.carry(*contestant, 1).await;
            eprintln!("round {round}, {}: {figures}", contestant.name());
            report.add(contestant.name(), figures);
        }
    }
    report
}

/// The daemon on the whole backlog, and on its last 200,000 messages.
async fn compare_backlogs(backlog: u64) -> Report {
    let track = Track::prepare(backlog).await;
    let mut report = Report::new(backlog);
    for (name, first) in [("backlog-200000", backlog.saturating_sub(200_000) + 1), ("backlog-all", 1)] {
        let figures = track.carry(Contestant::Full, first).await;
        eprintln!("{name}: {figures}");
        report.add(name, figures);
    }
    report
}
