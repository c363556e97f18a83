//! A copy of a database while it is in use, and a database made from a copy.

use super::{error::error, lock, migrate, open};
use crate::port::{Error, Result};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

/// Copies the database at `from`, as it is at one moment, to the new file `to`. An engine may go on with `from`
/// meanwhile. The copy is there whole and durable, or not at all. Answers its size in bytes.
pub fn backup(from: &Path, to: &Path) -> Result<u64> {
    if to.exists() {
        return Err(Error::InUse(format!("{} is there already: name a new file", to.display())));
    }
    let source = existing(from)?;
    let part = beside(to, ".part");
    discard(&part)?;
    open::private(&part)?;
    // One statement is one read transaction: what is committed meanwhile is not in it, and nothing of it is torn.
    let copied = source.execute("VACUUM INTO ?1", [part.to_string_lossy()]).map_err(error);
    let copied = copied.and_then(|_| settle(&part, to));
    if copied.is_err() {
        discard(&part)?;
    }
    copied
}

/// Makes the database `to` from the copy `from`, once the copy has been found sound. Refused if there is a database.
pub fn restore(from: &Path, to: &Path) -> Result<u64> {
    let _lock = lock::acquire_lost(to)?;
    if fs::metadata(to).is_ok_and(|file| file.len() > 0) {
        return Err(Error::InUse(format!("{} is there already: move it away first", to.display())));
    }
    drop(existing(from)?);
    let part = beside(to, ".part");
    discard(&part)?;
    open::private(&part)?;
    // The content alone: a copy that others may read does not make a database that they may.
    let mut source = File::open(from).map_err(|err| named(from, &err))?;
    let written = File::create(&part).and_then(|mut part| std::io::copy(&mut source, &mut part));
    written.map_err(|err| named(&part, &err))?;
    for stale in [open::wal_path(to), beside(to, "-shm")] {
        discard(&stale)?;
    }
    settle(&part, to)
}

/// Opens a file that must be a sound database of this program.
fn existing(path: &Path) -> Result<Connection> {
    let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let connection = opened.map_err(|err| Error::Unavailable(format!("{}: {err}", path.display())))?;
    migrate::owned(&connection)?;
    if migrate::version(&connection)? == 0 {
        return Err(Error::Misconfigured(format!("{} holds nothing of this program", path.display())));
    }
    open::check(&connection)?;
    Ok(connection)
}

/// Checks what was written, makes it durable and gives it its name.
fn settle(part: &Path, to: &Path) -> Result<u64> {
    let connection = Connection::open(part).map_err(error)?;
    open::check(&connection)?;
    drop(connection);
    let file = File::open(part).map_err(|err| named(part, &err))?;
    file.sync_all().map_err(|err| named(part, &err))?;
    let bytes = file.metadata().map_err(|err| named(part, &err))?.len();
    fs::rename(part, to).map_err(|err| named(to, &err))?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|err| named(folder, &err))?;
    Ok(bytes)
}

fn discard(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => Err(named(path, &err)),
        _ => Ok(()),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn named(path: &Path, err: &std::io::Error) -> Error {
    Error::Unavailable(format!("{}: {err}", path.display()))
}
