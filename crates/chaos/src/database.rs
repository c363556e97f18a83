//! The database as its operator sees it: harmed by SQL, and counted at the end by itself.

use crate::record::Counts;
use anyhow::{Context, Result};
use std::{path::PathBuf, process::Stdio, time::Duration};
use tokio::process::{Child, Command};

const BY_STATUS: &str = "SELECT tenant || '/' || status, count(*) FROM wf_instances GROUP BY 1";
/// Work that is left: when every instance has ended there is none.
const LEFT: &str = "SELECT 'calls', count(*) FROM calls \
     UNION ALL SELECT 'wf_signal_q', count(*) FROM wf_signal_q \
     UNION ALL SELECT 'wf_schedule_q', count(*) FROM wf_schedule_q \
     UNION ALL SELECT 'wf_dlq', count(*) FROM wf_dlq \
     UNION ALL SELECT 'outbox', count(*) FROM outbox \
     UNION ALL SELECT 'deliveries', count(*) FROM deliveries";
const DEAF: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
     WHERE query LIKE 'LISTEN%' OR query LIKE '%pg_notify%' AND pid <> pg_backend_pid()";
const HOLD: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM wf_instances; SELECT pg_sleep(60)";

/// From now on the database acknowledges commits that it has not written yet, and a kill loses them.
pub(crate) fn lie(database: &scratch::Database) -> Result<()> {
    database.ask("ALTER SYSTEM SET synchronous_commit = off")?;
    database.ask("ALTER SYSTEM SET wal_writer_delay = '10s'")?;
    database.ask("SELECT pg_reload_conf()").map(drop)
}

/// Ends every connection that carries hints; answers how many there were.
pub(crate) fn end_hints(database: &scratch::Database) -> Result<u64> {
    database.ask(DEAF)?.parse().context("a number")
}

/// Nodes may have so many connections in all; -1 for any number.
pub(crate) fn limit_connections(database: &scratch::Database, most: i32) -> Result<()> {
    database.ask(&format!("ALTER ROLE {} CONNECTION LIMIT {most}", database.application)).map(drop)
}

/// Holds a snapshot for `length`: nothing newer than it can be cleaned away. False if it ended earlier.
pub(crate) async fn hold_snapshot(psql: &PathBuf, url: &str, length: Duration) -> Result<bool> {
    let mut child: Child = Command::new(psql)
        .args(["-XAtqw", "-c", HOLD, url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("psql does not start")?;
    // Ends earlier if another fault ends the server.
    let is_held = tokio::time::timeout(length, child.wait()).await.is_err();
    let _ = child.kill().await;
    Ok(is_held)
}

/// What there is of instances and of work that is left, by the database's own count.
pub(crate) fn counts(database: &scratch::Database) -> Result<Counts> {
    let pairs = |sql: &str| -> Result<_> {
        let mut found = std::collections::BTreeMap::new();
        for line in database.ask(sql)?.lines() {
            let (name, count) = line.rsplit_once('|').context("a name and a number")?;
            found.insert(name.to_owned(), count.parse()?);
        }
        Ok(found)
    };
    Ok(Counts { instances: pairs(BY_STATUS)?, left: pairs(LEFT)?, exits: 0 })
}
