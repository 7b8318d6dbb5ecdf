//! `jetsink sign`: the headers that make a message a signed one.

use std::process::ExitCode;

use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Map, Value};

use super::message::{MessageArguments, WithoutPayload};
use super::signing::{self, KeyArguments, RuleArguments, SignError, SignWith};
use super::{output, refuse_input};
use crate::checks::explain::{Finding, explain};
use crate::envelope::SourceNames;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["subject", "message"]))]
pub(super) struct Arguments {
    #[command(flatten)]
    rule: RuleArguments,
    #[command(flatten)]
    key: KeyArguments,
    /// The id of the key, as the rule names it
    #[arg(long, value_name = "ID")]
    key_id: String,
    #[command(flatten)]
    message: MessageArguments,
    /// How to write the headers
    #[arg(long, value_enum, default_value_t = HeaderFormat::Nats)]
    format: HeaderFormat,
}

/// How the headers are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderFormat {
    /// Arguments of `nats pub`, quoted for a shell
    Nats,
    /// One JSON object
    Json,
    /// `Name: value`, one a line
    Lines,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let rules = match arguments.rule.rules(None) {
        Ok(rules) => rules,
        Err(code) => return code,
    };
    let mut message = match arguments.message.read(WithoutPayload::StandardInput) {
        Ok(message) => message,
        Err(error) => return refuse_input(&error),
    };
    let Some(source) = arguments.key.source() else {
        return refuse_input(&SignError::NoKey);
    };
    let before = message.headers.len();
    let with = SignWith::new(source, arguments.key_id.clone());
    if let Err(error) = signing::sign_message(&mut message, &rules.gate, &with) {
        return refuse_input(&error);
    }
    if rules.settings.is_some() {
        // With the keys of the configuration at hand the answer of the daemon is known already.
        let envelope = message.envelope(SourceNames::shared("", ""));
        if let Finding::Fails(rejection) = explain(&rules.gate, &envelope).authenticity {
            output::to_stderr(&format!(
                "the configuration would reject this signature: {}: {}\n",
                rejection.reason, rejection.detail
            ));
            return ExitCode::FAILURE;
        }
    }
    let lines = message.headers.iter().skip(before);
    let lines: Vec<_> =
        lines.map(|(name, value)| (name, String::from_utf8_lossy(value).into_owned())).collect();
    output::to_stdout(&render(&lines, arguments.format))
}

fn render(lines: &[(&str, String)], format: HeaderFormat) -> String {
    match format {
        HeaderFormat::Nats => {
            let arguments: Vec<_> = lines
                .iter()
                .map(|(name, value)| format!("-H {}", quoted(&format!("{name}:{value}"))))
                .collect();
            format!("{}\n", arguments.join(" "))
        }
        HeaderFormat::Json => {
            let object: Map<String, Value> =
                lines.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into())).collect();
            format!("{:#}\n", Value::Object(object))
        }
        HeaderFormat::Lines => lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect(),
    }
}

/// One word of a POSIX shell, and of xargs.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_one_word_each_for_a_shell() {
        let lines = [("A", "it's".to_owned()), ("B", "$(x) \"y\"".to_owned())];
        assert_eq!(render(&lines, HeaderFormat::Nats), "-H 'A:it'\\''s' -H 'B:$(x) \"y\"'\n");
        assert_eq!(render(&lines, HeaderFormat::Lines), "A: it's\nB: $(x) \"y\"\n");
        assert_eq!(
            render(&lines, HeaderFormat::Json),
            "{\n  \"A\": \"it's\",\n  \"B\": \"$(x) \\\"y\\\"\"\n}\n"
        );
    }
}
