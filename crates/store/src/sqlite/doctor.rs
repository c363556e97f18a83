//! Looks at a database file, while an engine uses it or not, and says what to do where something is wrong.

use super::{error::error, migrate, open};
use crate::{
    doctor::{Finding, STUCK_NAMED_MAX, STUCK_SECS, backlog, dead_letters, stuck},
    port::{Error, Result},
};
use machine::id;
use rusqlite::{Connection, OpenFlags, params};
use std::{path::Path, time::Duration};
use uuid::Uuid;

/// A log that has grown beyond this is kept from shrinking by a reader that does not end.
const WAL_BYTES_MAX: u64 = 1 << 30;
const BUSY_MAX: Duration = Duration::from_secs(5);

const BACKLOG: [(&str, &str); 3] = [
    (
        "signals",
        "SELECT count(*), coalesce((?1 - min(visible_at)) / 1000000, 0) FROM wf_signal_q WHERE owner IS NULL AND visible_at <= ?1",
    ),
    (
        "timers",
        "SELECT count(*), coalesce((?1 - min(due_at)) / 1000000, 0) FROM wf_schedule_q WHERE owner IS NULL AND due_at <= ?1",
    ),
    (
        "calls",
        "SELECT count(*), coalesce((?1 - min(visible_at)) / 1000000, 0) FROM calls WHERE owner IS NULL AND visible_at <= ?1",
    ),
];
const STUCK: &str = "SELECT i.tenant, i.id FROM wf_instances i
    JOIN wf_runtime_states s ON s.tenant = i.tenant AND s.runtime_instance_id = i.id
    WHERE i.status IN ('running', 'waiting', 'cancelling') AND i.updated_at < ?1
    AND ((s.waiting_kind = 'Call'
            AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.tenant = i.tenant AND c.instance = i.id))
        OR (s.waiting_kind IN ('Timer', 'Retry')
            AND NOT EXISTS (SELECT 1 FROM wf_schedule_q t WHERE t.tenant = i.tenant AND t.instance = i.id)))
    LIMIT ?2";
const DEAD_LETTERS: &str = "SELECT count(*) FROM wf_dlq";

/// Checks the database at `path`; `clock_us` is the time of this machine.
pub fn doctor(path: &Path, clock_us: i64) -> Vec<Finding> {
    let connection = match opened(path) {
        Ok(connection) => connection,
        Err(err) => {
            let remedy = "name the engine's data folder, and run this as the user that the engine runs as";
            return vec![Finding::bad("file", err.to_string(), remedy)];
        }
    };
    let mut findings = vec![file(path), log(path)];
    let schema = migrate::version(&connection).map(|have| (have, migrate::newest()));
    findings.push(match schema {
        Ok((have, need)) if have == need => {
            Finding::good("migrations", "the tables are those that this program needs")
        }
        Ok((have, need)) => Finding::warning(
            "migrations",
            format!("schema {have}, this program makes it {need}"),
            "back up, then start the engine with this program",
        ),
        Err(err) => Finding::bad("migrations", err.to_string(), "restore a backup"),
    });
    findings.push(match open::check(&connection) {
        Ok(()) => Finding::good("soundness", "no damage found"),
        Err(err) => Finding::bad(
            "soundness",
            err.to_string(),
            "stop the engine, keep the file, and restore a backup: windlass admin restore",
        ),
    });
    match rows(&connection, clock_us) {
        Ok(found) => findings.extend(found),
        Err(err) => findings.push(Finding::warning("rows", format!("not answered: {err}"), "try again")),
    }
    findings
}

fn opened(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags);
    let connection = opened.map_err(|err| Error::Unavailable(format!("{}: {err}", path.display())))?;
    connection.busy_timeout(BUSY_MAX).map_err(error)?;
    migrate::owned(&connection)?;
    Ok(connection)
}

fn file(path: &Path) -> Finding {
    use std::os::unix::fs::PermissionsExt;
    match std::fs::metadata(path) {
        Ok(file) if file.permissions().mode() & 0o077 != 0 => Finding::warning(
            "file",
            format!("{} may be read by others", path.display()),
            "chmod 600 it: it holds the data of all tenants",
        ),
        Ok(file) => {
            Finding::good("file", format!("{}, {:.1} MiB", path.display(), file.len() as f64 / 1_048_576.0))
        }
        Err(err) => Finding::bad("file", format!("{}: {err}", path.display()), "check the disk"),
    }
}

fn log(path: &Path) -> Finding {
    let bytes = std::fs::metadata(open::wal_path(path)).map_or(0, |file| file.len());
    let found = format!("{:.1} MiB of write-ahead log", bytes as f64 / 1_048_576.0);
    match bytes > WAL_BYTES_MAX {
        true => Finding::warning("log", found, "end tools that read the file for long; the log shrinks then"),
        false => Finding::good("log", found),
    }
}

fn rows(connection: &Connection, now: i64) -> Result<Vec<Finding>> {
    let mut queues = vec![];
    for (queue, sql) in BACKLOG {
        let counted = connection.query_row(sql, [now], |row| Ok((row.get(0)?, row.get(1)?)));
        let (rows, age): (i64, i64) = counted.map_err(error)?;
        queues.push((queue.to_owned(), rows, age));
    }
    let mut statement = connection.prepare(STUCK).map_err(error)?;
    let since = now - STUCK_SECS * 1_000_000;
    let found = statement
        .query_map(params![since, STUCK_NAMED_MAX + 1], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, [u8; 16]>(1)?))
        })
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(error)?;
    let named: Vec<String> = found
        .iter()
        .take(STUCK_NAMED_MAX as usize)
        .map(|(tenant, instance)| {
            format!("{tenant}/{}", id::show(id::Kind::Instance, Uuid::from_bytes(*instance)))
        })
        .collect();
    let letters = connection.query_row(DEAD_LETTERS, [], |row| row.get(0)).map_err(error)?;
    Ok(vec![backlog(&queues), stuck(&named, found.len() > named.len()), dead_letters(letters)])
}
