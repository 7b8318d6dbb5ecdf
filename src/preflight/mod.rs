//! What is wrong, or will be, with a stream, a durable and a dead-letter stream: facts in, findings out.
//!
//! Pure. `nats` reads the [`Facts`]; `jetsink check --connect` shows the [`Finding`]s, the daemon logs them at its start, and the
//! watch reads the same facts again and again. docs/preflight.md explains every code; a test compares it with [`Code::ALL`].

mod consumer;
mod dead_letters;
mod facts;
mod finding;
mod limits;
mod origin;
mod permissions;
mod plan;
mod retention;
mod trials;
mod versions;
mod work_queue;

#[cfg(test)]
mod tests;

pub use dead_letters::{LettersStream, judge as judge_dead_letter_stream};
pub use facts::{
    ConsumerConfig, ConsumerFacts, DeadLetterFacts, Facts, Feed, LeaderFacts, Outcome, Position, Seen,
    ServerFacts, StreamConfig, StreamFacts, StreamState, Trial, nanoseconds, percent,
};
pub use finding::{Code, Finding, Level};
pub use permissions::{Direction, For, Need, Permission, block, needed};
pub use plan::{LetterPlan, Plan};
pub use versions::version;

/// Everything that can be said about these facts, the worst first.
#[must_use]
pub fn inspect(plan: &Plan, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    trials::look(facts, &mut findings);
    origin::look(plan, facts, &mut findings);
    retention::look(plan, facts, &mut findings);
    work_queue::look(plan, facts, &mut findings);
    limits::look(plan, facts, &mut findings);
    consumer::look(plan, facts, &mut findings);
    versions::look(facts, &mut findings);
    dead_letters::look(plan, facts, &mut findings);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}
