//! Simulation: the real runner on an in-memory JetStream, on a paused clock, with faults from a seed.
//!
//! `JETSINK_SIM_SEEDS` sets how many seeds are run, `JETSINK_SIM_START` the first one. A failing seed prints itself, its
//! settings, its faults and the trace; add it to `seeds.txt`, which is always run.

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod workload;
#[cfg(test)]
mod world;

#[cfg(test)]
mod seeds {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};

    use crate::workload::{Case, Failure};

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be built")
    }

    /// Runs one seed on a runtime of its own.
    fn run(seed: u64) -> Result<(), Failure> {
        let runtime = runtime();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(Case::from_seed(seed).run()));
        std::panic::catch_unwind(run).unwrap_or_else(|_| {
            Err(Failure { seed, text: format!("seed {seed} panicked: {:?}", Case::from_seed(seed)) })
        })
    }

    /// Everything that came about in one run.
    fn digest(seed: u64) -> Vec<String> {
        let runtime = runtime();
        let entries = runtime.block_on(Case::from_seed(seed).entries());
        entries.iter().map(ToString::to_string).collect()
    }

    /// Runs the seeds on two threads; the first failures are shown, the others only named.
    fn run_all(seeds: &[u64]) {
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&seed) = seeds.get(usize::try_from(index).unwrap_or(usize::MAX)) else {
                            return;
                        };
                        if let Err(failure) = run(seed) {
                            let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                            failures.push(failure);
                            if failures.len() >= 20 {
                                stop.store(true, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        failures.sort_by_key(|failure| failure.text.len());
        if let Some(first) = failures.first() {
            let seeds: Vec<_> = failures.iter().map(|failure| failure.seed).collect();
            panic!("failing seeds {seeds:?}\n\n{}", first.text);
        }
    }

    fn number(variable: &str, otherwise: u64) -> u64 {
        std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    }

    #[test]
    fn seeded_runs_keep_every_invariant() {
        let start = number("JETSINK_SIM_START", 1);
        let seeds: Vec<_> = (start..start + number("JETSINK_SIM_SEEDS", 2000)).collect();
        run_all(&seeds);
    }

    #[test]
    fn a_seed_gives_the_same_run_every_time() {
        for seed in 1..=20 {
            let (first, second) = (digest(seed), digest(seed));
            let differing = first.iter().zip(&second).find(|(one, other)| one != other);
            assert_eq!(differing, None, "seed {seed}");
            assert_eq!(first.len(), second.len(), "seed {seed}");
        }
    }

    #[test]
    fn seeds_that_failed_once_pass() {
        let seeds: Vec<u64> = include_str!("seeds.txt")
            .lines()
            .filter_map(|line| line.split('#').next())
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(|line| line.parse().expect("seeds.txt holds numbers"))
            .collect();
        assert!(!seeds.is_empty());
        run_all(&seeds);
    }
}
