//! The audit trail: entries are inserted by commits, take their places once, and go only from the front.

use super::{
    base::{Postgres, begin, of},
    error::{error, is_rivalry, rejection},
    list::{Query, clauses},
    read::{tenant, time as time_at},
    session::{Scope, Session},
    value::{Column, Value, bytes, get, id, int, maybe_text, text, time},
};
use crate::{audit::Audit, port::Result, rows::*, views::Page};
use async_trait::async_trait;
use machine::{
    TenantId, Time,
    audit::{BEGINNING, export::Checkpoint},
    query::{Condition, Subject},
};
use tokio_postgres::{Error as PgError, Row};

const VIEW: &str = "SELECT id, body, chain_seq, prev, hash FROM audit_entries WHERE tenant = $1";
const TENANTS: &str = "SELECT DISTINCT tenant FROM audit_entries WHERE chain_seq IS NULL LIMIT $1";
const UNSEALED: &str =
    "SELECT id, at, act, key_id, subject, object_kind, object_id, body, content_hash FROM audit_entries
    WHERE tenant = $1 AND chain_seq IS NULL ORDER BY at, id LIMIT $2";
const TAIL: &str = "SELECT chain_seq, hash FROM (
        (SELECT 1 AS first, chain_seq, hash FROM audit_entries WHERE tenant = $1 AND chain_seq IS NOT NULL
            ORDER BY chain_seq DESC LIMIT 1)
        UNION ALL (SELECT 2, chain_seq, hash FROM audit_anchors WHERE tenant = $1)) AS ends
    ORDER BY first LIMIT 1";
const NEWEST: &str = "SELECT chain_seq, hash, at, key, signature FROM audit_checkpoints WHERE tenant = $1
    ORDER BY chain_seq DESC LIMIT 1";
const CHECKPOINTS: &str = "SELECT chain_seq, hash, at, key, signature FROM audit_checkpoints
    WHERE tenant = $1 AND chain_seq BETWEEN $2 AND $3 ORDER BY chain_seq";
const SEAL: &str = "UPDATE audit_entries e SET chain_seq = r.chain_seq, prev = r.prev, hash = r.hash
    FROM unnest($2, $3, $4, $5) AS r(id, chain_seq, prev, hash)
    WHERE e.tenant = $1 AND e.id = r.id AND e.chain_seq IS NULL RETURNING 1";
const CHECKPOINT: &str = "INSERT INTO audit_checkpoints (tenant, chain_seq, hash, at, key, signature)
    VALUES ($1, $2, $3, $4, $5, $6)";
/// A tenant whose first entry is old enough.
const OLD: &str = "SELECT t.tenant FROM tenants t CROSS JOIN LATERAL (SELECT at FROM audit_entries e
        WHERE e.tenant = t.tenant AND e.chain_seq IS NOT NULL ORDER BY e.chain_seq LIMIT 1) AS first
    WHERE first.at < $1 LIMIT 1";
/// The last of at most $3 entries from the front on that are all older than $2.
const LAST: &str = "SELECT chain_seq, hash FROM (SELECT chain_seq, hash,
        bool_and(at < $2) OVER (ORDER BY chain_seq) AS old FROM (SELECT chain_seq, hash, at FROM audit_entries
            WHERE tenant = $1 AND chain_seq IS NOT NULL ORDER BY chain_seq LIMIT $3) AS front) AS marked
    WHERE old ORDER BY chain_seq DESC LIMIT 1";
const RAISE: &str = "INSERT INTO audit_anchors (tenant, chain_seq, hash) VALUES ($1, $2, $3)
    ON CONFLICT (tenant) DO UPDATE SET chain_seq = excluded.chain_seq, hash = excluded.hash";
