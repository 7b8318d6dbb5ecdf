//! The jetsink binary as a process of its own.

use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::admin;
use super::{Metrics, Readiness, Settings, eventually, free_port};

const READY: Duration = Duration::from_secs(30);

/// A running (or ended) daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    directory: TempDir,
    admin_port: u16,
    child: Child,
}

impl Daemon {
    /// Starts `jetsink run` with these settings, an admin listener and, if there are any, these variables.
    pub(crate) fn start(settings: &Settings, environment: &[(&str, &str)]) -> Self {
        Self::start_under(&[], settings, environment)
    }

    /// The same with a command in front, such as a tracer that takes the daemon's place when it is done.
    pub(crate) fn start_under(
        launcher: &[String],
        settings: &Settings,
        environment: &[(&str, &str)],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let admin_port = free_port();
        let mut settings = settings.clone();
        settings.set("admin.listen", format!("127.0.0.1:{admin_port}"));
        let config = directory.path().join("jetsink.toml");
        fs::write(&config, settings.text()).unwrap();
        let log = File::create(directory.path().join("log")).unwrap();
        let binary = env!("CARGO_BIN_EXE_jetsink");
        let mut words = launcher.iter().map(String::as_str).chain([binary]);
        let child = Command::new(words.next().unwrap())
            .args(words)
            .arg("run")
            .arg("-c")
            .arg(&config)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { directory, admin_port, child }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to it, and to nobody else.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGKILL, and reaps it.
    pub(crate) fn kill(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until it ends by itself; gives its exit code, `None` if a signal ended it.
    pub(crate) async fn exit_code(&mut self, deadline: Duration) -> Option<i32> {
        let end = async || self.ended().ok_or_else(|| "it still runs".to_owned());
        eventually(deadline, "the daemon ends", end).await.code()
    }

    /// Waits until it ends by itself with an exit code that is not 0; gives its log.
    pub(crate) async fn refuses(mut self) -> String {
        let code = self.exit_code(READY).await;
        assert!(
            code.is_some_and(|code| code != 0),
            "an exit code, and not 0: {code:?}; its log:\n{}",
            self.log()
        );
        self.log()
    }

    /// SIGTERM, the drain, and exit 0.
    pub(crate) async fn stop(mut self) {
        self.signal(Signal::TERM);
        let code = self.exit_code(Duration::from_secs(40)).await;
        assert_eq!(code, Some(0), "the exit code of a drained daemon; its log:\n{}", self.log());
    }

    /// What it says of its readiness.
    pub(crate) async fn readiness(&mut self) -> Result<Readiness, String> {
        match self.ended() {
            Some(status) => Err(format!("it has ended with {status}:\n{}", self.log())),
            None => admin::readiness(self.admin_port).await,
        }
    }

    /// Whether `/livez` says yes.
    pub(crate) async fn alive(&self) -> Result<bool, String> {
        admin::alive(self.admin_port).await
    }

    /// Waits until it says that it is ready.
    pub(crate) async fn ready(&mut self) {
        eventually(READY, "the daemon is ready", async || {
            let seen = self.readiness().await?;
            if seen.ready { Ok(()) } else { Err(seen.body) }
        })
        .await;
    }

    /// Waits until it says that it is not ready, for this reason among others.
    pub(crate) async fn not_ready_because(&mut self, reason: &str, deadline: Duration) {
        eventually(deadline, &format!("the daemon is not ready: {reason}"), async || {
            let seen = self.readiness().await?;
            if !seen.ready && seen.body.contains(reason) { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    }

    /// Its metrics now.
    pub(crate) async fn metrics(&self) -> Result<Metrics, String> {
        admin::metrics(self.admin_port).await
    }

    /// The page of its metrics.
    pub(crate) async fn metrics_text(&self) -> Result<String, String> {
        admin::metrics_text(self.admin_port).await
    }

    /// Everything it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Processor time it has used, user and system.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        // The second field is the name in brackets; 14 and 15 are user and system time in hundredths of a second.
        let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().collect::<Vec<_>>();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines = log.lines().collect::<Vec<_>>();
            let tail = &lines[lines.len().saturating_sub(40)..];
            eprintln!("--- the daemon's log, last lines ---\n{}", tail.join("\n"));
        }
    }
}
