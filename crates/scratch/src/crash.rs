//! Harms a server of our own: kills it with everything it started, holds it still, starts it again on its data.

use super::server::Server;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::path::Path;

impl Server {
    /// As `kill -9` of the postmaster and all of its children at once. Its data stays as it is.
    pub fn kill(&mut self) -> Result<()> {
        let own = self.own()?;
        let postmaster = own.pid;
        // A postmaster that stands still starts no child between the look and the kill.
        kill_process(postmaster, Signal::STOP).context("the postmaster is not there")?;
        let children = children(postmaster)?;
        for pid in std::iter::once(&postmaster).chain(&children) {
            // One that has ended by itself is as dead as one that was killed.
            let _ = kill_process(*pid, Signal::KILL);
        }
        own.disown_watcher()?;
        until_gone(postmaster, &children)
    }

    /// Starts on its data, whatever has become of it: it may have ended by itself.
    pub fn start_over(&mut self) -> Result<()> {
        match test_kill_process(self.own()?.pid) {
            Ok(()) => self.kill()?,
            Err(_) => self.own()?.disown_watcher()?,
        }
        self.start_again()
    }

    /// Starts on the data that a killed server left; answers once it has recovered.
    pub fn start_again(&mut self) -> Result<()> {
        let port = self.port();
        let programs = self.programs().to_owned();
        self.own()?.launch(&programs, port)
    }

    /// As `kill -STOP` of everything: connections stay and nothing answers.
    pub fn pause(&mut self) -> Result<()> {
        let postmaster = self.own()?.pid;
        kill_process(postmaster, Signal::STOP).context("the postmaster is not there")?;
        signal_all(&children(postmaster)?, Signal::STOP);
        Ok(())
    }

    /// From now on its clock is so many seconds ahead of the machine's.
    pub fn move_clock(&mut self, seconds: i64) -> Result<()> {
        self.own()?.move_clock(seconds)
    }

    /// The numbers of the processes that the postmaster has started and that are there now.
    pub fn children(&mut self) -> Result<Vec<u32>> {
        let children = children(self.own()?.pid)?;
        Ok(children.into_iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect())
    }

    /// As `kill -CONT` of everything.
    pub fn go_on(&mut self) -> Result<()> {
        awake(self.own()?.pid);
        Ok(())
    }
}

/// Lets a server go on, if it stood still.
pub(crate) fn awake(postmaster: Pid) {
    signal_all(&children(postmaster).unwrap_or_default(), Signal::CONT);
    signal_all(&[postmaster], Signal::CONT);
}

fn signal_all(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _ = kill_process(*pid, signal);
    }
}

/// The processes whose parent this is. Backends are in sessions of their own: there is no group to signal.
fn children(parent: Pid) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        if parent_of(&entry.path()) == Some(parent) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// The fourth field of `stat`; the second is a name in brackets, which may hold anything.
fn parent_of(process: &Path) -> Option<Pid> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().and_then(Pid::from_raw)
}

/// Shared memory that a process still holds would keep the next server from starting.
#[allow(clippy::disallowed_methods, reason = "the kernel needs real time to end processes")]
fn until_gone(postmaster: Pid, children: &[Pid]) -> Result<()> {
    let lives = |pid: &Pid| test_kill_process(*pid).is_ok() && !is_zombie(*pid);
    for _ in 0..super::server::LOOKS_MAX {
        if !std::iter::once(&postmaster).chain(children).any(lives) {
            return Ok(());
        }
        std::thread::sleep(super::server::LOOK);
    }
    bail!("PostgreSQL does not die")
}

fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use crate::{Durability, Server};

    #[test]
    fn what_was_committed_survives_a_kill_of_everything() {
        if crate::programs().is_none() {
            return;
        }
        let mut server = Server::start(Durability::Default).unwrap();
        let database = server.database().unwrap();
        database.ask("CREATE TABLE kept AS SELECT 7 AS n").unwrap();
        server.kill().unwrap();
        assert!(database.ask("TABLE kept").is_err(), "nobody answers");
        server.start_again().unwrap();
        assert_eq!(database.ask("TABLE kept").unwrap(), "7");
        server.pause().unwrap();
        server.go_on().unwrap();
        assert_eq!(database.ask("TABLE kept").unwrap(), "7");
    }
}