const CUT: [&str; 2] = [
    "DELETE FROM audit_checkpoints WHERE tenant = $1 AND chain_seq <= $2 RETURNING 1",
    "DELETE FROM audit_entries WHERE tenant = $1 AND chain_seq <= $2 RETURNING 1",
];
/// Before a tenant goes with all it has.
pub(super) const LET_GO: &str = "INSERT INTO audit_anchors (tenant, chain_seq, hash)
    SELECT $1, 9223372036854775807, decode(repeat('00', 32), 'hex')
    WHERE EXISTS (SELECT 1 FROM audit_entries WHERE tenant = $1)
    ON CONFLICT (tenant) DO UPDATE SET chain_seq = excluded.chain_seq";

/// The values of a row of the statement that inserts entries.
pub(super) fn values<'a>(of: &'a str, row: &'a AuditRow) -> Vec<Value<'a>> {
    vec![
        text(of),
        id(row.id),
        time(row.at),
        text(&row.act),
        maybe_text(row.key_id.as_deref()),
        maybe_text(row.subject.as_deref()),
        text(&row.object_kind),
        text(&row.object_id),
        bytes(&row.body),
        bytes(&row.content_hash),
    ]
}

type Read<T> = std::result::Result<T, PgError>;

fn entry(row: &Row) -> Read<AuditRow> {
    Ok(AuditRow {
        id: get(row, 0)?,
        at: time_at(row, 1)?,
        act: get(row, 2)?,
        key_id: get(row, 3)?,
        subject: get(row, 4)?,
        object_kind: get(row, 5)?,
        object_id: get(row, 6)?,
        body: get(row, 7)?,
        content_hash: fixed(row, 8)?,
    })
}

/// Bytes whose number the table checks.
fn fixed<const N: usize>(row: &Row, at: usize) -> Read<[u8; N]> {
    let stored: Vec<u8> = get(row, at)?;
    Ok(stored.try_into().unwrap_or([0; N]))
}

fn view(row: &Row) -> Read<AuditView> {
    let id = get(row, 0)?;
    let seal = match get::<Option<i64>>(row, 2)? {
        Some(seq) => {
            Some(SealRow { id, seq: seq.unsigned_abs(), prev: fixed(row, 3)?, hash: fixed(row, 4)? })
        }
        None => None,
    };
    Ok(AuditView { id, body: get(row, 1)?, seal })
}

fn checkpoint(row: &Row) -> Read<Checkpoint> {
    Ok(Checkpoint {
        seq: get::<i64>(row, 0)?.unsigned_abs(),
        hash: fixed(row, 1)?,
        at: time_at(row, 2)?,
        key: fixed(row, 3)?,
        signature: fixed(row, 4)?,
    })
}

/// `false` if an entry was not met; then all of it is to be undone.
async fn seal(session: &Session, tenant: &TenantId, seal: &Seal) -> Read<bool> {
    let of = text(tenant.as_str());
    if !seal.rows.is_empty() {
        let columns = [
            Column::Id(seal.rows.iter().map(|row| Some(row.id)).collect()),
            Column::Int(seal.rows.iter().map(|row| Some(row.seq.cast_signed())).collect()),
            Column::Bytes(seal.rows.iter().map(|row| Some(row.prev.as_slice())).collect()),
            Column::Bytes(seal.rows.iter().map(|row| Some(row.hash.as_slice())).collect()),
        ];
        let mut params = vec![of.param()];
        params.extend(columns.iter().map(Column::param));
        session.prepare(SEAL, &params).await?;
        if session.ask(SEAL, params).await?.len() != seal.rows.len() {
            return Ok(false);
        }
    }
    if let Some(one) = &seal.checkpoint {
        let (seq, at) = (int(one.seq.cast_signed()), time(one.at));
        let values = [of, seq, bytes(&one.hash), at, bytes(&one.key), bytes(&one.signature)];
        session.query(CHECKPOINT, &values).await?;
    }
    Ok(true)
}

