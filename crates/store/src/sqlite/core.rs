//! The one connection that writes, and the transaction around whatever it is told to do.
//!
//! Synchronous: whoever holds a `Core` is the writer. It must never be shared without a lock or a thread of its own.

use super::{audit, checkpoint::Log, claim::Crowded, error, migrate, open, queue::Tally, read::Read};
use crate::port::{Error, Result};
use rusqlite::{Connection, config::DbConfig};
use std::path::Path;

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('schema_migrations', 'sqlite_sequence')";

/// Owns the writing connection.
pub struct Core {
    connection: Connection,
    /// Why nothing may be written any more, once a commit met an I/O error.
    broken: Option<String>,
    pub(super) crowded: Crowded,
    pub(super) tally: Tally,
    log: Log,
}

impl Core {
    /// Opens or creates the database file, in WAL mode with every commit synced to disk.
    pub fn open(path: &Path) -> Result<Core> {
        let mut connection = open::file(path)?;
        migrate::migrate(&mut connection)?;
        let log = Log::of(&mut connection).map_err(error::error)?;
        Ok(Core { log, ..Core::over(connection) })
    }

    fn over(connection: Connection) -> Core {
        let (crowded, tally, log) = (Crowded::default(), Tally::default(), Log::default());
        Core { connection, broken: None, crowded, tally, log }
    }

    /// A database that lives as long as this value.
    pub fn open_in_memory() -> Result<Core> {
        let mut connection = open::memory()?;
        migrate::migrate(&mut connection)?;
        Ok(Core::over(connection))
    }

    /// The same as [`Core::open_in_memory`], copied from a database made once per process.
    pub fn from_template() -> Result<Core> {
        open::template().map(Core::over)
    }

    /// Nobody waits at the moment: time for what would hold up a commit later.
    pub(super) fn idle(&mut self) {
        self.log.idle(&self.connection);
    }

    /// Deletes every row but the record of migrations.
    pub(super) fn clear(&mut self) -> Result<()> {
        let mut tables: Vec<String> = self.read().many(TABLES, &[], |row| row.get(0))?;
        // What people did with a task stays as long as the task does.
        // The anchor lets entries of the audit trail go.
        tables.sort_by_key(|table| table == "wf_task_events" || table == "audit_anchors");
        self.tally.forget();
        self.transaction(|connection| {
            connection.execute(audit::LET_ALL_GO, []).map_err(error::error)?;
            let clear =
                |table: &String| connection.prepare_cached(&format!("DELETE FROM {table}"))?.execute([]);
            tables.iter().try_for_each(|table| clear(table).map(drop)).map_err(error::error)
        })
    }

    /// Every read, over the writing connection.
    pub fn read(&self) -> Read<'_> {
        Read::new(&self.connection)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs `work` in a transaction: all of it is durable when this returns, or nothing of it happened.
    pub(super) fn transaction<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.begin()?;
        match work(&self.connection) {
            Ok(value) => self.commit().map(|()| value),
            Err(err) => {
                self.rollback()?;
                Err(err)
            }
        }
    }

    pub(super) fn begin(&mut self) -> Result<()> {
        if let Some(why) = &self.broken {
            return Err(Error::Corrupt(why.clone()));
        }
        self.run("BEGIN IMMEDIATE").map_err(error::error)
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        self.run("COMMIT").map_err(|err| self.fail(err))
    }

    pub(super) fn rollback(&mut self) -> Result<()> {
        // SQLite ends the transaction by itself on some errors, a full disk among them.
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.run("ROLLBACK").map_err(error::error)
    }

    /// Undoes the open transaction and says what the error means; a fatal one closes the store for writing.
    pub(super) fn fail(&mut self, err: rusqlite::Error) -> Error {
        let err = error::error(err);
        let undone = self.rollback();
        if let (Error::Corrupt(why), _) | (_, Err(Error::Corrupt(why))) = (&err, &undone) {
            self.broken = Some(why.clone());
            // Closing would sync the WAL again, and this time the kernel might say yes. Leave it to recovery.
            let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        err
    }

    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}
