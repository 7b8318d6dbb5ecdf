//! Permissions that were tried.

use super::facts::{Facts, Outcome};
use super::finding::{Code, Finding};
use super::permissions::Need;

pub(super) fn look(facts: &Facts, findings: &mut Vec<Finding>) {
    for trial in &facts.trials {
        let permission = &trial.permission;
        let (verb, subject) = (permission.direction.as_str(), &permission.subject);
        let seen = match trial.outcome {
            Outcome::Granted => continue,
            Outcome::Denied => format!("the user may not {verb} {subject}: {}", permission.purpose),
            Outcome::NoAnswer => format!("no answer to a {verb} on {subject}: {}", permission.purpose),
        };
        let remedy = format!("grant {verb} on {subject} (jetsink permissions prints the whole block)");
        findings.push(match (trial.outcome, permission.need) {
            (Outcome::Denied, Need::Required) => Finding::refusal(Code::PermissionMissing, seen, remedy),
            (Outcome::Denied, Need::TellsMore) => Finding::warning(Code::PermissionMissing, seen, remedy),
            (Outcome::NoAnswer | Outcome::Granted, Need::Required | Need::TellsMore) => {
                Finding::warning(Code::NotSeen, seen, remedy)
            }
        });
    }
}
