//! Makes and changes the tables, as their owner, one program at a time; checks them for whoever connects.

use super::{
    error::{error, is_rivalry, said},
    pool::{self, Options},
    session::Session,
    value::{bytes, int, text},
};
use crate::port::{Error, Result};
use sha2::{Digest, Sha256};
use tokio_postgres::error::SqlState;

/// A change of the schema.
struct Migration {
    name: &'static str,
    sql: &'static str,
    /// The lowest schema that a program must know to work with this one: programs of two versions may be connected at
    /// the same time while a change only adds.
    oldest: i64,
}

const MIGRATIONS: &[Migration] = &[
    Migration { name: "core", sql: include_str!("../../migrations/postgres/V1__core.sql"), oldest: 1 },
    Migration {
        name: "retention",
        sql: include_str!("../../migrations/postgres/V2__retention.sql"),
        oldest: 1,
    },
    Migration { name: "plans", sql: include_str!("../../migrations/postgres/V3__plans.sql"), oldest: 1 },
    Migration { name: "feed", sql: include_str!("../../migrations/postgres/V4__feed.sql"), oldest: 1 },
    Migration { name: "fair", sql: include_str!("../../migrations/postgres/V5__fair.sql"), oldest: 1 },
    Migration {
        name: "partitions",
        sql: include_str!("../../migrations/postgres/V6__partitions.sql"),
        oldest: 1,
    },
    Migration {
        name: "deliveries",
        sql: include_str!("../../migrations/postgres/V7__deliveries.sql"),
        // One that does not know deliveries makes none for what it publishes.
        oldest: 7,
    },
    Migration { name: "buses", sql: include_str!("../../migrations/postgres/V8__buses.sql"), oldest: 7 },
    Migration {
        name: "standing",
        sql: include_str!("../../migrations/postgres/V9__standing.sql"),
        oldest: 7,
    },
    Migration { name: "errors", sql: include_str!("../../migrations/postgres/V10__errors.sql"), oldest: 7 },
    Migration {
        name: "taken-over",
        sql: include_str!("../../migrations/postgres/V11__taken_over.sql"),
        oldest: 7,
    },
    Migration {
        name: "worker_terms",
        sql: include_str!("../../migrations/postgres/V12__worker_terms.sql"),
        oldest: 1,
    },
    Migration { name: "publish", sql: include_str!("../../migrations/postgres/V13__publish.sql"), oldest: 1 },
    Migration {
        name: "event_types",
        sql: include_str!("../../migrations/postgres/V14__event_types.sql"),
        oldest: 1,
    },
    Migration {
        name: "queue_depths",
        sql: include_str!("../../migrations/postgres/V15__queue_depths.sql"),
        oldest: 1,
    },
    Migration { name: "batches", sql: include_str!("../../migrations/postgres/V16__batches.sql"), oldest: 1 },
    Migration { name: "wake", sql: include_str!("../../migrations/postgres/V17__wake.sql"), oldest: 1 },
    Migration {
        name: "outbox_by_tenant",
        sql: include_str!("../../migrations/postgres/V18__outbox_by_tenant.sql"),
        oldest: 1,
    },
    Migration { name: "traces", sql: include_str!("../../migrations/postgres/V19__traces.sql"), oldest: 1 },
    Migration { name: "audit", sql: include_str!("../../migrations/postgres/V20__audit.sql"), oldest: 1 },
    Migration { name: "records", sql: include_str!("../../migrations/postgres/V21__records.sql"), oldest: 1 },
];

/// Held while migrations are made: "windlass" in ASCII.
const LOCK: i64 = 0x7769_6e64_6c61_7373;

const RECORD: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version  bigint PRIMARY KEY,
    name     text   NOT NULL,
    sha256   bytea  NOT NULL,
    oldest   bigint NOT NULL
)";
const RECORDED: &str = "SELECT version, sha256, oldest FROM schema_migrations ORDER BY version";
const NOTE: &str = "INSERT INTO schema_migrations (version, name, sha256, oldest) VALUES ($1, $2, $3, $4)";
const MADE: &str = "SELECT to_regclass('schema_migrations') IS NOT NULL";

/// What a dump of the schema shows, as text: no tool's version is in it, and no partition of a day.
const COLUMNS: &str = "SELECT table_name || '.' || column_name || ' ' || data_type
        || coalesce(' collate ' || collation_name, '') || CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END
    FROM information_schema.columns WHERE table_schema = current_schema() AND table_name !~ '_[dk][0-9]{8}$'
    ORDER BY table_name, ordinal_position";
const INDEXES: &str = "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename !~ '_[dk][0-9]{8}$' ORDER BY indexname";
const CHECKS: &str = "SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = current_schema()::regnamespace AND contype = 'c' AND conrelid::regclass::text !~ '_[dk][0-9]{8}$'
    ORDER BY conrelid::regclass::text, conname";
const POLICIES: &str = "SELECT tablename || ' policy ' || policyname || CASE WHEN relforcerowsecurity THEN ' forced ' ELSE ' ' END || qual
    FROM pg_policies JOIN pg_class ON relname = tablename WHERE schemaname = current_schema() AND tablename !~ '_[dk][0-9]{8}$'
    ORDER BY tablename";
const STORAGE: &str = "SELECT relname || ' with ' || array_to_string(reloptions, ', ') FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND reloptions IS NOT NULL ORDER BY relname";

