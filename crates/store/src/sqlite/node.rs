//! Leases of nodes, and what happens to the rows of a node that is gone.

use super::{core::Core, error::error};
use crate::port::{Error, HostLock, Renewed, Result};
use machine::{Time, time::Span};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

/// Joining again keeps the lease row as it is if it is fenced, so that a node never un-fences itself.
const JOIN: &str =
    "INSERT INTO wf_host_locks (kind, name, holder, until_utc, fenced) VALUES ('node', ?1, ?1, ?2, 0)
    ON CONFLICT DO UPDATE SET until_utc = excluded.until_utc WHERE fenced = 0";
const RENEW: &str =
    "UPDATE wf_host_locks SET until_utc = ?2 WHERE kind = 'node' AND name = ?1 AND fenced = 0";
const EXPIRED: &str = "UPDATE wf_host_locks SET fenced = 1
    WHERE kind = 'node' AND fenced = 0 AND until_utc < ?2 AND name <> ?1 RETURNING name";
const ENDED: &str = "SELECT 1 FROM wf_host_locks
    WHERE kind = 'node' AND fenced = 0 AND until_utc < ?2 AND name <> ?1";
const LEAVE: &str = "DELETE FROM wf_host_locks WHERE kind = 'node' AND name = ?1 AND fenced = 0";
const FORGET: &str = "DELETE FROM wf_host_locks WHERE kind = 'node'";
const FENCED: &str = "SELECT fenced FROM wf_host_locks WHERE kind = 'node' AND name = ?1";

/// Leases of nodes that were fenced so long ago are forgotten: a node without a lease counts as fenced as well.
const FENCED_KEPT: Span = Span::from_secs(86_400);
const FORGET_FENCED: &str = "DELETE FROM wf_host_locks WHERE kind = 'node' AND fenced = 1 AND until_utc < ?1";

/// Only a member takes a lock, and only one that is free.
const HOLD: &str = "INSERT INTO wf_host_locks (kind, name, holder, until_utc)
    SELECT 'lock', ?1, name, ?3 FROM wf_host_locks WHERE kind = 'node' AND name = ?2 AND fenced = 0
    ON CONFLICT DO UPDATE SET holder = excluded.holder, until_utc = excluded.until_utc
    WHERE wf_host_locks.holder = excluded.holder OR wf_host_locks.until_utc < ?4 OR NOT EXISTS
        (SELECT 1 FROM wf_host_locks n WHERE n.kind = 'node' AND n.name = wf_host_locks.holder AND n.fenced = 0)";

const KEEP_KEY: &str = "INSERT INTO deployment_keys (name, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const KEY: &str = "SELECT value FROM deployment_keys WHERE name = ?1";

/// Makes a node's rows backlog. A scan: take-overs are rare, an index on the owner would cost every insert.
const RELEASE: [&str; 4] = [
    "UPDATE wf_signal_q SET owner = NULL WHERE owner = ?1",
    "UPDATE wf_schedule_q SET owner = NULL WHERE owner = ?1",
    "UPDATE calls SET owner = NULL WHERE owner = ?1",
    "UPDATE deliveries SET owner = NULL WHERE owner = ?1",
];
/// The same, and counts it.
const TAKE_OVER: [&str; 4] = [
    "UPDATE wf_signal_q SET owner = NULL, taken_over = taken_over + 1 WHERE owner = ?1",
    "UPDATE wf_schedule_q SET owner = NULL, taken_over = taken_over + 1 WHERE owner = ?1",
    "UPDATE calls SET owner = NULL, taken_over = taken_over + 1 WHERE owner = ?1",
    "UPDATE deliveries SET owner = NULL, taken_over = taken_over + 1 WHERE owner = ?1",
];
const RELEASE_ALL: [&str; 4] = [
    "UPDATE wf_signal_q SET owner = NULL, taken_over = taken_over + 1 WHERE owner IS NOT NULL",
    "UPDATE wf_schedule_q SET owner = NULL, taken_over = taken_over + 1 WHERE owner IS NOT NULL",
    "UPDATE calls SET owner = NULL, taken_over = taken_over + 1 WHERE owner IS NOT NULL",
    "UPDATE deliveries SET owner = NULL, taken_over = taken_over + 1 WHERE owner IS NOT NULL",
];

impl Core {
    /// Registers a fresh node and gives it a lease.
    pub fn join(&mut self, node: Uuid, now: Time, lease_ms: i64) -> Result<()> {
        let until = until(now, lease_ms);
        self.transaction(|connection| lease(connection, JOIN, node, until))
    }

