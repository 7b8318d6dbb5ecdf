//! The breaker (`dead_letter.breaker`, adr/0015): when too many of the last messages were rejected, somebody has made a
//! mistake, and it is not the messages.
//!
//! A bad deploy of a producer or of a policy must not empty the stream into the dead-letter stream. So the pipeline holds:
//! nothing is pulled, and what is rejected from then on is withheld under its lease. From time to time a few messages are let
//! through; when few enough of them are rejected, what was withheld is dead-lettered and the pipeline goes on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::settings::BreakerSettings;
use crate::disposition::{Backoff, Rng};
use crate::reason::Stage;

/// Messages of one trial.
pub(super) const TRIAL: usize = 16;
/// Between trials: nobody mends a deploy in a second, and nobody wants to wait for an hour afterwards.
const DELAYS: Backoff =
    Backoff { initial: Duration::from_secs(5), max: Duration::from_secs(300), multiplier: 2.0, jitter: 0.5 };

/// What the last messages came to. Shared by the rounds that judge and the loop that holds.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: Option<BreakerSettings>,
    open: AtomicBool,
    verdicts: Mutex<Verdicts>,
}

#[derive(Debug, Default)]
struct Verdicts {
    /// The last messages, the newest at the end: rejected or not.
    window: VecDeque<bool>,
    /// How many of them were rejected.
    rejected: usize,
    /// Openings and failed trials since a whole window was good enough.
    trips: u32,
    trial: Option<Trial>,
}

/// What the messages of a trial came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) judged: usize,
    pub(super) rejected: usize,
}

impl Breaker {
    pub(super) fn new(settings: Option<BreakerSettings>) -> Self {
        Self { settings, open: AtomicBool::new(false), verdicts: Mutex::default() }
    }

    /// Whether rejections are withheld.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The gate has let a message pass.
    pub(super) fn note_passed(&self) {
        let Some(settings) = self.settings else { return };
        let mut verdicts = self.lock();
        if let Some(trial) = verdicts.trial.as_mut() {
            trial.judged += 1;
        } else if !self.is_open() {
            verdicts.push(false, settings);
        }
    }

    /// A message was rejected; says whether it must be withheld. What is at an end by itself (attempts, deliveries) neither
    /// counts nor waits: it says nothing about producer and policy.
    pub(super) fn note_rejected(&self, stage: Stage) -> bool {
        let Some(settings) = self.settings else { return false };
        let passed_the_gate = match stage {
            Stage::Delivery => return false,
            Stage::Sink => true,
            Stage::Authenticity | Stage::Size | Stage::Policy => false,
        };
        let mut verdicts = self.lock();
        if let Some(trial) = verdicts.trial.as_mut() {
            trial.judged += usize::from(!passed_the_gate);
            trial.rejected += 1;
        } else if !self.is_open() {
            if passed_the_gate {
                verdicts.take_back();
            }
            verdicts.push(true, settings);
            if verdicts.rejected >= settings.rejected {
                verdicts.trips = verdicts.trips.saturating_add(1);
                self.open.store(true, Ordering::Release);
            }
            // The one that opens it is one of those that may be dead-lettered.
            return false;
        }
        true
    }

    /// How many of the last messages were rejected.
    pub(super) fn counts(&self) -> Trial {
        let verdicts = self.lock();
        Trial { judged: verdicts.window.len(), rejected: verdicts.rejected }
    }

    /// How long to wait before the next trial.
    pub(super) fn delay(&self, rng: &mut Rng) -> Duration {
        DELAYS.delay(self.lock().trips.max(1), rng)
    }

    /// From now on verdicts are those of a trial.
    pub(super) fn begin_trial(&self) {
        self.lock().trial = Some(Trial::default());
    }

    /// The outcome of the trial: passed, or not; `None` as long as nothing was judged. A trial that has passed closes the
    /// breaker.
    pub(super) fn end_trial(&self) -> Option<(Trial, bool)> {
        let settings = self.settings?;
        let mut verdicts = self.lock();
        let trial = verdicts.trial.filter(|trial| trial.judged > 0)?;
        verdicts.trial = None;
        let passed =
            trial.rejected.saturating_mul(settings.of) < settings.rejected.saturating_mul(trial.judged);
        if passed {
            verdicts.window.clear();
            verdicts.rejected = 0;
            self.open.store(false, Ordering::Release);
        } else {
            verdicts.trips = verdicts.trips.saturating_add(1);
        }
        Some((trial, passed))
    }

