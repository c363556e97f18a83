//! Starts and stops a server in a temporary folder, as an unprivileged user, on a port of its own.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The role that makes tables, and the one that a node connects as.
pub(crate) const OWNER: &str = "windlass_owner";
pub(crate) const APPLICATION: &str = "windlass_app";
/// What a standby calls itself.
pub const STANDBY: &str = "standby";
/// Users that a server may be started as by root, which it refuses to be.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// How often the start of a server is looked at, and how long.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
pub(crate) const LOOKS_MAX: u32 = 1_500;

/// Waits for the borrower's end, however it comes: its end of the pipe closes. Then the server is told to stop by its
/// process id, and its folder goes. A line on the pipe says that there is nothing left to stop, and the folder stays.
const WATCH: &str = "read -r gone && exit; kill -INT \"$1\"; while kill -0 \"$1\" 2>/dev/null; do sleep 0.05; done; rm -rf \"$2\"";

/// What a server does at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// PostgreSQL's own default: every commit is synced.
    Default,
    /// Nothing is synced: for tests of behaviour.
    None,
}

/// The file in its folder that says how far the clock of a server is ahead.
const CLOCK: &str = "clock";

/// What a server with TLS needs: PEM texts, and who is let in how.
#[derive(Clone, Debug)]
pub struct Secure {
    pub certificate: String,
    pub key: String,
    /// Who signs the certificates of clients.
    pub authority: String,
    /// The lines of `pg_hba.conf`.
    pub hba: String,
}

/// A server that may be asked for databases.
pub struct Server {
    host: String,
    port: u16,
    user: String,
    programs: PathBuf,
    /// `None` if somebody else started it and stops it.
    own: Option<Own>,
}

/// A server that this process started.
pub(crate) struct Own {
    folder: PathBuf,
    user: Option<(u32, u32)>,
    durability: Durability,
    is_secure: bool,
    /// The library that gives it a clock of its own.
    faketime: Option<PathBuf>,
    pub(crate) pid: Pid,
    watch: Option<(ChildStdin, Child)>,
}

/// A fresh database; it goes when this value does.
pub struct Database {
    /// As the role that makes tables.
    pub owner_url: String,
    /// As the role that a node connects as.
    pub url: String,
    /// As a role that may do everything.
    pub admin_url: String,
    /// The name of the role in `url`.
    pub application: &'static str,
    name: String,
    psql: PathBuf,
    drop: Command,
}

impl Database {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What the database itself says to this, as a role that may do everything.
    pub fn ask(&self, sql: &str) -> Result<String> {
        let output = Command::new(&self.psql).args(["-XAtqw", "-c", sql, &self.admin_url]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// The folder of PostgreSQL's programs, the newest first; `None` if it is not installed.
pub fn programs() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    folders.sort_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        std::cmp::Reverse(version.and_then(|name| name.parse::<u32>().ok()))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders.into_iter().find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

impl Server {
    /// A new server in a temporary folder, stopped when this value goes or the process ends.
    pub fn start(durability: Durability) -> Result<Server> {
        Server::start_with(durability, None, None, None)
    }

    /// The same for a server whose clock can be moved, see [`Server::move_clock`], with nothing synced.
    pub fn start_with_clock(faketime: &Path) -> Result<Server> {
        Server::start_with(Durability::None, None, None, Some(faketime))
    }

    /// The same for a server whose log of changes (WAL) is in this empty folder, which becomes the server's, in small files.
    pub fn start_with_log_in(folder: &Path) -> Result<Server> {
        Server::start_with(Durability::Default, None, Some(folder), None)
    }

    /// The same for a server with TLS, with nothing synced.
    pub fn start_secure(secure: &Secure) -> Result<Server> {
        Server::start_with(Durability::None, Some(secure), None, None)
    }

    fn start_with(
        durability: Durability,
        secure: Option<&Secure>,
        wal: Option<&Path>,
        faketime: Option<&Path>,
    ) -> Result<Server> {
        let programs = programs().context("PostgreSQL is not installed")?;
        let folder = tempfile::Builder::new().prefix("windlass-postgres-").tempdir()?;
        let user = unprivileged(folder.path())?;
        let data = folder.path().join("data");
        let mut initdb = as_user("initdb", &programs, user, folder.path());
        initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "-D"]).arg(&data);
        if let Some(wal) = wal {
            if let Some((uid, gid)) = user {
                chown(wal, Some(uid), Some(gid))?;
            }
            initdb.args(["--wal-segsize", "1", "--waldir"]).arg(wal);
        }
        quietly(initdb)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // From here on the folder is the watcher's to remove.
        if let Some(secure) = secure {
            secure.write(&data, user)?;
        }
        let is_secure = secure.is_some();
        let folder = folder.keep();
        let faketime = faketime.map(Path::to_owned);
        let mut own = Own { folder, user, durability, is_secure, faketime, pid: Pid::INIT, watch: None };
        own.launch(&programs, port)?;
        let (host, user) = ("127.0.0.1".to_owned(), "postgres".to_owned());
        let server = Server { host, port, user, programs, own: Some(own) };
        server.make_roles()?;
        Ok(server)
    }

    /// A server that somebody else started.
    pub fn at(url: &str) -> Result<Server> {
        let rest = url.strip_prefix("postgres://").context("no postgres:// URL")?;
        let (user, place) = rest.split_once('@').context("no user in the URL")?;
        let place = place.split('/').next().unwrap_or_default();
        let (host, port) = place.split_once(':').context("no port in the URL")?;
        let programs = programs().context("PostgreSQL's programs are not installed")?;
        let (host, user) = (host.to_owned(), user.to_owned());
        let server = Server { host, port: port.parse()?, user, programs, own: None };
        Ok(server)
    }

    /// The port of 127.0.0.1 that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn programs(&self) -> &Path {
        &self.programs
    }

