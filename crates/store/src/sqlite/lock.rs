//! One process per database file: a lock file beside it, held as long as the store is open.
//!
//! It also remembers that there was a database, so that one that was lost or cut to nothing is not taken for a new one.

use super::open;
use crate::port::{Error, Result};
use rustix::fs::{FlockOperation, flock, fstatfs};
use std::{
    fs::File,
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
};

/// File systems where neither locks nor syncs can be trusted: NFS, SMB, SMB2, CIFS.
const NETWORK_FILE_SYSTEMS: [u32; 4] = [0x6969, 0x517B, 0xFE53_4D42, 0xFF53_4D42];

/// The held lock. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

/// In a lock file: the database beside it has been made.
const MADE: &str = "made";

/// Takes the lock of the database at `path`, or says who has it. Refused if there was a database that is gone.
pub(super) fn acquire(path: &Path) -> Result<Lock> {
    let (lock, was_made) = take(path)?;
    if was_made && is_empty(path) && is_empty(&open::wal_path(path)) {
        return Err(Error::Corrupt(format!(
            "{} is missing or empty, but there was a database: bring it back from a backup, or remove {} to begin \
             anew",
            path.display(),
            lock_path(path).display()
        )));
    }
    Ok(lock)
}

/// The same for a database that is about to be brought back.
pub(super) fn acquire_lost(path: &Path) -> Result<Lock> {
    take(path).map(|(lock, _)| lock)
}

/// The lock, and whether there was a database when it was let go.
fn take(path: &Path) -> Result<(Lock, bool)> {
    let lock = lock_path(path);
    let failed = |err: std::io::Error| Error::Unavailable(format!("{}: {err}", lock.display()));
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(&lock).map_err(failed)?;
    let system = fstatfs(&file).map_err(|err| failed(err.into()))?.f_type;
    if NETWORK_FILE_SYSTEMS.iter().any(|&network| u32::try_from(system).is_ok_and(|kind| kind == network)) {
        return Err(Error::Unavailable(format!("{} is on a network disk: use a local one", path.display())));
    }
    let is_taken = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    let mut text = String::new();
    // What cannot be read says nothing.
    let _ = file.read_to_string(&mut text);
    let mut lines = text.lines();
    let holder = lines.next().unwrap_or_default();
    if is_taken {
        return Err(Error::InUse(format!(
            "{} is in use by process {}: stop it first, or use another file",
            path.display(),
            holder.trim()
        )));
    }
    let was_made = lines.any(|line| line.trim() == MADE);
    let mut taken = Lock { file };
    taken.write(was_made).map_err(failed)?;
    Ok((taken, was_made))
}

impl Lock {
    /// The database is there and durable; from now on it must not be missing.
    pub(super) fn database_is_made(&mut self) -> Result<()> {
        self.write(true).map_err(|err| Error::Unavailable(format!("lock file: {err}")))
    }

    /// Always as long, so that a full disk has room for it once it has been written.
    fn write(&mut self, is_made: bool) -> std::io::Result<()> {
        let made = if is_made { MADE } else { "" };
        self.file.rewind()?;
        writeln!(self.file, "{:<10}\n{made:<4}", std::process::id())
    }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |file| file.len() == 0)
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
