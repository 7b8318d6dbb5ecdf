//! Real nats-server processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{eventually, free_port};

const START: Duration = Duration::from_secs(30);

/// Which nats-server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// The newest one this project is tested with.
    New,
    /// The oldest one: 2.9.
    Old,
}

impl ServerKind {
    fn binary(self) -> PathBuf {
        let (variable, name) = match self {
            Self::New => ("JETSINK_NATS_SERVER", "nats-server"),
            Self::Old => ("JETSINK_NATS_SERVER_OLD", "nats-server-2.9"),
        };
        let path = std::env::var_os(variable).map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools").join(name),
            PathBuf::from,
        );
        assert!(
            path.is_file(),
            "{} is missing: run tests/tools.sh, which brings it, or set {variable} to a nats-server",
            path.display()
        );
        path
    }
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub(crate) struct ServerPlan {
    pub(crate) kind: ServerKind,
    /// Added to the configuration file as it is.
    pub(crate) extra: String,
}

impl Default for ServerPlan {
    fn default() -> Self {
        Self { kind: ServerKind::New, extra: "max_payload: 65536".into() }
    }
}

/// One nats-server with JetStream on files, in a temp folder, on a loopback port that it keeps over restarts.
#[derive(Debug)]
pub(crate) struct Server {
    binary: PathBuf,
    directory: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// Starts one and waits until it takes connections.
    pub(crate) async fn start(plan: &ServerPlan) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Self { binary: plan.kind.binary(), directory, port: free_port(), child: None };
        server.configure(&plan.extra);
        server.restart().await;
        server
    }

    /// Writes the configuration file anew; it counts from the next start on.
    pub(crate) fn configure(&self, extra: &str) {
        let folder = self.directory.path().display();
        let port = self.port;
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\nports_file_dir: \"{folder}\"\nlog_file: \"{folder}/server.log\"\n\
             jetstream {{ store_dir: \"{folder}/store\", max_mem: 256MB, max_file: 4GB }}\n{extra}\n"
        );
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("server.conf")
    }

    /// Starts it again, if it does not run, on the same port and store, and waits until it takes connections.
    pub(crate) async fn restart(&mut self) {
        assert!(self.child.is_none(), "the server runs already");
        let output = File::create(self.directory.path().join("output")).unwrap();
        let child = Command::new(&self.binary)
            .arg("-c")
            .arg(self.config())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let id = child.id();
        self.child = Some(child);
        eventually(START, "the server writes its ports file", async || self.listens(id)).await;
    }

    /// The server writes this file once every listener is open.
    fn listens(&mut self, id: u32) -> Result<(), String> {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
        if let Some(status) = ended {
            let said = fs::read_to_string(self.directory.path().join("output")).unwrap_or_default();
            panic!("the server ended at once with {status}: {said}");
        }
        let name = self.binary.file_name().unwrap().to_string_lossy();
        let file = self.directory.path().join(format!("{name}_{id}.ports"));
        let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
        let ports: serde_json::Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        // With TLS its own scheme is tls, which clients need not know.
        let listens = ports["nats"][0].as_str().and_then(|url| url.split_once("://"));
        let expected = format!("127.0.0.1:{}", self.port);
        if listens.is_some_and(|(_, address)| address == expected) { Ok(()) } else { Err(text) }
    }

    /// Ends it as a power cut of the process would, and reaps it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends it in good order.
    pub(crate) async fn stop(&mut self) {
        self.signal(Signal::TERM);
        let mut child = self.child.take().unwrap();
        eventually(START, "the server stops", async || match child.try_wait().unwrap() {
            Some(_) => Ok(()),
            None => Err("it still runs".into()),
        })
        .await;
    }

    /// The server stands still, its connections stay open.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        // On a busy machine the signal takes a while to arrive.
        let child = self.child.as_ref().expect("the server does not run");
        rustix::process::waitpid(Some(Pid::from_child(child)), rustix::process::WaitOptions::UNTRACED)
            .unwrap();
    }

    /// Ends [`pause`](Self::pause).
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Reads its configuration anew (SIGHUP).
    pub(crate) fn reload(&self) {
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the server does not run");
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Where clients connect.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Its JetStream store; to be touched only while it does not run.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.directory.path().join("server.log")).unwrap_or_default();
            let tail = log.lines().rev().take(15).collect::<Vec<_>>();
            eprintln!("--- server log, last lines, newest first ---\n{}", tail.join("\n"));
        }
        self.kill();
    }
}
