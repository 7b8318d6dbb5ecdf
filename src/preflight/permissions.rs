//! The smallest permissions that a configuration needs (nats facts §6): tried by the check, printed by `jetsink permissions`.

use super::plan::Plan;

/// Publish or subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Publish.
    Publish,
    /// Subscribe.
    Subscribe,
}

impl Direction {
    /// The word of the server's configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
        }
    }
}

/// What happens without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The daemon does not work.
    Required,
    /// It works and knows less, or does less in rare cases.
    TellsMore,
}

/// For whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// `jetsink run`.
    Daemon,
    /// `jetsink dlq`.
    DeadLetters,
    /// `jetsink check --connect`, with the daemon's own credentials.
    Check,
}

/// One permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Publish or subscribe.
    pub direction: Direction,
    /// The subject, as it is written into the server's configuration.
    pub subject: String,
    /// What happens without it.
    pub need: Need,
    /// What it is for.
    pub purpose: &'static str,
}

/// The permissions that this configuration needs.
#[must_use]
pub fn needed(plan: &Plan, whom: For) -> Vec<Permission> {
    let mut list = List { plan, found: Vec::new() };
    match whom {
        // The daemon makes the same look at its start.
        For::Daemon | For::Check => list.daemon(),
        For::DeadLetters => list.tools(),
    }
    list.found
}

struct List<'a> {
    plan: &'a Plan,
    found: Vec<Permission>,
}

impl List<'_> {
    fn add(&mut self, need: Need, subject: String, purpose: &'static str) {
        if !self.found.iter().any(|own| own.subject == subject) {
            self.found.push(Permission { direction: Direction::Publish, subject, need, purpose });
        }
    }

    fn inbox(&mut self) {
        let subject = format!("{}.>", self.plan.inbox);
        let purpose = "answers and deliveries come there";
        self.found.push(Permission {
            direction: Direction::Subscribe,
            subject,
            need: Need::Required,
            purpose,
        });
    }

    fn api(&mut self, need: Need, operation: &str, purpose: &'static str) {
        let subject = format!("{}.{operation}", self.plan.api);
        self.add(need, subject, purpose);
    }

    fn daemon(&mut self) {
        let Plan { stream, durable, .. } = self.plan;
        let name = format!("{stream}.{durable}");
        self.api(
            Need::Required,
            &format!("CONSUMER.INFO.{name}"),
            "the durable is verified at start and at every reconnect",
        );
        self.api(Need::Required, &format!("CONSUMER.MSG.NEXT.{name}"), "messages are pulled");
        self.add(Need::Required, format!("$JS.ACK.{name}.>"), "settlements are sent");
        self.add(
            Need::Required,
            format!("$JS.ACK.*.*.{name}.>"),
            "settlements are sent to servers that use the longer form",
        );
        if self.plan.may_create {
            let operation = format!("CONSUMER.DURABLE.CREATE.{name}");
            self.api(Need::Required, &operation, "consumer.mode = create_if_missing");
        }
        let info = format!("STREAM.INFO.{stream}");
        self.api(Need::TellsMore, &info, "the stream is looked at, at start and by the watch");
        let get = format!("STREAM.MSG.GET.{stream}");
        self.api(Need::TellsMore, &get, "messages that no client can be handed are found and dead-lettered");
        let list = format!("CONSUMER.LIST.{stream}");
        self.api(Need::TellsMore, &list, "other consumers of the stream are looked at");
        self.letters();
        self.api(Need::TellsMore, "STREAM.NAMES", "a stream that captures advisories is found");
        self.advisories();
        // What a managed or pinned durable needs belongs here, one line for each subject.
        self.inbox();
    }

    fn letters(&mut self) {
        let Some(letters) = &self.plan.dead_letters else { return };
        self.add(Need::Required, letters.pattern.clone(), "dead letters are published");
        self.api(Need::TellsMore, "STREAM.NAMES", "the stream that captures dead letters is found");
        let name = letters.stream.as_deref().unwrap_or("*");
        let info = format!("STREAM.INFO.{name}");
        self.api(Need::TellsMore, &info, "the dead-letter stream is looked at, so that none is lost in it");
        let get = format!("STREAM.MSG.GET.{name}");
        self.api(
            Need::TellsMore,
            &get,
            "a confirmation that names a duplicate is compared with what is stored",
        );
    }

    /// Only where the file names the stream: its durable is pulled and settled like the other one.
    fn advisories(&mut self) {
        let letters = self.plan.dead_letters.as_ref();
        let Some((stream, durable)) = letters.and_then(|letters| letters.advisories.as_ref()) else { return };
        let purpose = "what the server gives up on is learnt from the stream of advisories";
        for operation in ["CONSUMER.INFO", "CONSUMER.MSG.NEXT"] {
            self.api(Need::TellsMore, &format!("{operation}.{stream}.{durable}"), purpose);
        }
        if self.plan.may_create {
            self.api(Need::TellsMore, &format!("CONSUMER.DURABLE.CREATE.{stream}.{durable}"), purpose);
        }
        self.api(Need::TellsMore, &format!("STREAM.INFO.{stream}"), purpose);
        self.add(Need::TellsMore, format!("$JS.ACK.{stream}.{durable}.>"), purpose);
        self.add(Need::TellsMore, format!("$JS.ACK.*.*.{stream}.{durable}.>"), purpose);
    }

    fn tools(&mut self) {
        if let Some(letters) = &self.plan.dead_letters {
            let name = letters.stream.as_deref().unwrap_or("*");
            self.api(Need::Required, "STREAM.NAMES", "the dead-letter stream is found");
            self.api(Need::Required, &format!("STREAM.INFO.{name}"), "ls, show, stats, tail");
            self.api(Need::Required, &format!("STREAM.MSG.GET.{name}"), "ls, show, stats, tail");
            self.api(Need::TellsMore, &format!("DIRECT.GET.{name}"), "many messages are read at once");
            let delete = format!("STREAM.MSG.DELETE.{name}");
            self.api(Need::Required, &delete, "redrive and discard; leave it out for those who only read");
            // Without filters the file does not say which subjects there are, and ">" would permit everything.
            for subject in self.plan.filters.clone() {
                self.add(
                    Need::Required,
                    subject,
                    "redrive sends there; leave it out for those who only read",
                );
            }
            let original = format!("STREAM.MSG.GET.{}", self.plan.stream);
            self.api(Need::TellsMore, &original, "bodies that a letter left out are read from the stream");
        }
        self.inbox();
    }
}

/// The permissions as a block of the server's configuration.
#[must_use]
pub fn block(permissions: &[Permission]) -> String {
    let mut text = String::from("permissions {\n");
    for direction in [Direction::Publish, Direction::Subscribe] {
        let own: Vec<_> = permissions.iter().filter(|own| own.direction == direction).collect();
        let width = own.iter().map(|own| own.subject.len()).max().unwrap_or(0) + 2;
        text.push_str(&format!("  {} {{\n    allow: [\n", direction.as_str()));
        for permission in own {
            let optional = if permission.need == Need::TellsMore { " (optional)" } else { "" };
            let subject = format!("\"{}\"", permission.subject);
            text.push_str(&format!("      {subject:width$}  # {}{optional}\n", permission.purpose));
        }
        text.push_str("    ]\n  }\n");
    }
    text.push_str("}\n");
    text
}
