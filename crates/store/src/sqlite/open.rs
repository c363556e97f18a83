//! Opens connections with the settings that durability rests on, reads them back, and refuses otherwise.

use super::{checkpoint, error::error, migrate};
use crate::port::{Error, Result};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, backup::Backup, config::DbConfig, limits::Limit};
use std::{
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

/// How long to wait for a lock that an outside tool holds on the file before answering `Unavailable`.
const BUSY_MAX: Duration = Duration::from_secs(2);
/// The most bytes one row may hold; larger ones are rejected.
const ROW_BYTES_MAX: i32 = 64 << 20;
/// Files above this size are not checked page by page after an unclean stop: reading them would delay the start.
const CHECK_BYTES_MAX: u64 = 256 << 20;
/// Prepared statements kept per connection; more than there are.
const STATEMENTS_MAX: usize = 128;
/// What the WAL file shrinks to after a long read has kept it growing.
const WAL_BYTES_MAX: i64 = 64 << 20;
/// Larger pages cost more bytes per commit when few commits share a sync, and won nothing when many do.
const PAGE_BYTES: i64 = 4_096;
const CACHE_KIB: i64 = 64 << 10;

/// The writing connection to a file.
pub(super) fn file(path: &Path) -> Result<Connection> {
    let unclean = std::fs::metadata(wal_path(path)).is_ok_and(|wal| wal.len() > 0);
    private(path)?;
    let connection = Connection::open(path).map_err(error)?;
    connection.busy_timeout(BUSY_MAX).map_err(error)?;
    set(&connection, "page_size", PAGE_BYTES)?;
    // The first access to the file: garbage, truncation and an unreadable header show up here.
    migrate::owned(&connection)?;
    common(&connection)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(error)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(error)?;
    set(&connection, "wal_autocheckpoint", i64::from(checkpoint::FRAMES_MAX))?;
    set(&connection, "journal_size_limit", WAL_BYTES_MAX)?;
    set(&connection, "mmap_size", 0)?;
    durable(&connection)?;
    if unclean && std::fs::metadata(path).is_ok_and(|file| file.len() < CHECK_BYTES_MAX) {
        check(&connection)?;
    }
    Ok(connection)
}

/// Makes the file, if it is not there, for its owner alone; the files that SQLite puts beside it follow its mode.
pub(super) fn private(path: &Path) -> Result<()> {
    let made = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    made.map(drop).map_err(|err| Error::Unavailable(format!("{}: {err}", path.display())))
}

/// A reading connection to a file that the writing connection has opened.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(error)?;
    connection.busy_timeout(BUSY_MAX).map_err(error)?;
    common(&connection)?;
    set(&connection, "mmap_size", 0)?;
    Ok(connection)
}

/// An empty database in memory.
pub(super) fn memory() -> Result<Connection> {
    let connection = Connection::open_in_memory().map_err(error)?;
    set(&connection, "page_size", PAGE_BYTES)?;
    common(&connection)?;
    Ok(connection)
}

/// A migrated database in memory, copied page by page from one made at the first call.
pub(super) fn template() -> Result<Connection> {
    static TEMPLATE: OnceLock<Result<Mutex<Connection>>> = OnceLock::new();
    let template = TEMPLATE.get_or_init(|| {
        let mut connection = memory()?;
        migrate::migrate(&mut connection)?;
        Ok(Mutex::new(connection))
    });
    let from = template.as_ref().map_err(Error::clone)?.lock();
    let mut to = memory()?;
    Backup::new(&from, &mut to).and_then(|copy| copy.step(-1)).map_err(error)?;
    Ok(to)
}

fn common(connection: &Connection) -> Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX).map_err(error)?;
    // Without it a statement that compares a range or has a limit is prepared anew whenever other values are bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(error)?;
    set(connection, "foreign_keys", 0)?;
    set(connection, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(error)
}

/// Reads back what durability rests on: a file system without shared memory silently keeps another journal mode.
fn durable(connection: &Connection) -> Result<()> {
    let mode: String = get(connection, "journal_mode")?;
    let synchronous: i64 = get(connection, "synchronous")?;
    if mode != "wal" || synchronous != 2 {
        return Err(Error::Unavailable(format!(
            "journal_mode is {mode} and synchronous is {synchronous} where wal and 2 (full) are needed: \
             put the data on a local disk"
        )));
    }
    Ok(())
}

/// Looks for damage after an unclean stop. Stops at the first finding.
pub(super) fn check(connection: &Connection) -> Result<()> {
    let finding: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(error)?;
    if finding == "ok" { Ok(()) } else { Err(Error::Corrupt(finding)) }
}

pub(super) fn get<T: rusqlite::types::FromSql>(connection: &Connection, pragma: &str) -> Result<T> {
    connection.pragma_query_value(None, pragma, |row| row.get(0)).map_err(error)
}

pub(super) fn set(connection: &Connection, pragma: &str, value: i64) -> Result<()> {
    connection.pragma_update(None, pragma, value).map_err(error)
}

pub(super) fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
