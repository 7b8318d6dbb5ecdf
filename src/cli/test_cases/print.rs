//! The answer of `test`.

use serde::Serialize;

use super::expected::Difference;
use super::judge::CaseResult;
use crate::cli::explain::report::FindingReport;
use crate::cli::output::on_one_line;

/// Everything, for programs.
#[derive(Serialize)]
pub(super) struct Summary<'a> {
    cases: Vec<CaseReport<'a>>,
    passed: usize,
    failed: usize,
    signatures_assumed: usize,
}

#[derive(Serialize)]
struct CaseReport<'a> {
    name: &'a str,
    passed: bool,
    signature_assumed: bool,
    expected: String,
    found: Option<FindingReport>,
    error: Option<&'a str>,
    differences: &'a [Difference],
}

impl<'a> Summary<'a> {
    pub(super) fn of(results: &'a [CaseResult]) -> Self {
        let passed = results.iter().filter(|result| result.passed()).count();
        Self {
            cases: results.iter().map(CaseReport::of).collect(),
            passed,
            failed: results.len() - passed,
            signatures_assumed: results.iter().filter(|result| result.signature_assumed).count(),
        }
    }
}

impl<'a> CaseReport<'a> {
    fn of(result: &'a CaseResult) -> Self {
        Self {
            name: &result.name,
            passed: result.passed(),
            signature_assumed: result.signature_assumed,
            expected: result.expected.text(),
            found: result.judged.as_ref().ok().map(|judgement| (&judgement.verdict).into()),
            error: result.judged.as_ref().err().map(String::as_str),
            differences: &result.differences,
        }
    }
}

/// One line a case, more for one that failed, and how many there were.
pub(super) fn text(results: &[CaseResult]) -> String {
    let summary = Summary::of(results);
    let mut text: String = summary.cases.iter().map(of_case).collect();
    let count = results.len();
    let noun = if count == 1 { "case" } else { "cases" };
    text.push_str(&format!("{count} {noun}: {} passed, {} failed", summary.passed, summary.failed));
    if summary.signatures_assumed > 0 {
        text.push_str(&format!("; {} without the authenticity check", summary.signatures_assumed));
    }
    text.push('\n');
    text
}

fn of_case(case: &CaseReport<'_>) -> String {
    let word = if case.passed { "ok  " } else { "FAIL" };
    let assumed = if case.signature_assumed { " (signature assumed)" } else { "" };
    let mut text = format!("{word}  {}{assumed}\n", on_one_line(case.name));
    if case.passed {
        return text;
    }
    let found = match (&case.found, case.error) {
        (Some(finding), _) => finding.on_one_line(),
        (None, error) => error.unwrap_or_default().to_owned(),
    };
    text.push_str(&format!("        expected {}\n        found    {}\n", case.expected, on_one_line(&found)));
    for difference in case.differences {
        text.push_str(&format!("        {}\n", difference.text()));
    }
    text
}
