//! Brings a database to the newest schema, and refuses one that is not ours or is newer than this program.
//!
//! A runner of our own rather than refinery: it adds one table and one read to the opening of a store (the
//! simulator opens thousands), and the `application_id` and newer-schema checks are needed beside it anyway.

use super::{
    error::error,
    open::{get, set},
};
use crate::port::{Error, Result};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

/// Marks a file as ours in SQLite's header: "WIND".
const APPLICATION_ID: i64 = 0x5749_4E44;

/// Every migration ever shipped, oldest first. A shipped one never changes: its hash is recorded where it ran.
const MIGRATIONS: [(&str, &str); 23] = [
    ("V1__core", include_str!("../../migrations/sqlite/V1__core.sql")),
    ("V2__calls_by_tenant", include_str!("../../migrations/sqlite/V2__calls_by_tenant.sql")),
    ("V3__business_parts", include_str!("../../migrations/sqlite/V3__business_parts.sql")),
    ("V4__deployment_keys", include_str!("../../migrations/sqlite/V4__deployment_keys.sql")),
    ("V5__secrets", include_str!("../../migrations/sqlite/V5__secrets.sql")),
    ("V6__schedules_and_events", include_str!("../../migrations/sqlite/V6__schedules_and_events.sql")),
    ("V7__children", include_str!("../../migrations/sqlite/V7__children.sql")),
    ("V8__retention", include_str!("../../migrations/sqlite/V8__retention.sql")),
    ("V9__collections", include_str!("../../migrations/sqlite/V9__collections.sql")),
    ("V10__feed", include_str!("../../migrations/sqlite/V10__feed.sql")),
    ("V11__fair", include_str!("../../migrations/sqlite/V11__fair.sql")),
    ("V12__deliveries", include_str!("../../migrations/sqlite/V12__deliveries.sql")),
    ("V13__buses", include_str!("../../migrations/sqlite/V13__buses.sql")),
    ("V14__standing", include_str!("../../migrations/sqlite/V14__standing.sql")),
    ("V15__errors", include_str!("../../migrations/sqlite/V15__errors.sql")),
    ("V16__taken_over", include_str!("../../migrations/sqlite/V16__taken_over.sql")),
    ("V17__worker_terms", include_str!("../../migrations/sqlite/V17__worker_terms.sql")),
    ("V18__event_types", include_str!("../../migrations/sqlite/V18__event_types.sql")),
    ("V19__batches", include_str!("../../migrations/sqlite/V19__batches.sql")),
    ("V20__outbox_by_tenant", include_str!("../../migrations/sqlite/V20__outbox_by_tenant.sql")),
    ("V21__traces", include_str!("../../migrations/sqlite/V21__traces.sql")),
    ("V22__audit", include_str!("../../migrations/sqlite/V22__audit.sql")),
    ("V23__records", include_str!("../../migrations/sqlite/V23__records.sql")),
];

const RECORD: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    sha256  BLOB NOT NULL
)";

/// Refuses a file of another program, or of a later version of this one. Reads the header, so that a file that is
/// no database is refused here as well.
pub(super) fn owned(connection: &Connection) -> Result<()> {
    let application: i64 = get(connection, "application_id")?;
    let version = version(connection)?;
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(error)?;
    if application != APPLICATION_ID && (application != 0 || objects > 0) {
        return Err(Error::Misconfigured(
            "the file is a database of another program: name another folder".into(),
        ));
    }
    if version > newest() {
        return Err(Error::Misconfigured(format!(
            "the file has schema {version}, this program knows up to {}: use the newer program",
            newest()
        )));
    }
    Ok(())
}

/// The schema of the file; 0 if it has none yet.
pub(super) fn version(connection: &Connection) -> Result<i64> {
    get(connection, "user_version")
}

/// Runs what is missing, each migration in a transaction with its record.
pub(super) fn migrate(connection: &mut Connection) -> Result<()> {
    let version = version(connection)?;
    recorded(connection, version)?;
    for (at, (name, sql)) in MIGRATIONS.iter().enumerate().skip(usize::try_from(version).unwrap_or(0)) {
        let version = at as i64 + 1;
        let transaction = connection.transaction().map_err(error)?;
        transaction.execute_batch(RECORD).map_err(error)?;
        transaction.execute_batch(sql).map_err(error)?;
        transaction
            .execute(
                "INSERT INTO schema_migrations (version, name, sha256) VALUES (?1, ?2, ?3)",
                params![version, name, Sha256::digest(sql).as_slice()],
            )
            .map_err(error)?;
        set(&transaction, "application_id", APPLICATION_ID)?;
        set(&transaction, "user_version", version)?;
        transaction.commit().map_err(error)?;
    }
    Ok(())
}

/// Refuses a database whose migrations were other than the ones this program would have run.
fn recorded(connection: &Connection, version: i64) -> Result<()> {
    for (at, (name, sql)) in MIGRATIONS.iter().enumerate().take(usize::try_from(version).unwrap_or(0)) {
        let hash: Vec<u8> = connection
            .query_row("SELECT sha256 FROM schema_migrations WHERE version = ?1", [at as i64 + 1], |row| {
                row.get(0)
            })
            .map_err(error)?;
        if hash != Sha256::digest(sql).as_slice() {
            return Err(Error::Misconfigured(format!(
                "migration {name} is not the one that this file was made with: use the program that made it"
            )));
        }
    }
    Ok(())
}

pub(super) fn newest() -> i64 {
    MIGRATIONS.len() as i64
}
