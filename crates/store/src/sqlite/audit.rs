//! The audit trail: entries are inserted by commits, take their places once, and go only from the front.

use super::{
    core::Core,
    error::error,
    host::Host,
    list::Query,
    read::{Read, id, tenant, time},
    statement::{Prepared, Statement as S},
    write::plain,
};
use crate::{
    audit::Audit,
    commit::Conflict,
    port::{Error, Result},
    rows::*,
    views::Page,
};
use async_trait::async_trait;
use machine::{
    TenantId, Time,
    audit::{BEGINNING, export::Checkpoint},
    query::{Condition, Subject},
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};

const VIEW: &str = "SELECT id, body, chain_seq, prev, hash FROM audit_entries WHERE tenant = ?1";
const TENANTS: &str = "SELECT DISTINCT tenant FROM audit_entries WHERE chain_seq IS NULL LIMIT ?1";
const UNSEALED: &str =
    "SELECT id, at, act, key_id, subject, object_kind, object_id, body, content_hash FROM audit_entries
    WHERE tenant = ?1 AND chain_seq IS NULL ORDER BY at, id LIMIT ?2";
const TAIL: &str = "SELECT chain_seq, hash FROM audit_entries WHERE tenant = ?1 AND chain_seq IS NOT NULL
    ORDER BY chain_seq DESC LIMIT 1";
const ANCHOR: &str = "SELECT chain_seq, hash FROM audit_anchors WHERE tenant = ?1";
const NEWEST: &str = "SELECT chain_seq, hash, at, key, signature FROM audit_checkpoints WHERE tenant = ?1
    ORDER BY chain_seq DESC LIMIT 1";
const CHECKPOINTS: &str = "SELECT chain_seq, hash, at, key, signature FROM audit_checkpoints
    WHERE tenant = ?1 AND chain_seq BETWEEN ?2 AND ?3 ORDER BY chain_seq";
const SEAL: &str = "UPDATE audit_entries SET chain_seq = ?3, prev = ?4, hash = ?5
    WHERE tenant = ?1 AND id = ?2 AND chain_seq IS NULL";
const CHECKPOINT: &str = "INSERT INTO audit_checkpoints (tenant, chain_seq, hash, at, key, signature)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
/// A tenant whose first entry is old enough.
const OLD: &str =
    "SELECT e.tenant FROM tenants t JOIN audit_entries e ON e.tenant = t.tenant AND e.chain_seq =
        (SELECT min(chain_seq) FROM audit_entries f WHERE f.tenant = t.tenant AND f.chain_seq IS NOT NULL)
    WHERE e.at < ?1 LIMIT 1";
/// The last of at most ?3 entries from the front on that are all older than ?2.
const LAST: &str = "SELECT chain_seq, hash FROM (SELECT chain_seq, hash, at FROM audit_entries
        WHERE tenant = ?1 AND chain_seq IS NOT NULL ORDER BY chain_seq LIMIT ?3)
    WHERE chain_seq < coalesce((SELECT min(chain_seq) FROM audit_entries WHERE tenant = ?1 AND chain_seq IS NOT NULL
        AND at >= ?2), 9223372036854775807)
    ORDER BY chain_seq DESC LIMIT 1";
const RAISE: &str = "INSERT INTO audit_anchors (tenant, chain_seq, hash) VALUES (?1, ?2, ?3)
    ON CONFLICT (tenant) DO UPDATE SET chain_seq = excluded.chain_seq, hash = excluded.hash";
const CUT: [&str; 2] = [
    "DELETE FROM audit_checkpoints WHERE tenant = ?1 AND chain_seq <= ?2",
    "DELETE FROM audit_entries WHERE tenant = ?1 AND chain_seq <= ?2",
];
/// Before a tenant goes with all it has.
pub(super) const LET_GO: &str = "INSERT INTO audit_anchors (tenant, chain_seq, hash)
    SELECT DISTINCT tenant, 9223372036854775807, zeroblob(32) FROM audit_entries WHERE tenant = ?1
    ON CONFLICT (tenant) DO UPDATE SET chain_seq = excluded.chain_seq";
pub(super) const LET_ALL_GO: &str = "INSERT INTO audit_anchors (tenant, chain_seq, hash)
    SELECT DISTINCT tenant, 9223372036854775807, zeroblob(32) FROM audit_entries WHERE true
    ON CONFLICT (tenant) DO UPDATE SET chain_seq = excluded.chain_seq";

pub(super) fn write(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &AuditRow,
) -> rusqlite::Result<Option<Conflict>> {
    let AuditRow { id, at, act, key_id, subject, object_kind, object_id, body, content_hash } = row;
    let id = id.as_bytes();
    plain(
        to,
        S::Audit,
        params![tenant, id, at.0, act, key_id, subject, object_kind, object_id, body, content_hash],
    )
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditRow {
        id: id(row, 0)?,
        at: time(row, 1)?,
        act: row.get(2)?,
        key_id: row.get(3)?,
        subject: row.get(4)?,
        object_kind: row.get(5)?,
        object_id: row.get(6)?,
        body: row.get(7)?,
        content_hash: row.get(8)?,
    })
}

fn view(row: &Row<'_>) -> rusqlite::Result<AuditView> {
    let id = id(row, 0)?;
    let seal = match row.get::<_, Option<i64>>(2)? {
        Some(seq) => Some(SealRow { id, seq: seq.unsigned_abs(), prev: row.get(3)?, hash: row.get(4)? }),
        None => None,
    };
    Ok(AuditView { id, body: row.get(1)?, seal })
}

