//! The answer of `explain` for people.

use serde_json::Value;

use super::report::{Check, Field, Outcome, Report, Rule};
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
    if let Some(mqtt) = &facts.mqtt {
        let topic = mqtt.topic.as_deref().map_or_else(|| "no topic".into(), on_one_line);
        text.push_str(&format!("mqtt            {topic}, QoS {}\n", mqtt.qos));
    }
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
        Outcome::Warns => format!("permitted with a warning{}", report.verdict.because()),
        Outcome::Fails => format!("rejected{}", report.verdict.because()),
        Outcome::NotReached | Outcome::CannotJudge => report.verdict.on_one_line(),
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
    let mut text = format!("{name:<16}{}\n", check.finding.on_one_line());
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
        text.push_str(&format!("    alone       {}\n", alone.on_one_line()));
    }
    text
}