    /// Renews the lease; `Fenced` if it was taken over. Answers whether another node's has ended.
    pub fn renew(&mut self, node: Uuid, now: Time, lease_ms: i64) -> Result<Renewed> {
        let until = until(now, lease_ms);
        self.transaction(|connection| {
            lease(connection, RENEW, node, until)?;
            let another_ended = connection
                .prepare_cached(ENDED)
                .and_then(|mut statement| statement.exists(params![node.as_bytes(), now.0]))
                .map_err(error)?;
            Ok(Renewed { another_ended, now: None, nodes: 1 })
        })
    }

    /// Fences every other node whose lease ended before `now` and makes its rows backlog. Returns how many rows.
    pub fn take_over(&mut self, node: Uuid, now: Time) -> Result<u64> {
        self.transaction(|connection| {
            member(connection, node)?;
            let mut rows = 0;
            for expired in expired(connection, node, now).map_err(error)? {
                rows += release(connection, TAKE_OVER, expired).map_err(error)?;
            }
            let long_ago = Time(now.0.saturating_sub(FENCED_KEPT.0));
            connection.execute(FORGET_FENCED, [long_ago.0]).map_err(error)?;
            Ok(rows)
        })
    }

    /// Ends the node's lease and makes its rows backlog.
    pub fn leave(&mut self, node: Uuid) -> Result<()> {
        self.transaction(|connection| {
            connection.prepare_cached(LEAVE).and_then(|mut s| s.execute([node.as_bytes()])).map_err(error)?;
            release(connection, RELEASE, node).map_err(error).map(drop)
        })
    }

    /// Takes or keeps a lock of the deployment.
    pub fn hold(&mut self, lock: HostLock, node: Uuid, now: Time, lease_ms: i64) -> Result<bool> {
        let until = until(now, lease_ms);
        self.transaction(|connection| {
            let name = lock.name();
            let values = (name.as_bytes(), node.as_bytes(), until.0, now.0);
            let held = connection.prepare_cached(HOLD).and_then(|mut statement| statement.execute(values));
            held.map(|rows| rows == 1).map_err(error)
        })
    }

    /// The deployment's secret of that name; `fresh` unless there is one.
    pub fn deployment_key(&mut self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32]> {
        self.transaction(|connection| {
            connection.execute(KEEP_KEY, params![name, fresh]).map_err(error)?;
            connection.query_row(KEY, [name], |row| row.get(0)).map_err(error)
        })
    }

    /// Makes every row backlog and forgets every node: right only where no other process can have the database
    /// open, as after taking the lock file. What an earlier process left is then served without waiting for its
    /// lease to end.
    pub(super) fn adopt_all(&mut self) -> Result<u64> {
        self.transaction(|connection| {
            let mut rows = 0;
            for sql in RELEASE_ALL {
                rows += connection.execute(sql, []).map_err(error)? as u64;
            }
            connection.execute(FORGET, []).map_err(error)?;
            Ok(rows)
        })
    }
}

/// Refuses a node that never joined, has left, or was taken over.
pub(super) fn member(connection: &Connection, node: Uuid) -> Result<()> {
    let fenced: Option<bool> = connection
        .prepare_cached(FENCED)
        .and_then(|mut s| s.query_row([node.as_bytes()], |row| row.get(0)).optional())
        .map_err(error)?;
    if fenced == Some(false) { Ok(()) } else { Err(Error::Fenced) }
}

fn lease(connection: &Connection, sql: &str, node: Uuid, until: Time) -> Result<()> {
    let changed = connection
        .prepare_cached(sql)
        .and_then(|mut s| s.execute(params![node.as_bytes(), until.0]))
        .map_err(error)?;
    if changed == 1 { Ok(()) } else { Err(Error::Fenced) }
}

fn expired(connection: &Connection, node: Uuid, now: Time) -> rusqlite::Result<Vec<Uuid>> {
    let mut statement = connection.prepare_cached(EXPIRED)?;
    let names =
        statement.query_map(params![node.as_bytes(), now.0], |row| row.get(0).map(Uuid::from_bytes))?;
    names.collect()
}

fn release(connection: &Connection, statements: [&str; 4], node: Uuid) -> rusqlite::Result<u64> {
    let mut rows = 0;
    for sql in statements {
        rows += connection.prepare_cached(sql)?.execute([node.as_bytes()])? as u64;
    }
    Ok(rows)
}

fn until(now: Time, lease_ms: i64) -> Time {
    now.after(Span(lease_ms.saturating_mul(1_000)))
}
