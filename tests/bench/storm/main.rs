//! `cargo bench --bench storm`: a storm of rejections against a bare pipelined publish loop, on the same server, in turn.
//!
//! Starts a server of its own and stores messages that every one breaks the size policy. The daemon dead-letters all of them:
//! delivered, judged, rendered, published, confirmed, settled. The bare loop is what async-nats gives without a daemon around
//! it: it only publishes letters of the same bytes and headers and awaits each confirmation, many under way at once. Both
//! are processes of their own and are watched from outside: the daemon from its first delivery until nothing is pending and
//! nothing is unacknowledged, the loop from its first stored letter to its last.
//!
//! So the two do not do the same work, and the ratio is not one of two publishers: per message the daemon's side also has
//! the server read and deliver the original, and take in its acknowledgement, on the same cores. The stream is of the same
//! kind, the number and the body of the letters are the same. What differs favours the loop: its letters are a little
//! smaller (no `Nats-Expected-Stream`, a shorter message id), nothing is rendered or hashed, more publishes are under way
//! at once, and its stream is new in each round where the daemon's is purged and keeps its window of message ids.
//!
//! Options: `--messages N` [50000], `--rounds N` [3], `--require RATIO` (fails below this ratio of the medians).

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
mod run;

use run::Storm;

/// What was asked for.
#[derive(Debug)]
struct Options {
    messages: u64,
    rounds: usize,
    require: f64,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Self {
        let mut options = Self { messages: 50_000, rounds: 3, require: 0.0 };
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
            match &*word {
                "--messages" => options.messages = value().parse().expect("a number of messages"),
                "--rounds" => options.rounds = value().parse().expect("a number of rounds"),
                "--require" => options.require = value().parse().expect("a ratio"),
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
        runtime.block_on(bare::publish_all(words.skip(1).collect()));
        return;
    }
    let options = Options::read(words);
    let (daemon, bare) = runtime.block_on(measure(&options));
    let ratio = daemon / bare;
    println!("{} rejections, medians of {} rounds", options.messages, options.rounds);
    println!("daemon {daemon:>8.0} rejections/s\nbare   {bare:>8.0} publishes/s\nratio  {ratio:>8.2}");
    assert!(ratio >= options.require, "the ratio {ratio:.2} is below {}", options.require);
}

/// The median rates of both.
async fn measure(options: &Options) -> (f64, f64) {
    let storm = Storm::prepare(options.messages).await;
    let (mut daemon, mut bare) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        daemon.push(storm.let_the_daemon_reject().await);
        bare.push(storm.publish_the_same_letters().await);
        eprintln!("round {round}: daemon {:.0}/s, bare {:.0}/s", daemon[round - 1], bare[round - 1]);
    }
    (median(daemon), median(bare))
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
