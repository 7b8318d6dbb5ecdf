//! `jetsink dlq init`: makes the stream for dead letters, or prints the command that would.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::target::Target;
use super::wish::Wish;
use crate::config::{Settings, parse_duration, parse_size};
use crate::nats::{create_stream, stream_configuration};
use crate::subject::SubjectPattern;

/// What a restart may take.
const RESTART: Duration = Duration::from_secs(60);
/// The server's ack wait of a durable that names none.
const USUAL_ACK_WAIT: Duration = Duration::from_secs(30);
const LEAST_WINDOW: Duration = Duration::from_secs(300);

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// A subject to capture; else dead_letter.subject of the configuration
    #[arg(long, value_name = "SUBJECT", value_parser = subject)]
    subject: Vec<String>,
    /// Replicas in a cluster
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=5))]
    replicas: u32,
    /// Dead letters older than this go, such as 90d; else they stay for ever
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    max_age: Option<Duration>,
    /// At most so large, such as 10 GiB; a full stream refuses, and rejected messages wait on their own stream
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,
    /// How long a repeat is known as one; else twice the ack wait and a restart, five minutes at least
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duplicate_window: Option<Duration>,
    /// Only print the nats command that makes the stream; nothing is connected to
    #[arg(long)]
    print: bool,
}

fn subject(text: &str) -> Result<String, String> {
    SubjectPattern::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if arguments.print {
        let wish = arguments.wish(arguments.target.settings()?.as_ref())?;
        out.write_all(format!("{}\n", wish.command()).as_bytes())?;
        return Ok(());
    }
    let (connection, settings, _) = arguments.target.connect().await?;
    let wish = arguments.wish(settings.as_ref())?;
    let text = match stream_configuration(&connection, &wish.name).await? {
        None => {
            create_stream(&connection, &wish.name, &wish.config()).await?;
            format!("made stream {} for {}\n", wish.name, wish.subjects.join(", "))
        }
        Some(config) => {
            let differences = wish.differences(&config);
            if !differences.is_empty() {
                return Err(Failure::refused(format!(
                    "stream {} exists and is left as it is; it differs:\n  {}",
                    wish.name,
                    differences.join("\n  ")
                )));
            }
            format!("stream {} exists and suits\n", wish.name)
        }
    };
    out.write_all(text.as_bytes())?;
    connection.close(Duration::from_secs(2)).await;
    Ok(())
}

impl Arguments {
    fn wish(&self, settings: Option<&Settings>) -> Result<Wish, Failure> {
        let dead_letter = settings.and_then(|settings| settings.dead_letter.as_ref());
        let name = self.target.stream.clone().or_else(|| dead_letter.and_then(|own| own.stream.clone()));
        let name = name.ok_or_else(|| {
            Failure::refused(
                "which stream? Name it by --stream, or by dead_letter.stream of the configuration",
            )
        })?;
        let mut subjects = self.subject.clone();
        if subjects.is_empty() {
            subjects.extend(dead_letter.map(|own| {
                if own.subject_tokens.is_empty() { own.subject.clone() } else { format!("{}.>", own.subject) }
            }));
        }
        if subjects.is_empty() {
            return Err(Failure::refused(
                "which subject? Name it by --subject, or give the configuration by -c",
            ));
        }
        let ack_wait = settings.and_then(|settings| settings.consumer.ack_wait).unwrap_or(USUAL_ACK_WAIT);
        let window = self.duplicate_window.unwrap_or_else(|| (2 * ack_wait + RESTART).max(LEAST_WINDOW));
        let max_age = self.max_age.unwrap_or_default();
        if !max_age.is_zero() && window > max_age {
            return Err(Failure::refused("the duplicate window must not be longer than --max-age"));
        }
        Ok(Wish {
            name,
            subjects,
            replicas: self.replicas,
            max_age,
            max_bytes: self.max_bytes,
            duplicate_window: window,
        })
    }
}