async fn cut(session: &Session, before: Time, limit: usize) -> Read<u64> {
    let old = session.query(OLD, &[time(before)]).await?;
    let Some(tenant) = old.first().map(|row| get::<String>(row, 0)).transpose()? else { return Ok(0) };
    let values = [text(&tenant), time(before), int(limit as i64)];
    let last = session.query(LAST, &values).await?;
    let Some(last) = last.first() else { return Ok(0) };
    let (seq, hash): (i64, Vec<u8>) = (get(last, 0)?, get(last, 1)?);
    session.query(RAISE, &[text(&tenant), int(seq), bytes(&hash)]).await?;
    let mut gone = 0;
    for sql in CUT {
        gone = session.query(sql, &[text(&tenant), int(seq)]).await?.len();
    }
    Ok(gone as u64)
}

#[async_trait]
impl Audit for Postgres {
    async fn unsealed_tenants(&self, limit: usize) -> Result<Vec<TenantId>> {
        self.many(Scope::All, TENANTS, &[int(limit as i64)], |row| tenant(row, 0)).await
    }

    async fn unsealed(&self, tenant: &TenantId, limit: usize) -> Result<Vec<AuditRow>> {
        let values = [text(tenant.as_str()), int(limit as i64)];
        self.many(of(tenant), UNSEALED, &values, entry).await
    }

    async fn tail(&self, tenant: &TenantId) -> Result<Tail> {
        let values = [text(tenant.as_str())];
        let place = |row: &Row| Ok((get::<i64>(row, 0)?.unsigned_abs(), fixed(row, 1)?));
        let last = self.one(of(tenant), TAIL, &values, place).await?;
        let (seq, hash) = last.unwrap_or((0, BEGINNING));
        Ok(Tail { seq, hash, checkpoint: self.one(of(tenant), NEWEST, &values, checkpoint).await? })
    }

    async fn seal(&self, tenant: &TenantId, with: &Seal) -> Result<bool> {
        let session = self.writers.take().await?;
        session.command(&begin(of(tenant), "")).await.map_err(error)?;
        let sealed = match seal(&session, tenant, with).await {
            Ok(sealed) => sealed,
            // Two of them follow the same entry, or have the same place; or both want the same entries.
            Err(err) if rejection(&err).is_some() || is_rivalry(&err) => false,
            Err(err) => return Err(error(err)),
        };
        if sealed {
            return session.land().await.map(|()| true);
        }
        session.command("ROLLBACK").await.map_err(error)?;
        session.done();
        Ok(false)
    }

    async fn entries(
        &self,
        tenant: &TenantId,
        conditions: &[Condition],
        page: &Page,
    ) -> Result<Vec<AuditView>> {
        let clauses = clauses(Subject::Audit, conditions);
        let mut query = Query::new(tenant);
        query.begin(VIEW);
        query.meets(&clauses);
        query.page("id", page);
        self.many_once(of(tenant), &query.sql, &query.values, view).await
    }

    async fn sealed(&self, tenant: &TenantId, from: u64, limit: usize) -> Result<Vec<AuditView>> {
        let sql = format!("{VIEW} AND chain_seq IS NOT NULL AND chain_seq >= $2 ORDER BY chain_seq LIMIT $3");
        let values = [text(tenant.as_str()), int(place(from)), int(limit as i64)];
        self.many(of(tenant), &sql, &values, view).await
    }

    async fn checkpoints(&self, tenant: &TenantId, from: u64, to: u64) -> Result<Vec<Checkpoint>> {
        let values = [text(tenant.as_str()), int(place(from)), int(place(to))];
        self.many(of(tenant), CHECKPOINTS, &values, checkpoint).await
    }

    async fn cut(&self, before: Time, limit: usize) -> Result<u64> {
        let session = self.writers.take().await?;
        session.command(&begin(Scope::All, "")).await.map_err(error)?;
        let gone = cut(&session, before, limit.max(1)).await.map_err(error)?;
        session.command("COMMIT").await.map_err(error)?;
        session.done();
        Ok(gone)
    }
}

fn place(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
