//! How a daemon is set up to reach its server, what must come of it, and what must never be seen.

use std::path::Path;
use std::time::Duration;

use toml::Value;

use crate::harness::{Daemon, Rig, Settings, eventually, oversized, sequences, small};

const SOON: Duration = Duration::from_secs(30);
/// So long may it take until an operator is told.
pub(super) const TOLD: Duration = Duration::from_secs(10);

/// Settings and variables of a daemon, and its secrets.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    settings: Vec<(&'static str, Value)>,
    environment: Vec<(&'static str, String)>,
    secrets: Vec<String>,
}

impl Way {
    /// Sets one key.
    pub(super) fn set(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.settings.push((key, value.into()));
        self
    }

    /// Sets a key to a path.
    pub(super) fn path(self, key: &'static str, path: &Path) -> Self {
        self.set(key, path.to_str().unwrap())
    }

    /// Sets a variable.
    pub(super) fn environment(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// This text must never be shown.
    pub(super) fn secret(mut self, text: &str) -> Self {
        assert!(text.len() > 5, "too short to be looked for");
        self.secrets.push(text.to_owned());
        self
    }

    /// Starts a daemon on a rig.
    pub(super) fn start(&self, rig: &Rig) -> Daemon {
        let mut settings = rig.settings_for_small();
        if self.settings.iter().any(|(key, _)| *key == "nats.context") {
            settings.unset("nats.servers");
        }
        self.start_with(settings)
    }

    /// Starts a daemon that needs no stream, since it does not get so far.
    pub(super) fn start_at(&self, server: &str, folder: &Path) -> Daemon {
        let mut settings = Settings::parse(
            "[consumer]\nstream = \"SRC\"\ndurable = \"w\"\n[sink]\ntype = \"file\"\n[nats]\nname = \"test\"",
        );
        settings.set("sink.file.directory", folder.join("sink").to_str().unwrap());
        if !self.settings.iter().any(|(key, _)| *key == "nats.context") {
            settings.set("nats.servers", vec![server.to_owned()]);
        }
        self.start_with(settings)
    }

    fn start_with(&self, mut settings: Settings) -> Daemon {
        settings.set("logging.filter", "debug,async_nats=trace");
        for (key, value) in &self.settings {
            settings.set(key, value.clone());
        }
        let environment = self.environment.iter().map(|(name, value)| (*name, value.as_str()));
        Daemon::start(&settings, &environment.collect::<Vec<_>>())
    }

    /// A daemon carries messages and publishes dead letters in this way.
    pub(super) async fn carries(&self, rig: &Rig) {
        let mut daemon = self.start(rig);
        daemon.ready().await;
        carried(rig).await;
        self.hides(&mut daemon).await;
        daemon.stop().await;
    }

    /// A daemon says within ten seconds that it is not ready and why, in its log as well, and goes on trying.
    pub(super) async fn is_refused(&self, server: &str, words: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = self.start_at(server, folder.path());
        self.says(&mut daemon, words).await;
        daemon.kill();
    }

    /// The running daemon is not ready for want of a connection, and says all of this.
    pub(super) async fn says(&self, daemon: &mut Daemon, words: &[&str]) {
        eventually(TOLD, "readiness and log say what is wrong", async || {
            let seen = daemon.readiness().await?;
            let log = unquoted(&daemon.log());
            // The text of one refusal stands in one line.
            let told = |text: &str| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
            let fine = !seen.ready && seen.body.contains("disconnected") && told(&seen.body) && told(&log);
            if fine { Ok(()) } else { Err(format!("{}\n{}", seen.body, daemon.log())) }
        })
        .await;
        self.hides(daemon).await;
    }

    /// A daemon ends at once with the exit code for configurations, and says all of this.
    pub(super) async fn does_not_start(&self, server: &str, words: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = self.start_at(server, folder.path());
        let code = daemon.exit_code(TOLD).await;
        let log = unquoted(&daemon.log());
        assert_eq!(code, Some(78), "{log}");
        let told = log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(told, "{words:?} in one line of\n{log}");
        self.hidden("log", &log);
    }

    async fn hides(&self, daemon: &mut Daemon) {
        self.hidden("log", &daemon.log());
        self.hidden("metrics", &daemon.metrics_text().await.unwrap());
        self.hidden("health", &daemon.readiness().await.unwrap().body);
    }

    pub(super) fn hidden(&self, place: &str, text: &str) {
        for secret in &self.secrets {
            assert!(!text.contains(secret.as_str()), "{place} shows {secret}:\n{text}");
        }
    }
}

/// The log writes a quotation mark within a text with a backslash.
fn unquoted(log: &str) -> String {
    log.replace("\\\"", "\"")
}

/// What is published now goes into the sink, what is too large becomes a dead letter, and all of it is acknowledged.
pub(super) async fn carried(rig: &Rig) {
    let good = rig.client.publish_many("src.a", small(3)).await;
    let bad = rig.client.publish_many("src.a", oversized(1)).await;
    rig.drained(SOON).await;
    let written = sequences(&rig.sink());
    assert!(good.iter().all(|sequence| written.contains(sequence)), "{good:?} in {written:?}");
    let letters = rig.dead_letters().await;
    assert!(letters.contains(&bad[0]), "{bad:?} in {letters:?}");
}
