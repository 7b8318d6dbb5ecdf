//! The one decision about a failed record (design §5).
//!
//! Three rules keep an outage from emptying the stream into the dead-letter subject:
//! an attempt counts only with a witness that the sink works for others; a sink that fails everybody is *down*, and being
//! down counts for nobody; a record is blamed for a "down" sink only when the probe passes and the record raises it again.

use super::fault::{Fault, Refusal};

/// What says that the sink works while this record fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// Another record was committed in the same round.
    AnotherCommitted,
    /// The record was written alone, and the probe passed right after.
    ProbePassed,
    /// Nothing: the fault may be everybody's.
    Nobody,
}

/// One failure of one record, with what is known about the round.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The fault the sink reported.
    pub fault: Fault,
    /// Attempts of this record counted before this round.
    pub attempts: u32,
    /// The witness of this round.
    pub witness: Witness,
    /// Rounds in a row, this one included, in which nothing could be counted for this record.
    pub uncounted_rounds: u32,
    /// How often the record raised *sink down* and the probe passed afterwards, before this round.
    pub downs_disproved: u32,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Dead-letter it: the sink refused it.
    Refuse(Refusal),
    /// Dead-letter it: every attempt was used up.
    Exhausted,
    /// Try again after the backoff.
    Retry {
        /// Whether this round counted as an attempt.
        counted: bool,
        /// Whether it must be written alone from now on.
        alone: bool,
    },
    /// The sink is down: stop pulling, probe, resume.
    Hold,
}

/// Rounds without a witness after which a transient fault is taken for a sink that is down.
const UNCOUNTED_ROUNDS: u32 = 3;

/// Decides. `max_attempts` is `delivery.max_attempts`, at least 1.
#[must_use]
pub fn decide(failure: &Failure, max_attempts: u32) -> Disposition {
    match &failure.fault {
        Fault::Refused(refusal) | Fault::RefusedSomewhere(refusal) => Disposition::Refuse(refusal.clone()),
        Fault::Transient { .. } => match failure.witness {
            Witness::AnotherCommitted | Witness::ProbePassed => {
                count(failure.attempts, max_attempts, failure.witness == Witness::ProbePassed)
            }
            Witness::Nobody if failure.uncounted_rounds >= UNCOUNTED_ROUNDS => Disposition::Hold,
            Witness::Nobody => Disposition::Retry { counted: false, alone: false },
        },
        Fault::SinkDown { .. } => {
            if failure.downs_disproved >= 1 && failure.witness != Witness::Nobody {
                count(failure.attempts, max_attempts, true)
            } else {
                Disposition::Hold
            }
        }
    }
}

const fn count(attempts: u32, max_attempts: u32, alone: bool) -> Disposition {
    if attempts.saturating_add(1) >= max_attempts {
        Disposition::Exhausted
    } else {
        Disposition::Retry { counted: true, alone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::ReasonCode;

    fn failure(fault: Fault, witness: Witness) -> Failure {
        Failure { fault, attempts: 0, witness, uncounted_rounds: 1, downs_disproved: 0 }
    }

    #[test]
    fn a_refused_record_is_dead_lettered_at_once() {
        let refusal = Refusal { reason: ReasonCode::SinkRefused, detail: "22003".into() };
        let decision = decide(&failure(Fault::Refused(refusal.clone()), Witness::Nobody), 5);
        assert_eq!(decision, Disposition::Refuse(refusal));
    }

    #[test]
    fn without_a_witness_nothing_is_ever_counted() {
        for uncounted_rounds in 1..50 {
            for attempts in [0, 4, 1_000] {
                let failure = Failure {
                    attempts,
                    uncounted_rounds,
                    ..failure(Fault::transient("timeout"), Witness::Nobody)
                };
                let expected = if uncounted_rounds < 3 {
                    Disposition::Retry { counted: false, alone: false }
                } else {
                    Disposition::Hold
                };
                assert_eq!(decide(&failure, 5), expected);
            }
        }
    }

    #[test]
    fn with_a_witness_attempts_run_out() {
        for (attempts, max_attempts, exhausted) in [(0, 5, false), (3, 5, false), (4, 5, true), (0, 1, true)]
        {
            let failure =
                Failure { attempts, ..failure(Fault::transient("timeout"), Witness::AnotherCommitted) };
            let expected = if exhausted {
                Disposition::Exhausted
            } else {
                Disposition::Retry { counted: true, alone: false }
            };
            assert_eq!(decide(&failure, max_attempts), expected);
        }
    }

    #[test]
    fn a_sink_that_is_down_is_held_until_the_record_is_proved_to_be_the_cause() {
        let down = failure(Fault::sink_down("disk full"), Witness::Nobody);
        assert_eq!(decide(&down, 5), Disposition::Hold);
        let others_pass = Failure { witness: Witness::AnotherCommitted, ..down.clone() };
        assert_eq!(decide(&others_pass, 5), Disposition::Hold);
        let again = Failure { downs_disproved: 1, witness: Witness::ProbePassed, ..down.clone() };
        assert_eq!(decide(&again, 5), Disposition::Retry { counted: true, alone: true });
        let probe_fails_now = Failure { downs_disproved: 1, ..down };
        assert_eq!(decide(&probe_fails_now, 5), Disposition::Hold);
    }
}
