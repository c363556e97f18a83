//! Leases of nodes, and what happens to the rows of a node that is gone.
//!
//! Every batch of a node holds a shared lock on the node's fence key until it ends; whoever takes the node over needs
//! it alone. So a batch lands before the take-over or, once it sees the mark, not at all (P7). The lock is the
//! transaction's and no row's: batches of one node never wait for each other or for a renewal of the lease.

use super::{
    base::begin,
    error::{error, is_rivalry},
    session::{Scope, Session},
    value::{Value, bytes, id, int, text},
};
use crate::port::{Error, HostLock, Renewed, Result};
use machine::Time;
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const FENCED: &str = "SELECT fenced FROM wf_host_locks WHERE kind = 'node' AND name = $1";

/// The caller's time, or the database's if there is none.
macro_rules! now {
    ($param:literal) => {
        concat!("coalesce(", $param, ", (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)")
    };
}

/// Joining again keeps the lease row as it is if it is fenced, so that a node never un-fences itself.
const JOIN: &str = concat!(
    "INSERT INTO wf_host_locks AS l (kind, name, holder, until_utc, fenced) VALUES ('node', $1, $1, ",
    now!("$2"),
    " + $3, false)
    ON CONFLICT (kind, name) DO UPDATE SET until_utc = excluded.until_utc WHERE NOT l.fenced RETURNING 1"
);
/// One statement and no transaction around it: an idle node does this and little else. Answers a row if the lease is
/// renewed: whether another node's has ended, and the time.
const RENEW: &str = concat!(
    "WITH renewed AS (UPDATE wf_host_locks SET until_utc = ",
    now!("$2"),
    " + $3 WHERE kind = 'node' AND name = $1 AND NOT fenced RETURNING 1)
    SELECT EXISTS (SELECT 1 FROM wf_host_locks WHERE kind = 'node' AND NOT fenced AND name <> $1 AND until_utc < ",
    now!("$2"),
    "), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    (SELECT count(*) FROM wf_host_locks WHERE kind = 'node' AND NOT fenced AND (name = $1 OR until_utc >= ",
    now!("$2"),
    ")) FROM renewed"
);
const TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
const EXPIRED: &str = concat!(
    "SELECT name FROM wf_host_locks WHERE kind = 'node' AND NOT fenced AND name <> $1 AND until_utc < ",
    now!("$2"),
    " ORDER BY name"
);
/// The lease may have been renewed since it was seen to have ended.
const FENCE: &str = concat!(
    "UPDATE wf_host_locks SET fenced = true WHERE kind = 'node' AND NOT fenced AND name = $1 AND until_utc < ",
    now!("$2"),
    " RETURNING 1"
);
/// Leases of nodes that were fenced a day ago are forgotten: a node without a lease counts as fenced as well.
const FORGET_FENCED: &str = concat!(
    "DELETE FROM wf_host_locks WHERE kind = 'node' AND fenced AND until_utc < ",
    now!("$1"),
    " - 86400000000"
);
/// Only a member takes a lock, and only one that is free.
const HOLD: &str = concat!(
    "INSERT INTO wf_host_locks AS l (kind, name, holder, until_utc)
    SELECT 'lock', $1, n.name, ",
    now!("$3"),
    " + $4 FROM wf_host_locks n WHERE n.kind = 'node' AND n.name = $2 AND NOT n.fenced
    ON CONFLICT (kind, name) DO UPDATE SET holder = excluded.holder, until_utc = excluded.until_utc
    WHERE l.holder = excluded.holder OR l.until_utc < ",
    now!("$3"),
    " OR NOT EXISTS (SELECT 1 FROM wf_host_locks n WHERE n.kind = 'node' AND n.name = l.holder AND NOT n.fenced)
    RETURNING 1"
);
const LEAVE: &str = "DELETE FROM wf_host_locks WHERE kind = 'node' AND name = $1 AND NOT fenced";
const KEEP_KEY: &str = "INSERT INTO deployment_keys (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const KEY: &str = "SELECT value FROM deployment_keys WHERE name = $1";

/// Makes a node's rows backlog. A scan: take-overs are rare, an index on the owner would cost every insert.
const RELEASE: [&str; 4] = [
    "UPDATE wf_signal_q SET owner = NULL WHERE owner = $1 RETURNING 1",
    "UPDATE wf_schedule_q SET owner = NULL WHERE owner = $1 RETURNING 1",
    "UPDATE calls SET owner = NULL WHERE owner = $1 RETURNING 1",
    "UPDATE deliveries SET owner = NULL WHERE owner = $1 RETURNING 1",
];
/// The same, and counts it: what the row leads to may be what ended the node.
const TAKE_OVER: [&str; 4] = [
    "UPDATE wf_signal_q SET owner = NULL, taken_over = taken_over + 1 WHERE owner = $1 RETURNING 1",
    "UPDATE wf_schedule_q SET owner = NULL, taken_over = taken_over + 1 WHERE owner = $1 RETURNING 1",
    "UPDATE calls SET owner = NULL, taken_over = taken_over + 1 WHERE owner = $1 RETURNING 1",
    "UPDATE deliveries SET owner = NULL, taken_over = taken_over + 1 WHERE owner = $1 RETURNING 1",
];

macro_rules! orphans {
    ($queue:literal) => {
        concat!(
            "UPDATE ",
            $queue,
            " SET owner = NULL, taken_over = taken_over + 1 WHERE owner IS NOT NULL AND owner NOT IN
            (SELECT name FROM wf_host_locks WHERE kind = 'node' AND NOT fenced) RETURNING 1"
        )
    };
}
const ORPHANS: [&str; 4] =
    [orphans!("wf_signal_q"), orphans!("wf_schedule_q"), orphans!("calls"), orphans!("deliveries")];

/// How often a take-over that met a batch in flight is tried.
const TRIES_MAX: usize = 3;

/// The key of the lock that fences a node.
pub(super) fn fence_key(node: Uuid) -> i64 {
    let digest = Sha256::new().chain_update(b"node\0").chain_update(node.as_bytes()).finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(bytes)
}

/// Refuses a node that never joined, has left, or was taken over: the answer to [`FENCED`].
pub(super) fn not_fenced(rows: &[Row]) -> Result<()> {
    let fenced: Option<bool> = rows.first().map(|row| row.try_get(0)).transpose().map_err(error)?;
    if fenced == Some(false) { Ok(()) } else { Err(Error::Fenced) }
}

/// The statement must meet one row.
async fn lease(session: &Session, sql: &str, values: &[Value<'_>]) -> Result<()> {
    let rows = session.transact(&begin(Scope::All, ""), sql, values).await?;
    if rows.len() == 1 { Ok(()) } else { Err(Error::Fenced) }
}

pub(super) async fn join(session: &Session, node: Uuid, now: Value<'_>, lease_us: i64) -> Result<()> {
    lease(session, JOIN, &[id(node), now, int(lease_us)]).await
}

/// What time it is where the database is.
pub(super) async fn time(session: &Session) -> Result<Time> {
    let rows = session.query(TIME, &[]).await.map_err(error)?;
    let row = rows.first().ok_or_else(|| Error::Unavailable("the database does not know the time".into()))?;
    row.try_get(0).map(Time).map_err(error)
}

pub(super) async fn renew(session: &Session, node: Uuid, now: Value<'_>, lease_us: i64) -> Result<Renewed> {
    // Whoever asked waits for a while only; the connection is kept until the answer comes.
    let rows = session.query_patiently(RENEW, &[id(node), now, int(lease_us)]).await.map_err(error)?;
    let row = rows.first().ok_or(Error::Fenced)?;
    let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get::<_, i64>(2)?));
    let (another_ended, now, nodes) = read().map_err(error)?;
    Ok(Renewed { another_ended, now: Some(Time(now)), nodes: u32::try_from(nodes).unwrap_or(u32::MAX) })
}