    pub(crate) fn own(&mut self) -> Result<&mut Own> {
        self.own.as_mut().context("this server is somebody else's")
    }

    /// The file in which it says what happens to it.
    pub fn log(&self) -> Option<PathBuf> {
        self.own.as_ref().map(|own| own.folder.join("log"))
    }

    /// What [`crate::VARIABLE`] holds for this server.
    pub fn url(&self) -> String {
        format!("postgres://{}@{}:{}", self.user, self.host, self.port)
    }

    /// A fresh, empty database.
    pub fn database(&self) -> Result<Database> {
        self.create(None)
    }

    /// The same, or a copy of another one.
    pub(crate) fn create(&self, template: Option<&str>) -> Result<Database> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut create = self.client("createdb");
        create.args(["-O", OWNER, &name]);
        if let Some(template) = template {
            create.args(["-T", template]);
        }
        quietly(create)?;
        let mut drop = self.client("dropdb");
        drop.args(["--if-exists", "--force", &name]);
        let url = |role: &str| format!("postgres://{role}@{}:{}/{name}", self.host, self.port);
        let (owner_url, url, admin_url) = (url(OWNER), url(APPLICATION), url(&self.user));
        let psql = self.programs.join("psql");
        Ok(Database { owner_url, url, admin_url, application: APPLICATION, name, psql, drop })
    }

    /// Whether there is a database of that name.
    pub(crate) fn has(&self, name: &str) -> Result<bool> {
        let mut psql = self.client("psql");
        psql.args([
            "-XAtq",
            "-c",
            &format!("SELECT 1 FROM pg_database WHERE datname = '{name}'"),
            "postgres",
        ]);
        Ok(!quietly(psql)?.is_empty())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut psql = self.client("psql");
        psql.args(["-Xq", "-c", &format!("ALTER DATABASE {from} RENAME TO {to}"), "postgres"]);
        quietly(psql).map(drop)
    }

    /// A fresh, empty database whose tables lie in this empty folder, which becomes the server's.
    pub fn database_in(&self, folder: &Path) -> Result<Database> {
        if let Some((uid, gid)) = self.own.as_ref().context("this server is somebody else's")?.user {
            chown(folder, Some(uid), Some(gid))?;
        }
        let database = self.database()?;
        let name = database.name();
        let mut psql = self.client("psql");
        let place = format!("CREATE TABLESPACE {name} LOCATION '{}'", folder.display());
        let moving = format!("ALTER DATABASE {name} SET TABLESPACE {name}");
        psql.args(["-Xq", "-c", &place, "-c", &moving, "postgres"]);
        quietly(psql)?;
        Ok(database)
    }

    /// A server that follows this one and may be promoted in its place. Its name for `synchronous_standby_names` is
    /// [`STANDBY`].
    pub fn standby(&self) -> Result<Server> {
        let own = self.own.as_ref().context("this server is somebody else's")?;
        let folder = tempfile::Builder::new().prefix("windlass-postgres-").tempdir()?;
        let user = unprivileged(folder.path())?;
        let mut copy = as_user("pg_basebackup", &self.programs, user, folder.path());
        let place =
            format!("host={} port={} user={} application_name={STANDBY}", self.host, self.port, self.user);
        copy.args(["-w", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", &place, "-D"]);
        copy.arg(folder.path().join("data"));
        quietly(copy)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = folder.keep();
        let (durability, is_secure, faketime) = (own.durability, false, None);
        let mut own = Own { folder, user, durability, is_secure, faketime, pid: Pid::INIT, watch: None };
        own.launch(&self.programs, port)?;
        let (host, user) = (self.host.clone(), self.user.clone());
        Ok(Server { host, port, user, programs: self.programs.clone(), own: Some(own) })
    }

    /// Makes a server that follows another one go on by itself; answers once it takes writes.
    pub fn promote(&self) -> Result<()> {
        let mut psql = self.client("psql");
        psql.args(["-XAtq", "-c", "SELECT pg_promote(true, 60)", "postgres"]);
        quietly(psql).map(drop)
    }

    fn make_roles(&self) -> Result<()> {
        for role in [OWNER, APPLICATION] {
            let mut create = self.client("createuser");
            create.args(["--no-superuser", "--no-createdb", role]);
            quietly(create)?;
        }
        Ok(())
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(["-w", "-h", &self.host, "-p", &self.port.to_string(), "-U", &self.user]);
        command.stdin(Stdio::null());
        command
    }
}

impl Own {
    /// Starts the server on its folder and waits until it answers.
    pub(crate) fn launch(&mut self, programs: &Path, port: u16) -> Result<()> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"))?;
        let mut postgres = as_user("postgres", programs, self.user, &self.folder);
        postgres.arg("-D").arg(self.folder.join("data")).args(["-p", &port.to_string(), "-k"]);
        postgres.arg(&self.folder).args(["-h", "127.0.0.1", "-c", "max_connections=400"]);
        if self.durability == Durability::None {
            postgres.args(["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]);
        }
        if self.is_secure {
            postgres.args(["-c", "ssl=on", "-c", "ssl_ca_file=root.crt"]);
        }
        if let Some(library) = &self.faketime {
            self.move_clock(0)?;
            postgres.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", self.folder.join(CLOCK));
            postgres.env("FAKETIME_NO_CACHE", "1");
            // Lengths of time stay what they are.
            postgres.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        }
        let mut server = postgres.stdout(log.try_clone()?).stderr(log).spawn()?;
        self.pid = Pid::from_child(&server);
        self.watch = Some(watch(&server, &self.folder)?);
        let started = answers(port, &mut server, &self.folder);
        // Reaps the server whenever it ends, so that the watcher sees it gone.
        std::thread::spawn(move || server.wait());
        started
    }

    /// So many seconds ahead of the machine's own. The file is there whole at any moment.
    pub(crate) fn move_clock(&self, seconds: i64) -> Result<()> {
        let fresh = self.folder.join("clock.new");
        std::fs::write(&fresh, format!("{seconds:+}s\n"))?;
        Ok(std::fs::rename(fresh, self.folder.join(CLOCK))?)
    }

    /// The server is dead: whoever watches it must not signal its number, nor remove its data.
    pub(crate) fn disown_watcher(&mut self) -> Result<()> {
        if let Some((mut pipe, mut watch)) = self.watch.take() {
            pipe.write_all(b"gone\n")?;
            watch.wait()?;
        }
        Ok(())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        match self.watch.take() {
            Some((pipe, mut watch)) => {
                // What stands still cannot stop.
                crate::crash::awake(self.pid);
                drop(pipe);
                let _ = watch.wait();
            }
            // It was killed and not started again.
            None => drop(std::fs::remove_dir_all(&self.folder)),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.drop.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Secure {
    /// Puts the files where the server looks for them; the key is for its eyes only.
    fn write(&self, data: &Path, user: Option<(u32, u32)>) -> Result<()> {
        let Secure { certificate, key, authority, hba } = self;
        let files =
            [("server.crt", certificate), ("server.key", key), ("root.crt", authority), ("pg_hba.conf", hba)];
        for (name, text) in files {
            let file = data.join(name);
            std::fs::write(&file, text)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
            if let Some((uid, gid)) = user {
                chown(&file, Some(uid), Some(gid))?;
            }
        }
        Ok(())
    }
}

/// Starts whoever stops the server and removes its folder once the pipe is closed, however this process ends.
pub(crate) fn watch(server: &Child, folder: &Path) -> Result<(ChildStdin, Child)> {
    let mut watch = Command::new("sh")
        .args(["-c", WATCH, "sh", &server.id().to_string()])
        .arg(folder)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let pipe = watch.stdin.take().context("the pipe was asked for")?;
    Ok((pipe, watch))
}

/// Root gives the folder to a user that PostgreSQL agrees to be started as, and answers its ids.
pub(crate) fn unprivileged(folder: &Path) -> Result<Option<(u32, u32)>> {
    if std::fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let of = |name: &str| -> Option<(u32, u32)> {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let Some((uid, gid)) = USERS.iter().find_map(|name| of(name)) else {
        bail!("PostgreSQL does not start as root, and there is no user {}", USERS.join(" or "));
    };
    chown(folder, Some(uid), Some(gid))?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    Ok(Some((uid, gid)))
}

/// One of PostgreSQL's programs, as the user that the folder belongs to.
fn as_user(name: &str, programs: &Path, user: Option<(u32, u32)>, folder: &Path) -> Command {
    let mut command = Command::new(programs.join(name));
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.process_group(0).current_dir(folder).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

/// Runs to the end and answers what it wrote; what it said is the error if it fails.
fn quietly(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{:?} failed: {}", command.get_program(), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[allow(clippy::disallowed_methods, reason = "another process needs real time to start")]
fn answers(port: u16, server: &mut Child, folder: &Path) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        // The postmaster's file says "ready" once recovery is done.
        let state = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
        if (state.contains("ready") || state.contains("standby"))
            && TcpStream::connect(("127.0.0.1", port)).is_ok()
        {
            return Ok(());
        }
        if let Some(status) = server.try_wait()? {
            let mut said = String::new();
            std::fs::File::open(folder.join("log"))?.read_to_string(&mut said)?;
            bail!("PostgreSQL ended with {status}: {said}");
        }
        std::thread::sleep(LOOK);
    }
    bail!("PostgreSQL does not answer on port {port}")
}
