//! Logs on standard error, as text or as JSON lines.

use std::any::Any;
use std::io::Write as _;
use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::settings::{LogFormat, LoggingSettings};

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter is not understood.
    #[error("logging.filter: {0}")]
    Filter(String),
    /// Logs were set up before.
    #[error("logs are set up already")]
    AlreadySetUp,
}

/// Sets up logs for the whole program, and a panic hook that logs without showing data.
///
/// # Errors
/// See [`LogsError`].
pub fn init(settings: &LoggingSettings) -> Result<(), LogsError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&settings.filter)?)
        .with_writer(std::io::stderr)
        // Without this a log line that cannot be written is reported by a macro that panics when standard error is closed.
        .log_internal_errors(false);
    let done = match settings.format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|_| LogsError::AlreadySetUp)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Checks a filter without setting anything up.
///
/// # Errors
/// [`LogsError::Filter`], in the words an operator needs.
pub fn check_filter(text: &str) -> Result<(), LogsError> {
    filter(text).map(|_| ())
}

/// A word that is no level would be taken for a target and silence everything else, so it is refused.
fn filter(text: &str) -> Result<EnvFilter, LogsError> {
    let directives: Vec<_> = text.split(',').map(str::trim).collect();
    for directive in &directives {
        let level = directive.rsplit_once('=').map_or(*directive, |(_, level)| level);
        if level.parse::<LevelFilter>().is_err() || level.is_empty() {
            return Err(LogsError::Filter(format!(
                "'{level}' is not a level (off, error, warn, info, debug, trace); write a level or target=level"
            )));
        }
        if directive.contains(['[', '{', '"', '/']) {
            return Err(LogsError::Filter(format!("'{directive}' is not of the form target=level")));
        }
    }
    EnvFilter::builder().parse(directives.join(",")).map_err(|error| LogsError::Filter(error.to_string()))
}

/// The text of a panic may quote data, so only a text that was fixed at build time is shown.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = fixed_text(panic.payload());
    let place = panic.location().map_or_else(|| String::from("unknown"), ToString::to_string);
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    if tracing::enabled!(tracing::Level::ERROR) {
        let backtrace = std::backtrace::Backtrace::capture();
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            tracing::error!(place, thread, %backtrace, "panic: {message}");
        } else {
            tracing::error!(place, thread, "panic: {message}");
        }
    } else {
        // Logs are off; a panic is said all the same. When standard error is closed nobody can be told.
        let _told = writeln!(std::io::stderr(), "panic at {place} in thread {thread}: {message}");
    }
}

fn fixed_text(payload: &dyn Any) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("[text withheld]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_understood() {
        for text in ["info", "WARN", "off", "info,jetsink::nats=debug", "info, async_nats=warn"] {
            check_filter(text).unwrap();
        }
    }

    #[test]
    fn what_would_silence_the_logs_by_mistake_is_refused() {
        for text in ["", "inof", "info,", "jetsink", "jetsink=", "jetsink=loud", "info,[span{a=b}]=debug"] {
            let error = check_filter(text).unwrap_err();
            assert!(error.to_string().contains("logging.filter"), "{text}: {error}");
        }
    }

    #[test]
    fn a_panic_shows_no_text_that_was_made_at_run_time() {
        assert_eq!(fixed_text(&String::from("CANARY is bad")), "[text withheld]");
        assert_eq!(fixed_text(&"a broken invariant"), "a broken invariant");
    }
}