fn checkpoint(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    Ok(Checkpoint {
        seq: row.get::<_, i64>(0)?.unsigned_abs(),
        hash: row.get(1)?,
        at: time(row, 2)?,
        key: row.get(3)?,
        signature: row.get(4)?,
    })
}

impl Read<'_> {
    fn audit_tail(&self, tenant: &TenantId) -> Result<Tail> {
        let place = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?));
        let of = params![tenant.as_str()];
        let last = match self.one(TAIL, of, place)? {
            Some(last) => Some(last),
            None => self.one(ANCHOR, of, place)?,
        };
        let (seq, hash) = last.unwrap_or((0, BEGINNING));
        Ok(Tail { seq, hash, checkpoint: self.one(NEWEST, of, checkpoint)? })
    }
}

impl Core {
    fn seal_audit(&mut self, tenant: &TenantId, seal: &Seal) -> Result<bool> {
        let sealed = self.transaction(|connection| match rows(connection, tenant.as_str(), seal) {
            Ok(true) => Ok(true),
            // Undone: nothing of it may stay.
            Ok(false) => Err(Error::Unknown(String::new())),
            Err(err) if err.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                Err(Error::Unknown(String::new()))
            }
            Err(err) => Err(error(err)),
        });
        match sealed {
            Err(Error::Unknown(why)) if why.is_empty() => Ok(false),
            other => other,
        }
    }

    fn cut_audit(&mut self, before: Time, limit: usize) -> Result<u64> {
        self.transaction(|connection| cut(connection, before, limit.max(1)).map_err(error))
    }
}

fn rows(connection: &Connection, tenant: &str, seal: &Seal) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(SEAL)?;
    for SealRow { id, seq, prev, hash } in &seal.rows {
        if statement.execute(params![tenant, id.as_bytes(), seq.cast_signed(), prev, hash])? == 0 {
            return Ok(false);
        }
    }
    if let Some(one) = &seal.checkpoint {
        let (seq, at) = (one.seq.cast_signed(), one.at.0);
        let values = params![tenant, seq, one.hash, at, one.key, one.signature];
        connection.prepare_cached(CHECKPOINT)?.execute(values)?;
    }
    Ok(true)
}

fn cut(connection: &Connection, before: Time, limit: usize) -> rusqlite::Result<u64> {
    let old: Option<String> =
        connection.prepare_cached(OLD)?.query_row([before.0], |row| row.get(0)).optional()?;
    let Some(tenant) = old else { return Ok(0) };
    let mut last = connection.prepare_cached(LAST)?;
    let last: Option<(i64, [u8; 32])> = last
        .query_row(params![tenant, before.0, limit as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((seq, hash)) = last else { return Ok(0) };
    connection.prepare_cached(RAISE)?.execute(params![tenant, seq, hash])?;
    let mut gone = 0;
    for sql in CUT {
        gone = connection.prepare_cached(sql)?.execute(params![tenant, seq])?;
    }
    Ok(gone as u64)
}

#[async_trait]
impl<H: Host> Audit for H {
    async fn unsealed_tenants(&self, limit: usize) -> Result<Vec<TenantId>> {
        self.read(move |read| read.many(TENANTS, params![limit as i64], |row| tenant(row, 0))).await
    }

    async fn unsealed(&self, of: &TenantId, limit: usize) -> Result<Vec<AuditRow>> {
        let of = of.clone();
        self.read(move |read| read.many(UNSEALED, params![of.as_str(), limit as i64], entry)).await
    }

    async fn tail(&self, of: &TenantId) -> Result<Tail> {
        let of = of.clone();
        self.read(move |read| read.audit_tail(&of)).await
    }

    async fn seal(&self, of: &TenantId, seal: &Seal) -> Result<bool> {
        let (of, seal) = (of.clone(), seal.clone());
        self.write(move |core| core.seal_audit(&of, &seal)).await
    }

    async fn entries(&self, of: &TenantId, conditions: &[Condition], page: &Page) -> Result<Vec<AuditView>> {
        let (of, conditions, page) = (of.clone(), conditions.to_vec(), page.clone());
        self.read(move |read| {
            let mut query = Query::new(VIEW, &of);
            query.meets(Subject::Audit, &conditions);
            query.page("id", &page);
            read.many(&query.sql, &query.values(), view)
        })
        .await
    }

    async fn sealed(&self, of: &TenantId, from: u64, limit: usize) -> Result<Vec<AuditView>> {
        let of = of.clone();
        let sql = format!("{VIEW} AND chain_seq IS NOT NULL AND chain_seq >= ?2 ORDER BY chain_seq LIMIT ?3");
        let work =
            move |read: Read<'_>| read.many(&sql, params![of.as_str(), place(from), limit as i64], view);
        self.read(work).await
    }

    async fn checkpoints(&self, of: &TenantId, from: u64, to: u64) -> Result<Vec<Checkpoint>> {
        let of = of.clone();
        let work = move |read: Read<'_>| {
            read.many(CHECKPOINTS, params![of.as_str(), place(from), place(to)], checkpoint)
        };
        self.read(work).await
    }

    async fn cut(&self, before: Time, limit: usize) -> Result<u64> {
        self.write(move |core| core.cut_audit(before, limit)).await
    }
}

fn place(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