    fn lock(&self) -> MutexGuard<'_, Verdicts> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Verdicts {
    fn push(&mut self, rejected: bool, settings: BreakerSettings) {
        if self.window.len() >= settings.of {
            self.rejected -= usize::from(self.window.pop_front() == Some(true));
        }
        self.window.push_back(rejected);
        self.rejected += usize::from(rejected);
        if self.window.len() >= settings.of && self.rejected < settings.rejected {
            self.trips = 0;
        }
    }

    /// The sink refuses what the gate had let pass: its earlier verdict does not count. Which one it was does not matter as
    /// long as it is one of the last.
    fn take_back(&mut self) {
        if let Some(at) = self.window.iter().rposition(|rejected| !rejected) {
            self.window.remove(at);
        }
    }
}

/// The hold of an open breaker.
#[derive(Debug)]
pub(super) struct Tripped {
    /// When the next trial may begin; `None` while one is under way.
    pub(super) next_trial: Option<Instant>,
    /// When it is time to ask whether others pull, and so to give back what is in hand; `None` while the server is asked.
    pub(super) next_release: Option<Instant>,
}

impl Tripped {
    pub(super) const fn is_on_trial(&self) -> bool {
        self.next_trial.is_none()
    }

    /// When the loop must look again.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.next_trial.into_iter().chain(self.next_release).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker(rejected: usize, of: usize) -> Breaker {
        Breaker::new(Some(BreakerSettings { rejected, of }))
    }

    /// Notes verdicts written as a text: `.` passed, `x` rejected by a check, `s` refused by the sink, `d` at its end;
    /// gives how many were withheld.
    fn note(breaker: &Breaker, verdicts: &str) -> usize {
        let withheld = |verdict: char| match verdict {
            '.' => {
                breaker.note_passed();
                false
            }
            'x' => breaker.note_rejected(Stage::Size),
            's' => breaker.note_rejected(Stage::Sink),
            _ => breaker.note_rejected(Stage::Delivery),
        };
        verdicts.chars().filter(|verdict| withheld(*verdict)).count()
    }

    #[test]
    fn it_opens_at_n_of_the_last_m_and_withholds_what_comes_after() {
        for (verdicts, open, withheld) in [
            ("xx", false, 0),
            ("xxx", true, 0),
            ("xxxxx", true, 2),
            ("xx...x", false, 0),
            ("x..xx", true, 0),
            ("x...xx...xx", false, 0),
            ("...sss", true, 0),
            ("..s..s", false, 0),
            ("dddddd", false, 0),
            ("xxxd.sx", true, 2),
        ] {
            let breaker = breaker(3, 5);
            assert_eq!((note(&breaker, verdicts), breaker.is_open()), (withheld, open), "{verdicts}");
        }
    }

    #[test]
    fn without_settings_it_never_opens() {
        let breaker = Breaker::new(None);
        assert_eq!(note(&breaker, &"x".repeat(1000)), 0);
        assert!(!breaker.is_open());
    }

    #[test]
    fn a_trial_decides_by_the_same_share() {
        for (verdicts, passed) in [
            ("", None),
            (".", Some(true)),
            ("x", Some(false)),
            ("xx.", Some(false)),
            ("x.", Some(true)),
            ("..ss", Some(false)),
        ] {
            let breaker = breaker(3, 5);
            assert_eq!(note(&breaker, "xxx"), 0);
            breaker.begin_trial();
            let rejected = verdicts.chars().filter(|verdict| *verdict != '.').count();
            assert_eq!(note(&breaker, verdicts), rejected, "a rejection in a trial is withheld");
            assert_eq!(breaker.end_trial().map(|(_, passed)| passed), passed, "{verdicts}");
            assert_eq!(breaker.is_open(), passed != Some(true), "{verdicts}");
        }
    }

    #[test]
    fn delays_grow_until_a_whole_window_was_good_enough() {
        let breaker = breaker(3, 5);
        let mut rng = Rng::seeded(1);
        note(&breaker, "xxx");
        assert!(breaker.delay(&mut rng) <= DELAYS.initial);
        for _ in 0..10 {
            breaker.begin_trial();
            note(&breaker, "x");
            assert_eq!(breaker.end_trial(), Some((Trial { judged: 1, rejected: 1 }, false)));
        }
        assert!(breaker.delay(&mut rng) >= DELAYS.max / 2);
        breaker.begin_trial();
        note(&breaker, ".");
        assert!(breaker.end_trial().is_some_and(|(_, passed)| passed));
        note(&breaker, "..x.");
        assert!(breaker.delay(&mut rng) >= DELAYS.max / 2);
        note(&breaker, ".");
        assert!(breaker.delay(&mut rng) <= DELAYS.initial);
    }
}
