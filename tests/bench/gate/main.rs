//! `cargo bench --bench gate`: how many messages a second the gate judges on one core.
//!
//! Bodies of 512 bytes of JSON, with the headers that a producer of such a stream sends. Each case is measured in several
//! rounds over a thousand different messages, and its median counts. The bench fails when a case is below its target.
//!
//! Time is what the processor spent on this thread, so whatever else runs on the machine does not make the gate look slow.
//!
//! Options: `--rounds N` [7], `--round-ms N` [300], `--only CASE`, `--no-targets`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a measurement that cannot go on ends")]
#![expect(clippy::print_stdout, reason = "the figures are the output")]

mod cases;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use cases::Case;
use jetsink::delivery::{Gate as _, Verdict};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// What was asked for.
struct Options {
    rounds: usize,
    round: Duration,
    only: Option<String>,
    targets: bool,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Self {
        let mut options = Self { rounds: 7, round: Duration::from_millis(300), only: None, targets: true };
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
            match &*word {
                "--rounds" => options.rounds = value().parse().unwrap(),
                "--round-ms" => options.round = Duration::from_millis(value().parse().unwrap()),
                "--only" => options.only = Some(value()),
                "--no-targets" => options.targets = false,
                // Cargo adds this one.
                "--bench" => {}
                unknown => panic!("unknown option {unknown}"),
            }
        }
        options
    }
}

fn main() -> ExitCode {
    let options = Options::read(std::env::args().skip(1));
    let mut missed = false;
    println!("{:<18}{:>14}{:>14}{:>14}{:>12}", "case", "median/s", "lowest/s", "highest/s", "target/s");
    for case in cases::all() {
        if options.only.as_deref().is_some_and(|only| only != case.name) {
            continue;
        }
        let mut rates: Vec<_> = (0..options.rounds.max(1)).map(|_| rate(&case, options.round)).collect();
        rates.sort_unstable();
        let (Some(lowest), Some(highest)) = (rates.first(), rates.last()) else { continue };
        let median = rates.get(rates.len() / 2).unwrap();
        let target = case.target.map_or_else(String::new, |target| target.to_string());
        println!("{:<18}{median:>14}{lowest:>14}{highest:>14}{target:>12}", case.name);
        missed |= options.targets && case.target.is_some_and(|target| *median < target);
    }
    if missed {
        println!("a target was missed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Messages judged a second; every one must pass.
fn rate(case: &Case, round: Duration) -> u64 {
    let (began, worked) = (Instant::now(), processor_time());
    let mut judged = 0_u64;
    while began.elapsed() < round {
        for envelope in &case.envelopes {
            let judgement = black_box(&case.gate).judge(black_box(envelope));
            assert!(judgement.verdict == Verdict::Permitted, "{}: {judgement:?}", case.name);
            judged += 1;
        }
    }
    let nanoseconds = (processor_time() - worked).as_nanos();
    u64::try_from(u128::from(judged) * 1_000_000_000 / nanoseconds).unwrap()
}

/// What the processor has spent on this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}
