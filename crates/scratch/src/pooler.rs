//! Starts PgBouncer in transaction mode before a server that is there: what many deployments have in between.

use crate::server::{LOOK, LOOKS_MAX, unprivileged, watch};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

/// Fewer connections to the server than one store opens, so that a transaction rarely finds the one it had before.
const SERVER_CONNECTIONS: u16 = 3;

/// A pooler; it goes when this value does, or the process ends.
pub struct Pooler {
    port: u16,
    /// Never read: closing the pipe tells the watcher to end the pooler.
    #[allow(dead_code, reason = "held for as long as the pooler is needed")]
    watch: (ChildStdin, Child),
}

/// Where the package puts the program; `None` if it is not installed.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.exists())
}

impl Pooler {
    /// A pooler for every database of the server on this port, and for these roles.
    pub(crate) fn start(server_port: u16, roles: &[&str]) -> Result<Pooler> {
        let program = program().context("PgBouncer is not installed")?;
        let folder = tempfile::Builder::new().prefix("windlass-pooler-").tempdir()?;
        let user = unprivileged(folder.path())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let path = folder.path().display();
        let users: String = roles.iter().map(|role| format!("\"{role}\" \"\"\n")).collect();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={server_port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {path}/users\n\
             pool_mode = transaction\nmax_client_conn = 400\ndefault_pool_size = {SERVER_CONNECTIONS}\n\
             logfile = {path}/log\npidfile = {path}/pid\n"
        );
        for (name, text) in [("users", users), ("settings.ini", settings)] {
            let file = folder.path().join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
            if let Some((uid, gid)) = user {
                chown(&file, Some(uid), Some(gid))?;
            }
        }
        let mut command = Command::new(program);
        if let Some((uid, gid)) = user {
            command.uid(uid).gid(gid);
        }
        command.arg("-q").arg(folder.path().join("settings.ini")).process_group(0);
        let mut pooler = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let watch = watch(&pooler, folder.path())?;
        let folder = folder.keep();
        let started = answers(port, &mut pooler, &folder);
        std::thread::spawn(move || pooler.wait());
        started.map(|()| Pooler { port, watch })
    }

    /// The way to a database through the pooler.
    pub fn url(&self, direct: &str) -> Result<String> {
        let (before, rest) = direct.rsplit_once(':').context("no port in the URL")?;
        let (_, name) = rest.split_once('/').context("no database in the URL")?;
        Ok(format!("{before}:{}/{name}?pooled=true", self.port))
    }
}

#[allow(clippy::disallowed_methods, reason = "another process needs real time to start")]
fn answers(port: u16, pooler: &mut Child, folder: &Path) -> Result<()> {
    for _ in 0..LOOKS_MAX {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        if let Some(status) = pooler.try_wait()? {
            let said = fs::read_to_string(folder.join("log")).unwrap_or_default();
            bail!("PgBouncer ended with {status}: {said}");
        }
        std::thread::sleep(LOOK);
    }
    bail!("PgBouncer does not answer on port {port}")
}
