//! Starts Redis, NATS and what stands in for Kafka: each borrower has a server of its own and may kill it.

use crate::kafka::{self, Orders};
use crate::server::{LOOK, LOOKS_MAX, watch};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard},
};

/// What passes words on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Redis,
    Nats,
    Kafka,
}

impl Kind {
    /// Those that the system has packages of.
    pub const PACKAGED: [Kind; 2] = [Kind::Redis, Kind::Nats];

    /// What its program and its package are called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis-server",
            Kind::Nats => "nats-server",
            Kind::Kafka => "librdkafka",
        }
    }

    /// Where its program is; `None` if it is not installed.
    pub fn program(self) -> Option<PathBuf> {
        if self == Kind::Kafka {
            return kafka::library();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        folders.map(|folder| folder.join(self.name())).find(|program| program.exists())
    }

    fn arguments(self, port: u16, tls: Option<&Tls>, folder: &Path) -> Vec<String> {
        let place = match (self, tls) {
            (Kind::Redis, None) => format!("--bind 127.0.0.1 --port {port}"),
            (Kind::Redis, Some(Tls { certificate, key })) => {
                let (own, key) = (certificate.display(), key.display());
                format!(
                    "--bind 127.0.0.1 --port 0 --tls-port {port} --tls-auth-clients no \
                     --tls-cert-file {own} --tls-key-file {key} --tls-ca-cert-file {own}"
                )
            }
            (Kind::Nats, None) => format!("--addr 127.0.0.1 --port {port}"),
            (Kind::Kafka, _) => String::new(),
            (Kind::Nats, Some(Tls { certificate, key })) => {
                let (own, key) = (certificate.display(), key.display());
                format!("--addr 127.0.0.1 --port {port} --tls --tlscert {own} --tlskey {key}")
            }
        };
        let mut arguments: Vec<String> = place.split_whitespace().map(str::to_owned).collect();
        // What they have is there again after a kill.
        let folder = folder.display().to_string();
        let keeps: &[&str] = match self {
            Kind::Redis => {
                &["--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", &folder]
            }
            Kind::Nats => &["--jetstream", "--store_dir", &folder],
            Kind::Kafka => &[],
        };
        arguments.extend(keeps.iter().map(|word| (*word).to_owned()));
        arguments
    }
}

/// What a server proves itself with: files in PEM, in a folder without blanks in its name.
#[derive(Clone, Debug)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A server; it goes when this value does, or the process ends.
pub struct Broker {
    kind: Kind,
    port: u16,
    tls: Option<Tls>,
    folder: PathBuf,
    running: Option<Running>,
    /// Kafka alone: it stays while it is killed, since it has everything in memory, and nobody reaches it.
    orders: Option<Mutex<Orders>>,
}

struct Running {
    server: Child,
    /// Ends the server when the pipe closes, however its borrower ends.
    watch: Child,
    _pipe: ChildStdin,
}

impl Broker {
    pub(crate) fn start(kind: Kind, tls: Option<Tls>) -> Result<Broker> {
        kind.program().with_context(|| format!("{} is not installed", kind.name()))?;
        let folder = tempfile::Builder::new().prefix("windlass-broker-").tempdir()?.keep();
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut broker = Broker { kind, port, tls, folder, running: None, orders: None };
        broker.resume()?;
        Ok(broker)
    }

    pub fn url(&self) -> String {
        let scheme = match (self.kind, self.tls.is_some()) {
            (Kind::Redis, false) => "redis",
            (Kind::Redis, true) => "rediss",
            (Kind::Nats, false) => "nats",
            (Kind::Nats, true) => "tls",
            (Kind::Kafka, _) => "kafka",
        };
        format!("{scheme}://localhost:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server without warning; its port stays its own.
    pub fn kill(&mut self) {
        if let Some(orders) = &self.orders {
            let _ = lock(orders).give("down");
            return;
        }
        self.end();
    }

    fn end(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // First whoever would end it, by an id that is somebody else's once the server is gone.
        for process in [&mut running.watch, &mut running.server] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// As `kill -STOP`: connections stay and nothing answers.
    pub fn hold_still(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let server = self.running.as_ref().context("it does not run")?.server.id();
        stands_still(server)
    }

    /// As `kill -CONT`.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let running = self.running.as_ref().context("it does not run")?;
        Ok(kill_process(Pid::from_child(&running.server), signal)?)
    }

    /// Starts a server that was killed again, on the same port.
    pub fn resume(&mut self) -> Result<()> {
        if let Some(orders) = &self.orders {
            lock(orders).give("up")?;
            return Ok(());
        }
        if self.kind == Kind::Kafka {
            let (server, orders) = kafka::start(self.port, &self.folder)?;
            let (pipe, watch) = watch(&server, &self.folder)?;
            self.running = Some(Running { server, watch, _pipe: pipe });
            self.orders = Some(Mutex::new(orders));
            return Ok(());
        }
        let program = self.kind.program().context("its program is gone")?;
        fs::create_dir_all(&self.folder)?;
        let log = fs::File::create(self.folder.join("log"))?;
        let mut command = Command::new(program);
        command
            .args(self.kind.arguments(self.port, self.tls.as_ref(), &self.folder))
            .current_dir(&self.folder)
            .process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut server = command.spawn()?;
        let (pipe, watch) = watch(&server, &self.folder)?;
        let started = answers(self.kind, self.port, &mut server, &self.folder);
        self.running = Some(Running { server, watch, _pipe: pipe });
        started
    }
}

fn lock(orders: &Mutex<Orders>) -> MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until every thread has heard of it: a busy one answers a little longer.
#[allow(clippy::disallowed_methods, reason = "another process needs real time to stop")]
fn stands_still(server: u32) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        let mut threads = fs::read_dir(format!("/proc/{server}/task"))?.flatten();
        let is_stopped = |thread: fs::DirEntry| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        if threads.all(is_stopped) {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    bail!("the server does not stand still")
}

#[allow(clippy::disallowed_methods, reason = "another process needs real time to start")]
fn answers(kind: Kind, port: u16, server: &mut Child, folder: &Path) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        if let Some(status) = server.try_wait()? {
            let said = fs::read_to_string(folder.join("log")).unwrap_or_default();
            bail!("{} ended with {status}: {said}", kind.name());
        }
        std::thread::sleep(LOOK);
    }
    bail!("{} does not answer on port {port}", kind.name())
}
