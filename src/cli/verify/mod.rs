//! `jetsink verify`: whether a message is signed as a rule asks, and whether the gate would let it pass.

mod source;
mod stored;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use serde::Serialize;

use self::source::SourceError;
use super::explain::report::{FindingReport, Outcome};
use super::message::{Message, MessageArguments};
use super::output::{self, Format};
use super::signing::{self, KeyArguments, RuleArguments, Rules, SignWith};
use super::{EXIT_CONFIG, EXIT_UNAVAILABLE, refuse_input};
use crate::checks::authenticity::Authenticity;
use crate::checks::explain::{SignatureRuleFound, explain};
use crate::envelope::SourceNames;
use crate::nats::chain;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true)
    .args(["subject", "message", "stream", "dead_letter", "dead_letter_stream"]))]
pub(super) struct Arguments {
    #[command(flatten)]
    rule: RuleArguments,
    #[command(flatten)]
    key: KeyArguments,
    /// The id of the key that --key-file, --key-env or --key-credential names
    #[arg(long, value_name = "ID", conflicts_with = "config")]
    key_id: Option<String>,
    #[command(flatten)]
    message: MessageArguments,
    /// Read the message from this stream, on the connection of the configuration
    #[arg(long, value_name = "STREAM", requires_all = ["config", "sequence"])]
    stream: Option<String>,
    /// Verify the original that a dead letter carries: a file with its JSON record, `-` for standard input
    #[arg(long, value_name = "FILE")]
    dead_letter: Option<PathBuf>,
    /// The same, with the dead letter read from this stream, on the connection of the configuration
    #[arg(long, value_name = "STREAM", requires_all = ["config", "sequence"])]
    dead_letter_stream: Option<String>,
    /// The sequence of the message or dead letter in its stream; twice for a dead letter of two parts
    #[arg(long, value_name = "N")]
    sequence: Vec<u64>,
    /// Show the bytes that a signature of this message signs
    #[arg(long)]
    show_signed_bytes: bool,
    /// How to write the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The answer.
#[derive(Serialize)]
struct Answer {
    valid: bool,
    authenticity: FindingReport,
    /// Nothing without a configuration: then only the signature counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<FindingReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<FindingReport>,
    /// Whether a rule asks for a signature at all.
    signature_asked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_bytes: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let key = match (arguments.key.source(), &arguments.key_id) {
        (Some(source), Some(key_id)) => Some(SignWith::new(source, key_id.clone())),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            output::to_stderr(
                "a key takes both its id (--key-id) and its place (--key-file, --key-env, --key-credential)\n",
            );
            return ExitCode::from(2);
        }
    };
    let rules = match arguments.rule.rules(key.as_ref()) {
        Ok(rules) => rules,
        Err(code) => return code,
    };
    if rules.settings.is_none() && key.is_none() {
        output::to_stderr(
            "by which key? Give a configuration (-c), or --key-id and --key-file, --key-env or --key-credential\n",
        );
        return ExitCode::from(2);
    }
    match source::read(arguments, rules.settings.as_ref()) {
        Ok(message) => answer(&message, &rules, arguments),
        Err(error @ SourceError::Server(_)) => {
            output::to_stderr(&format!("{}\n", chain(&error)));
            ExitCode::from(EXIT_UNAVAILABLE)
        }
        Err(error) => refuse_input(&error),
    }
}

fn answer(message: &Message, rules: &Rules, arguments: &Arguments) -> ExitCode {
    let envelope = message.envelope(SourceNames::shared("", ""));
    let explanation = explain(&rules.gate, &envelope);
    let of_configuration = |finding| rules.settings.is_some().then(|| FindingReport::from(finding));
    let mut answer = Answer {
        valid: false,
        authenticity: (&explanation.authenticity).into(),
        size: of_configuration(&explanation.size),
        policy: of_configuration(&explanation.policy),
        signature_asked: is_asked(&rules.gate.authenticity, explanation.signature_rule),
        signed_bytes: None,
    };
    let passes = |finding: &FindingReport| matches!(finding.result, Outcome::Passes | Outcome::Warns);
    let checks =
        || [Some(&answer.authenticity), answer.size.as_ref(), answer.policy.as_ref()].into_iter().flatten();
    let all_pass = checks().all(passes);
    let cannot_judge = checks().any(|finding| finding.result == Outcome::CannotJudge);
    answer.valid = answer.signature_asked && all_pass;
    if arguments.show_signed_bytes {
        answer.signed_bytes = signing::signed_bytes(&rules.gate, &envelope)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    }
    let written = match arguments.format {
        Format::Text => output::to_stdout(&text(&answer)),
        Format::Json => output::json_to_stdout(&answer),
    };
    match (answer.valid, cannot_judge) {
        (true, _) => written,
        (false, true) => ExitCode::from(EXIT_CONFIG),
        (false, false) => ExitCode::FAILURE,
    }
}

fn is_asked(authenticity: &Authenticity, found: SignatureRuleFound) -> bool {
    match (authenticity, found) {
        (Authenticity::Required(settings), SignatureRuleFound::Rule(index)) => {
            settings.rules.get(index).is_some_and(|rule| rule.signature.is_some())
        }
        (Authenticity::Required(_) | Authenticity::NotRequired, _) => false,
    }
}

fn text(answer: &Answer) -> String {
    let mut text = String::from(if answer.valid { "valid\n" } else { "not valid\n" });
    let checks = [
        ("authenticity", Some(&answer.authenticity)),
        ("size", answer.size.as_ref()),
        ("policy", answer.policy.as_ref()),
    ];
    for (name, finding) in checks {
        if let Some(finding) = finding {
            text.push_str(&format!("  {name:<14}{}\n", finding.on_one_line()));
        }
    }
    if !answer.signature_asked {
        text.push_str("  no rule asks for a signature of this subject, so there is none to verify\n");
    }
    if let Some(bytes) = &answer.signed_bytes {
        text.push_str(&format!("signed bytes ({})\n{}\n", bytes.len(), output::on_one_line(bytes)));
    }
    text
}
