//! The scene of the soak and what goes wrong in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetsink::disposition::Rng;
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::Instant;

use crate::harness::{Daemon, RawClient, Rig, RigPlan, Settings, Tmpfs, eventually, stays};
use crate::outcome;
use crate::proxy::Proxy;
use crate::traffic::Traffic;

/// A message that was confirmed after a fault was mended must be in a sink within this.
const RECOVERED: Duration = Duration::from_secs(60);
const DRAINED: Duration = Duration::from_secs(120);
/// A header block that no client can be handed.
const UNREADABLE: &[u8] = b"NATS/1.0\r\nX-Broken: \xff\xfe\r\n\r\n";

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// SIGKILL and a new start of the server.
    ServerKilled,
    /// A restart in good order.
    ServerRestarted,
    /// It stands still.
    ServerPaused,
    /// SIGKILL of the second daemon, and a new start.
    DaemonKilled,
    /// The second daemon stands still, often for longer than an ack wait.
    DaemonPaused,
    /// The first daemon's network is silent.
    NetworkSilent,
    /// Its connections are refused.
    NetworkRefused,
    /// The second daemon's disk is full.
    DiskFull,
    /// SIGTERM, the drain, and a new start of the second daemon. Alone: it is asserted that the drain succeeds.
    DaemonRestarted,
    /// The dead-letter stream takes no more. Alone: it takes a server that answers.
    DeadLettersFull,
    /// A message that ends every client. Alone, for the same reason.
    Unreadable,
}

const FAULTS: [Fault; 11] = [
    Fault::ServerKilled,
    Fault::ServerRestarted,
    Fault::ServerPaused,
    Fault::DaemonKilled,
    Fault::DaemonPaused,
    Fault::NetworkSilent,
    Fault::NetworkRefused,
    Fault::DiskFull,
    Fault::DaemonRestarted,
    Fault::DeadLettersFull,
    Fault::Unreadable,
];

/// What a fault befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Server,
    SecondDaemon,
    Network,
    Disk,
    /// It happens alone.
    Everything,
}

impl Fault {
    fn draw(rng: &mut Rng) -> Self {
        FAULTS[usize::try_from(rng.below(FAULTS.len() as u64)).unwrap()]
    }

    const fn victim(self) -> Victim {
        match self {
            Self::ServerKilled | Self::ServerRestarted | Self::ServerPaused => Victim::Server,
            Self::DaemonKilled | Self::DaemonPaused => Victim::SecondDaemon,
            Self::NetworkSilent | Self::NetworkRefused => Victim::Network,
            Self::DiskFull => Victim::Disk,
            Self::DaemonRestarted | Self::DeadLettersFull | Self::Unreadable => Victim::Everything,
        }
    }

    /// Whether both may be there at the same time.
    fn goes_with(self, other: Self) -> bool {
        let (own, others) = (self.victim(), other.victim());
        own != others && own != Victim::Everything && others != Victim::Everything
    }
}

