//! `jetsink check`: offline, unless `--connect` is given. Schemas are read, since a wrong one is a mistake in the configuration.
//! Keys are read as well, yet one that is not on this machine is only worth a warning: a configuration is often checked where
//! its secrets are not.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::output::Format;
use super::{ConfigFile, EXIT_CONFIG, EXIT_UNAVAILABLE, output};
use crate::app::plan;
use crate::checks::authenticity::Authenticity;
use crate::checks::{Gate, GateError, GateSettings};
use crate::config::Settings;
use crate::nats::{
    Connection, Denials, FactsReader, NatsError, apply_context, chain, find_capturing_stream, try_permissions,
};
use crate::preflight::{Finding, For, Level, inspect, needed};

/// Something was found that deserves a look.
const EXIT_WARNINGS: u8 = 2;
/// Deadline of one request: a denied permission looks like silence, and the whole check shall end soon.
const PATIENCE: Duration = Duration::from_secs(2);
const CLOSE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
    /// Connect with the daemon's credentials and look at stream, durable, dead-letter stream and permissions; changes nothing
    #[arg(long)]
    connect: bool,
    /// How to write what was found at the server
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "connect")]
    format: Format,
}

pub(super) fn check(arguments: &Arguments) -> ExitCode {
    let loaded = match arguments.file.load() {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let gate = &loaded.settings.gate;
    let without_keys = GateSettings { authenticity: Authenticity::NotRequired, ..gate.clone() };
    if let Err(error) = Gate::open(without_keys) {
        output::to_stderr(&format!("{}\nthe configuration is not valid: 1 problem\n", chain(&error)));
        return ExitCode::from(EXIT_CONFIG);
    }
    let mut text = String::from("configuration is valid\n");
    for warning in &loaded.settings.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    if let Err(error @ GateError::Key(_)) = Gate::open(gate.clone()) {
        text.push_str(&format!("warning: the daemon would not start here: {}\n", chain(&error)));
    }
    if arguments.connect {
        // What belongs to the file goes where it does not disturb the answer.
        output::to_stderr(&text);
        return connected(loaded.settings, arguments.format);
    }
    output::to_stdout(&text)
}

fn connected(settings: Settings, format: Format) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::to_stderr(&format!("{}\n", chain(&error)));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(look(settings)) {
        Ok(findings) => print(&findings, format),
        Err(error) => {
            output::to_stderr(&format!("{}\n", chain(&error)));
            ExitCode::from(if matches!(error, NatsError::Connect(_)) {
                EXIT_UNAVAILABLE
            } else {
                EXIT_CONFIG
            })
        }
    }
}

async fn look(mut settings: Settings) -> Result<Vec<Finding>, NatsError> {
    if let Some(context) = settings.context.clone() {
        apply_context(&context, &mut settings.connection)?;
    }
    settings.connection.name = format!("{} check", settings.connection.name);
    let denials = Arc::new(Denials::default());
    let connection = Connection::open(&settings.connection, Arc::<Denials>::clone(&denials)).await?;
    let mut plan = plan(&settings);
    let reader = FactsReader::new(&connection, PATIENCE);
    if let Some(letters) = &mut plan.dead_letters
        && letters.stream.is_none()
    {
        // Its name is needed to try what depends on it.
        letters.stream = tokio::select! {
            found = find_capturing_stream(&connection, &letters.pattern) => found.unwrap_or_default(),
            () = denials.any() => None,
        };
    }
    let permissions = needed(&plan, For::Check);
    let trials = try_permissions(&connection, &denials, &plan, permissions, PATIENCE).await;
    let facts = reader.read(&settings.consumer, &plan, trials).await;
    connection.close(CLOSE).await;
    Ok(inspect(&plan, &facts))
}

fn print(findings: &[Finding], format: Format) -> ExitCode {
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Info);
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (refusals, warnings) = (count(Level::Refusal), count(Level::Warning));
    let written = match format {
        Format::Text => {
            let lines = findings.iter().map(|finding| output::on_one_line(&finding.to_string()) + "\n");
            let mut text: String = lines.collect();
            text.push_str(&format!("{refusals} refusals, {warnings} warnings\n"));
            output::to_stdout(&text)
        }
        Format::Json => {
            let findings = findings.iter().map(|finding| {
                json!({ "code": finding.code.as_str(), "level": finding.level.as_str(), "seen": finding.seen,
                        "remedy": finding.remedy })
            });
            let findings: Vec<_> = findings.collect();
            output::json_to_stdout(
                &json!({ "findings": findings, "refusals": refusals, "warnings": warnings }),
            )
        }
    };
    if written != ExitCode::SUCCESS {
        return written;
    }
    match worst {
        Level::Info => ExitCode::SUCCESS,
        Level::Warning => ExitCode::from(EXIT_WARNINGS),
        Level::Refusal => ExitCode::from(EXIT_CONFIG),
    }
}