/// Fences every other node whose lease has ended and makes its rows backlog.
pub(super) async fn take_over(session: &Session, node: Uuid, now: Value<'_>) -> Result<u64> {
    let member = session.query(FENCED, &[id(node)]).await.map_err(error)?;
    not_fenced(&member)?;
    let expired = session.query(EXPIRED, &[id(node), now]).await.map_err(error)?;
    let (mut rows, mut stuck) = (0, None);
    for row in expired {
        let other: Uuid = row.try_get(0).map_err(error)?;
        // Alone on the key: whatever the node had in flight has ended.
        let lock =
            format!("; SET LOCAL lock_timeout = '10s'; SELECT pg_advisory_xact_lock({})", fence_key(other));
        match release(session, &lock, FENCE, other, &[id(other), now]).await {
            Ok(freed) => rows += freed,
            // Something that it had in flight has not ended. That is no reason to leave the others where they are.
            Err(err) => {
                session.command("ROLLBACK").await.map_err(error)?;
                stuck = Some(err);
            }
        }
    }
    session.query(FORGET_FENCED, &[now]).await.map_err(error)?;
    rows += free_orphans(session).await?;
    stuck.map_or(Ok(rows), Err)
}

/// Frees rows of nodes that are fenced or unknown: a program that does not know a table yet fences a node and leaves
/// what that one owned there. A node joins before it owns anything, so whoever is not seen here is gone.
async fn free_orphans(session: &Session) -> Result<u64> {
    let mut rows = 0;
    for sql in ORPHANS {
        rows += session.transact(&begin(Scope::All, ""), sql, &[]).await?.len() as u64;
    }
    Ok(rows)
}