/// A server, traffic, and two daemons: the first, behind a proxy, is never restarted; the second writes to a small disk.
pub(crate) struct Scene {
    rig: Rig,
    plan: RigPlan,
    traffic: Traffic,
    proxy: Proxy,
    disk: Tmpfs,
    first: Daemon,
    second: Option<Daemon>,
    second_settings: Settings,
    faults: usize,
    began: Instant,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let two_hours = 7_200_000_000_000_u64;
        let plan = RigPlan::patient().dead_letters("duplicate_window", two_hours);
        let rig = plan.clone().start().await;
        let (proxy, disk) = (Proxy::start(rig.server.port()).await, Tmpfs::mount("1g"));
        let mut settings = rig.settings_with_usual_limits();
        settings
            .set("size_policy.max_payload_bytes", "1 KiB")
            .set("nats.ping_interval", "1s")
            .set("delivery.batch_size", 50)
            .set("sink.file.rotate_bytes", "8 MiB");
        let mut second_settings = settings.clone();
        second_settings.set("sink.file.directory", directory_of(&disk).to_str().unwrap());
        settings.set("nats.servers", vec![proxy.url()]);
        let mut first = Daemon::start(&settings, &[]);
        let mut second = Daemon::start(&second_settings, &[]);
        first.ready().await;
        second.ready().await;
        let traffic = Traffic::start(vec![rig.server.url()], Duration::from_millis(4)).await;
        let second = Some(second);
        Self {
            rig,
            plan,
            traffic,
            proxy,
            disk,
            first,
            second,
            second_settings,
            faults: 0,
            began: Instant::now(),
        }
    }

    /// Memory of the daemon that is never restarted.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.first.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// One fault or two that overlap, for a while, mended; afterwards new messages are written.
    pub(crate) async fn fault(&mut self, rng: &mut Rng) {
        let (first, second) = (Fault::draw(rng), Fault::draw(rng));
        let lasts = Duration::from_millis(500 + rng.below(3500));
        let what = if first.goes_with(second) {
            self.begin(first).await;
            self.lasts(lasts / 2).await;
            self.begin(second).await;
            self.lasts(lasts / 2).await;
            self.mend(first).await;
            self.lasts(lasts / 2).await;
            self.mend(second).await;
            self.faults += 2;
            format!("{first:?} and {second:?}")
        } else {
            self.begin(first).await;
            self.lasts(lasts).await;
            self.mend(first).await;
            self.faults += 1;
            format!("{first:?}")
        };
        self.recovers(&what).await;
    }

    async fn recovers(&mut self, what: &str) {
        let (mended, before) = (Instant::now(), self.traffic.ledger.last());
        let directories = self.directories();
        eventually(RECOVERED, &format!("new messages are written after {what}"), async || {
            let written = directories.iter().map(|own| outcome::newest(own)).max().unwrap_or_default();
            if written > before { Ok(()) } else { Err(format!("{written} written, {before} confirmed")) }
        })
        .await;
        assert_eq!(self.first.ended(), None, "the first daemon goes on");
        println!(
            "{:6.1} s  {what}; new messages written {:.1} s later; {before} confirmed",
            self.began.elapsed().as_secs_f64(),
            mended.elapsed().as_secs_f64()
        );
    }

    async fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::ServerKilled => self.rig.server.kill(),
            Fault::ServerRestarted => self.rig.server.stop().await,
            Fault::ServerPaused => self.rig.server.pause(),
            Fault::DaemonKilled => self.second.take().unwrap().kill(),
            Fault::DaemonPaused => self.second.as_ref().unwrap().signal(Signal::STOP),
            Fault::NetworkSilent => self.proxy.silence(),
            Fault::NetworkRefused => self.proxy.refuse(),
            Fault::DiskFull => drop::<PathBuf>(self.disk.fill()),
            Fault::DaemonRestarted => self.second.take().unwrap().stop().await,
            Fault::DeadLettersFull => {
                let letters = self.rig.client.stream_info("DLQ").await["state"]["messages"].clone();
                let mut full = self.plan.dead_letters.clone();
                full["max_msgs"] = Value::from(letters.as_i64().unwrap().max(1));
                self.rig.client.update_stream(&full).await;
            }
            Fault::Unreadable => {
                let mut publisher = RawClient::connect(&self.rig.server).await;
                publisher.publish_with_block("src.unreadable", UNREADABLE, b"unreadable").await;
            }
        }
    }

    async fn mend(&mut self, fault: Fault) {
        match fault {
            Fault::ServerKilled | Fault::ServerRestarted => self.rig.server.restart().await,
            Fault::ServerPaused => self.rig.server.resume(),
            Fault::DaemonKilled | Fault::DaemonRestarted => {
                self.second = Some(Daemon::start(&self.second_settings, &[]));
            }
            Fault::DaemonPaused => self.second.as_ref().unwrap().signal(Signal::CONT),
            Fault::NetworkSilent | Fault::NetworkRefused => self.proxy.open(),
            Fault::DiskFull => fs::remove_file(self.disk.path().join(".ballast")).unwrap(),
            Fault::DeadLettersFull => self.rig.client.update_stream(&self.plan.dead_letters).await,
            Fault::Unreadable => {}
        }
    }

    /// Lets time pass while the first daemon runs.
    async fn lasts(&self, duration: Duration) {
        stays(duration, "the proxied daemon's process is there", async || {
            if Path::new(&format!("/proc/{}", self.first.id())).exists() {
                Ok(())
            } else {
                Err("it is gone".into())
            }
        })
        .await;
    }

    fn directories(&self) -> [PathBuf; 2] {
        [self.rig.sink(), directory_of(&self.disk)]
    }

    /// Everything settles, and every invariant holds.
    pub(crate) async fn ends_well(mut self) {
        let directories = self.directories();
        let ledger = self.traffic.stop().await;
        let client = &self.rig.client;
        eventually(DRAINED, "the durable is drained", async || outcome::is_drained(client).await).await;
        let mut second = self.second.take().unwrap();
        self.first.ready().await;
        second.ready().await;
        self.first.stop().await;
        second.stop().await;
        for message in unreadable(&self.rig).await {
            ledger.note(message, true);
        }
        let [one, two] = &directories;
        let twice = outcome::check(client, &[one, two], &ledger).await;
        println!("{} faults, {} messages, {twice} of them in both directories", self.faults, ledger.last());
    }
}

fn directory_of(disk: &Tmpfs) -> PathBuf {
    disk.path().join("sink")
}

/// The sequences of the messages that end clients.
async fn unreadable(rig: &Rig) -> Vec<u64> {
    let mut found = Vec::new();
    let mut from = 1;
    loop {
        let body = serde_json::json!({ "seq": from, "next_by_subj": "src.unreadable" });
        let Ok(answer) = rig.client.try_api("STREAM.MSG.GET.SRC", &body).await else { return found };
        let sequence = answer["message"]["seq"].as_u64().unwrap();
        found.push(sequence);
        from = sequence + 1;
    }
}
