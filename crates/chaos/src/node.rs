//! A node: the real binary, started again whenever it ends, however it ended.

use crate::{
    clock::{now_us, sleep_ms},
    record::Hints,
};
use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use tokio::process::{Child, Command};

/// Short, so that a run sees many take-overs; the shortest that the engine takes.
pub(crate) const LEASE_SECONDS: u64 = 3;
/// The re-scan finds what lost hints left behind: a run must see that happen.
const RESCAN_SECONDS: u64 = 5;
/// What restarts after an end that nobody asked for.
const PAUSE_MS: u64 = 200;

/// How nodes are started.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) windlass: PathBuf,
    /// Another version: a node that starts again starts as the other of the two.
    pub(crate) other: Option<PathBuf>,
    /// The folder of configuration and logs.
    pub(crate) folder: PathBuf,
}

impl Setup {
    pub(crate) fn write_config(&self, hints: Hints, broker: Option<&scratch::Broker>) -> Result<()> {
        let hints = match (hints, broker) {
            (Hints::Redis, Some(broker)) => broker.url(),
            (Hints::Off, _) => "off".to_owned(),
            _ => "postgres".to_owned(),
        };
        let text = format!(
            "[runtime]\nlease_seconds = {LEASE_SECONDS}\ndequeue_wait_seconds = {RESCAN_SECONDS}\n\
             [egress]\nallow_private = ['loopback']\n[hints]\nurl = '{hints}'\n"
        );
        std::fs::write(self.folder.join("windlass.toml"), text).context("cannot write the configuration")
    }

    /// The binary with nothing of this machine's configuration.
    pub(crate) fn command(&self) -> Command {
        self.command_of(&self.windlass)
    }

    fn command_of(&self, windlass: &Path) -> Command {
        let mut command = Command::new(windlass);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WINDLASS_")) {
            command.env_remove(name);
        }
        command.env("HOME", &self.folder).env("XDG_CONFIG_HOME", self.folder.join("config"));
        command.env("NO_COLOR", "1").current_dir(&self.folder).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    fn log(&self, name: &str) -> Result<File> {
        Ok(OpenOptions::new().create(true).append(true).open(self.log_path(name))?)
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A node and whoever watches over it; it ends with this value.
pub(crate) struct Node {
    at: usize,
    setup: Setup,
    shared: Arc<Shared>,
    watching: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// `None` between two starts.
    pid: Mutex<Option<Pid>>,
    /// How long it stays down after the next end.
    down_ms: AtomicU64,
    /// Ends that no fault asked for: a node that was taken over stops, and one without a database does not start.
    exits: AtomicU64,
    kills: AtomicU64,
}

impl Node {
    /// Starts the node on this port, with this store, and again whenever it ends.
    pub(crate) fn start(at: usize, setup: &Setup, port: u16, store: &str) -> Result<Node> {
        let shared = Arc::<Shared>::default();
        let starts = AtomicUsize::new(0);
        let start = Start { at, setup: setup.clone(), port, store: store.to_owned(), starts };
        let first = start.spawn()?;
        let watching = tokio::spawn(watch(start, first, shared.clone()));
        Ok(Node { at, setup: setup.clone(), shared, watching })
    }

    /// As `kill -9`; it stays down for so long.
    pub(crate) fn kill(&self, down_ms: u64) -> bool {
        self.shared.down_ms.store(down_ms, Ordering::Relaxed);
        self.shared.kills.fetch_add(1, Ordering::Relaxed);
        self.signal(Signal::KILL)
    }

    /// As `kill`.
    pub(crate) fn end(&self) -> bool {
        self.shared.kills.fetch_add(1, Ordering::Relaxed);
        self.signal(Signal::TERM)
    }

    /// As `kill -STOP`.
    pub(crate) fn stop(&self) -> bool {
        self.signal(Signal::STOP)
    }

    /// As `kill -CONT`.
    pub(crate) fn go_on(&self) -> bool {
        self.signal(Signal::CONT)
    }

    /// The lock is held until the signal is sent: nobody reaps the process in between.
    fn signal(&self, signal: Signal) -> bool {
        let pid = self.shared.pid.lock();
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// How often it ended although no fault killed it.
    pub(crate) fn exits(&self) -> u64 {
        self.shared.exits.load(Ordering::Relaxed)
    }

    /// The key that the first node on an empty database prints once.
    pub(crate) async fn platform_key(&self) -> Result<String> {
        let path = self.setup.log_path(&out_name(self.at));
        for _ in 0..600 {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some((line, _)) = text.split_once('\n') {
                let line: serde_json::Value = serde_json::from_str(line)?;
                return Ok(line["platform_key"].as_str().context("a platform key")?.to_owned());
            }
            sleep_ms(50).await;
        }
        anyhow::bail!("the first node does not start; see {}", self.setup.folder.display())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The watcher owns the process, which is killed with it.
        self.watching.abort();
    }
}

fn out_name(at: usize) -> String {
    format!("node-{at}.out")
}

struct Start {
    at: usize,
    setup: Setup,
    port: u16,
    store: String,
    starts: AtomicUsize,
}

impl Start {
    /// Nodes begin as one version and the other by turns, and change at every start.
    fn windlass(&self) -> &Path {
        let turn = self.at + self.starts.fetch_add(1, Ordering::Relaxed);
        match &self.setup.other {
            Some(other) if turn % 2 == 1 => other,
            _ => &self.setup.windlass,
        }
    }

    fn spawn(&self) -> Result<Child> {
        let windlass = self.windlass();
        let mut command = self.setup.command_of(windlass);
        command.args(["serve", "--config", "windlass.toml", "--store", &self.store, "-o", "json"]);
        command.env("WINDLASS_SERVER_LISTEN", format!("127.0.0.1:{}", self.port));
        command.stdout(self.setup.log(&out_name(self.at))?);
        command.stderr(self.setup.log(&format!("node-{}.log", self.at))?);
        command.spawn().with_context(|| format!("{} does not start", windlass.display()))
    }
}

async fn watch(start: Start, first: Child, shared: Arc<Shared>) {
    let mut next = Some(first);
    loop {
        let Some(mut child) = next.take().or_else(|| start.spawn().ok()) else {
            sleep_ms(PAUSE_MS).await;
            continue;
        };
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        *shared.pid.lock() = pid;
        // Not reaped while the number may still be signalled.
        let status = loop {
            let mut pid = shared.pid.lock();
            if let Ok(Some(status)) = child.try_wait() {
                *pid = None;
                break status;
            }
            drop(pid);
            sleep_ms(20).await;
        };
        if shared.kills.swap(0, Ordering::Relaxed) == 0 {
            shared.exits.fetch_add(1, Ordering::Relaxed);
        }
        note_end(&start, &status.to_string());
        sleep_ms(shared.down_ms.swap(PAUSE_MS, Ordering::Relaxed).max(1)).await;
    }
}

fn note_end(start: &Start, how: &str) {
    use std::io::Write as _;
    if let Ok(mut log) = start.setup.log(&format!("node-{}.log", start.at)) {
        let _ = writeln!(log, "---- the process ended at {}: {how}", now_us());
    }
}
