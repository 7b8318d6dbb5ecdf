//! `jetsink dlq init`: makes the stream for dead letters and the one for advisories, or prints the commands that would.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;

use super::advisories::AdvisoryWish;
use super::failure::Failure;
use super::target::Target;
use super::wish::Wish;
use crate::config::{Settings, parse_duration, parse_size};
use crate::nats::{Connection, create_stream, stream_configuration};
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
    /// Only the stream for dead letters, not the one for advisories about messages that the server gives up on
    #[arg(long)]
    without_advisories: bool,
    /// Only print the nats commands that make them; nothing is connected to
    #[arg(long)]
    print: bool,
}

fn subject(text: &str) -> Result<String, String> {
    SubjectPattern::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    if arguments.print {
        let settings = arguments.target.settings()?;
        let wish = arguments.wish(settings.as_ref())?;
        let advisories = arguments.advisories(settings.as_ref(), &wish);
        let advisories = advisories.map_or_else(String::new, |advisories| advisories.commands());
        out.write_all(format!("{}\n{advisories}", wish.command()).as_bytes())?;
        return Ok(());
    }
    let (connection, settings, _) = arguments.target.connect().await?;
    let wish = arguments.wish(settings.as_ref())?;
    let dead_letters = make(&connection, &wish).await;
    if let Ok(text) = &dead_letters {
        out.write_all(text.as_bytes())?;
    }
    // A dead-letter stream that was made otherwise by hand is no reason to learn less.
    if let Some(advisories) = arguments.advisories(settings.as_ref(), &wish) {
        out.write_all(advisories.make(&connection).await?.as_bytes())?;
    }
    connection.close(Duration::from_secs(2)).await;
    dead_letters.map(drop)
}

async fn make(connection: &Connection, wish: &Wish) -> Result<String, Failure> {
    let Some(config) = stream_configuration(connection, &wish.name).await? else {
        create_stream(connection, &wish.name, &wish.config()).await?;
        return Ok(format!("made stream {} for {}\n", wish.name, wish.subjects.join(", ")));
    };
    let differences = wish.differences(&config);
    if differences.is_empty() {
        return Ok(format!("stream {} exists and suits\n", wish.name));
    }
    Err(Failure::refused(format!(
        "stream {} exists and is left as it is; it differs:\n  {}",
        wish.name,
        differences.join("\n  ")
    )))
}

impl Arguments {
    /// The other half needs a pipeline: a source stream and its durable.
    fn advisories(&self, settings: Option<&Settings>, wish: &Wish) -> Option<AdvisoryWish> {
        let settings =
            settings.filter(|settings| !self.without_advisories && settings.dead_letter.is_some())?;
        Some(AdvisoryWish::new(settings, &wish.name, self.replicas))
    }

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