/// How long a change waits for nodes that are using a table. Whoever comes after it waits behind it, so it gives way and
/// tries again.
const LOCK_WAIT: &str = "SET LOCAL lock_timeout = '3s'";
const ATTEMPTS_MAX: u32 = 20;

/// Runs what is missing, as the role in `url`, which owns the tables then, and lets the role `application` work with
/// them. Nodes may be at work: if one of them stands in the way, all of it is undone and tried again. Answers the names of
/// the migrations that were missing.
pub async fn migrate(url: &str, application: Option<&str>) -> Result<Vec<&'static str>> {
    let mut options = Options::default();
    let address = pool::address(url, &mut options)?;
    let mut attempt = 1;
    loop {
        let session = pool::connect(&address, options.pooled).await?;
        match migrate_once(&session, application).await {
            Err(Trouble::InTheWay(said)) if attempt < ATTEMPTS_MAX => {
                tracing::warn!(attempt, said, "a node stood in the way of the migration: it is tried again");
                attempt += 1;
            }
            Err(Trouble::InTheWay(said)) => {
                let remedy = "nodes stood in the way each time; run it while there is less to do";
                return Err(Error::Unavailable(format!("{said}: {remedy}")));
            }
            Err(Trouble::Other(err)) => return Err(err),
            Ok(made) => return Ok(made),
        }
    }
}

/// Why a migration was undone.
enum Trouble {
    /// Nodes use the tables: it may go through the next time.
    InTheWay(String),
    Other(Error),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(err: tokio_postgres::Error) -> Trouble {
        let is_locked = err.code() == Some(&SqlState::LOCK_NOT_AVAILABLE);
        match is_locked || is_rivalry(&err) {
            true => Trouble::InTheWay(said(&err)),
            false => Trouble::Other(error(err)),
        }
    }
}

async fn migrate_once(
    session: &Session,
    application: Option<&str>,
) -> std::result::Result<Vec<&'static str>, Trouble> {
    // The transaction holds the lock: a pooler may stand in between.
    session.command(&format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})")).await?;
    session.command(LOCK_WAIT).await?;
    session.command(RECORD).await?;
    let known = recorded(session).await.map_err(Trouble::Other)?;
    let mut made = Vec::new();
    for (at, migration) in MIGRATIONS.iter().enumerate().skip(known) {
        session.command(migration.sql).await?;
        let hash = Sha256::digest(migration.sql);
        let values = [int(at as i64 + 1), text(migration.name), bytes(&hash), int(migration.oldest)];
        session.query(NOTE, &values).await?;
        made.push(migration.name);
    }
    if let Some(role) = application {
        let role = format!("\"{}\"", role.replace('"', "\"\""));
        let grants = format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
             REVOKE INSERT, UPDATE, DELETE ON schema_migrations FROM {role};
             REVOKE UPDATE ON audit_entries, audit_checkpoints FROM {role};
             GRANT UPDATE (chain_seq, prev, hash) ON audit_entries TO {role};
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};
             GRANT EXECUTE ON FUNCTION wf_history_ahead(), wf_history_retire(bigint, bigint, bigint) TO {role}"
        );
        session.command(&grants).await?;
    }
    session.command("SELECT wf_history_ahead()").await?;
    session.command("COMMIT").await?;
    Ok(made)
}

/// Refuses a database that this program cannot work with.
pub(super) async fn check(session: &Session) -> Result<()> {
    let made = session.query(MADE, &[]).await.map_err(error)?;
    let made = made.first().is_some_and(|row| row.try_get(0).unwrap_or(false));
    let known = if made { recorded(session).await? } else { 0 };
    if known < MIGRATIONS.len() {
        return Err(Error::Misconfigured(format!(
            "the database has schema {known}, this program needs {}: run `windlass migrate`",
            MIGRATIONS.len()
        )));
    }
    Ok(())
}

/// How many of this program's migrations the database has. Refuses one whose migrations were others, or that has moved
/// too far for this program.
async fn recorded(session: &Session) -> Result<usize> {
    let rows = session.query(RECORDED, &[]).await.map_err(error)?;
    for row in &rows {
        let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
        let (version, hash, oldest): (i64, Vec<u8>, i64) = read().map_err(error)?;
        if oldest > MIGRATIONS.len() as i64 {
            return Err(Error::Misconfigured(format!(
                "the database has schema {version}, this program knows up to {}: use the newer program",
                MIGRATIONS.len()
            )));
        }
        let mine = usize::try_from(version - 1).ok().and_then(|at| MIGRATIONS.get(at));
        if mine.is_some_and(|mine| hash != Sha256::digest(mine.sql).as_slice()) {
            return Err(Error::Misconfigured(format!(
                "migration {version} is not the one that this database was made with: use the program that made it, or \
                 a database of its own"
            )));
        }
    }
    Ok(rows.len().min(MIGRATIONS.len()))
}

/// The schema as text, for comparing.
pub async fn schema(url: &str) -> Result<String> {
    let mut options = Options::default();
    let address = pool::address(url, &mut options)?;
    let session = pool::connect(&address, options.pooled).await?;
    let mut text = String::new();
    for sql in [COLUMNS, INDEXES, CHECKS, POLICIES, STORAGE] {
        for row in session.query(sql, &[]).await.map_err(error)? {
            text += &row.try_get::<_, String>(0).map_err(error)?;
            text += "\n";
        }
        text += "\n";
    }
    Ok(text)
}
