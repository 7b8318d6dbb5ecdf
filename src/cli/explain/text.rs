//! The answer of `explain` for people.

use serde_json::Value;

use super::report::{Check, Field, FindingReport, Outcome, Report, Rule};
use crate::cli::output::on_one_line;

pub(super) fn render(report: &Report) -> String {
    let facts = &report.message;
    let mut text = format!(
        "message         {}, {} bytes of payload, {} header lines, stored at {}\n",
        on_one_line(&facts.subject),
        facts.payload_bytes,
        facts.header_lines,
        facts.stored_at
    );
    text.push_str("\nmetadata\n");
    for field in &report.metadata {
        text.push_str(&line(field));
    }
    for (name, check) in
        [("authenticity", &report.authenticity), ("size", &report.size), ("policy", &report.policy)]
    {
        text.push('\n');
        text.push_str(&of_check(name, check));
    }
    let verdict = match report.verdict.result {
        Outcome::Passes => "permitted".to_owned(),
        Outcome::Warns => format!("permitted with a warning{}", because(&report.verdict)),
        Outcome::Fails => format!("rejected{}", because(&report.verdict)),
        Outcome::NotReached | Outcome::CannotJudge => finding(&report.verdict),
    };
    text.push_str(&format!("\nverdict         {verdict}\nthen            {}\n", on_one_line(&report.then)));
    text
}

fn line(field: &Field) -> String {
    let value = match &field.value {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let from = field.from.as_ref().map_or_else(String::new, |from| format!("  [{from}]"));
    format!("  {:<18}{}{from}\n", field.name, on_one_line(&value))
}

fn of_check(name: &str, check: &Check) -> String {
    let mut text = format!("{name:<16}{}\n", finding(&check.finding));
    if let Some(asked) = &check.asked {
        text.push_str(&format!("  asked         {}\n", on_one_line(asked)));
    }
    for rule in &check.rules {
        text.push_str(&of_rule(rule));
    }
    text
}

fn of_rule(rule: &Rule) -> String {
    let asked = on_one_line(&rule.asked);
    let mut text = format!("  {} \"{}\"\n    asked       {asked}\n", rule.rule, on_one_line(&rule.subject));
    if let Some(alone) = &rule.finding {
        text.push_str(&format!("    alone       {}\n", finding(alone)));
    }
    text
}

/// One line: the outcome, and where it has one the reason.
pub(in crate::cli) fn finding(finding: &FindingReport) -> String {
    format!("{}{}", finding.result.as_str(), because(finding))
}

fn because(finding: &FindingReport) -> String {
    let detail = finding.detail.as_deref().map(on_one_line).unwrap_or_default();
    match (finding.stage, finding.reason, finding.error_type) {
        (Some(stage), Some(reason), Some(error_type)) => {
            format!(": {reason} (stage {stage}, {error_type}): {detail}")
        }
        _ if detail.is_empty() => String::new(),
        _ => format!(": {detail}"),
    }
}