/// Takes or keeps a lock of the deployment.
pub(super) async fn hold(
    session: &Session,
    lock: HostLock,
    node: Uuid,
    now: Value<'_>,
    lease_us: i64,
) -> Result<bool> {
    let values = [id(lock.name()), id(node), now, int(lease_us)];
    Ok(!session.transact(&begin(Scope::All, ""), HOLD, &values).await?.is_empty())
}

/// Ends the node's lease and makes its rows backlog.
pub(super) async fn leave(session: &Session, node: Uuid) -> Result<()> {
    let lock = format!("; SELECT pg_advisory_xact_lock({})", fence_key(node));
    release(session, &lock, LEAVE, node, &[id(node)]).await.map(drop)
}

/// Marks the node with `mark` and frees its rows, in one transaction. A mark that answers nothing and had nothing to
/// mark frees nothing, except for a node that leaves.
async fn release(session: &Session, lock: &str, mark: &str, node: Uuid, values: &[Value<'_>]) -> Result<u64> {
    let mut tries = 0;
    loop {
        tries += 1;
        match release_once(session, lock, mark, node, values).await {
            Ok(rows) => return Ok(rows),
            Err(err) if is_rivalry(&err) && tries < TRIES_MAX => {
                session.command("ROLLBACK").await.map_err(error)?;
            }
            Err(err) => return Err(error(err)),
        }
    }
}

async fn release_once(
    session: &Session,
    lock: &str,
    mark: &str,
    node: Uuid,
    values: &[Value<'_>],
) -> std::result::Result<u64, tokio_postgres::Error> {
    session.command(&begin(Scope::All, lock)).await?;
    let marked = session.query(mark, values).await?;
    let mut rows = 0;
    let statements = if mark == LEAVE { RELEASE } else { TAKE_OVER };
    if mark == LEAVE || !marked.is_empty() {
        for sql in statements {
            rows += session.query(sql, &[id(node)]).await?.len() as u64;
        }
    }
    session.command("COMMIT").await?;
    Ok(rows)
}

/// The deployment's secret of that name; `fresh` unless there is one.
pub(super) async fn deployment_key(session: &Session, name: &str, fresh: &[u8; 32]) -> Result<[u8; 32]> {
    session.transact(&begin(Scope::All, ""), KEEP_KEY, &[text(name), bytes(fresh)]).await?;
    let rows = session.transact(&begin(Scope::All, ""), KEY, &[text(name)]).await?;
    let kept: Vec<u8> = match rows.first() {
        Some(row) => row.try_get(0).map_err(error)?,
        None => return Err(Error::Unavailable("the deployment's key is gone".into())),
    };
    kept.try_into().map_err(|_| Error::Corrupt("the deployment's key has another length".into()))
}
