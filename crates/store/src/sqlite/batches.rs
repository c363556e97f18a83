//! Batches, their items, and when a node has something to do for one.

use super::{
    list::Query,
    read::{Read, id, optional_id, optional_time, tenant, time},
    record_write,
    statement::{Prepared, Statement as S},
    write::{blob, guard, plain},
};
use crate::{
    commit::{Conflict, Write},
    port::Result,
    rows::*,
    views::*,
};
use machine::{TenantId, Time};
use rusqlite::{Row, params};
use uuid::Uuid;

const BATCH: &str = "SELECT id, act, query, arguments, actor, why, status, detail, rate, cursor, selected_at, matched,
    sent, done, failed, skipped, forgiven, due_at, row_version, created_at, updated_at, ended_at, tenant FROM batches";
const OF: &str = " WHERE tenant = ?1";
const BY_ID: &str = " WHERE tenant = ?1 AND id = ?2";
const DUE: &str = " WHERE due_at <= ?1 AND NOT EXISTS (SELECT 1 FROM tenants p
    WHERE p.tenant = batches.tenant AND p.status IN ('suspended', 'deleted')) ORDER BY due_at LIMIT ?2";
pub(super) const NEXT: &str = "SELECT due_at FROM batches WHERE due_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tenants p WHERE p.tenant = batches.tenant AND p.status IN ('suspended', 'deleted'))
    ORDER BY due_at LIMIT 1";
const ITEMS: &str = "SELECT item, outcome, detail, at FROM batch_items WHERE tenant = ?1 AND batch = ?2
    AND item > ?3 ORDER BY item LIMIT ?4";
pub(super) const ITEMS_BY_OUTCOME: &str = "SELECT item, outcome, detail, at FROM batch_items
    WHERE tenant = ?1 AND batch = ?2 AND outcome = ?5 AND item > ?3 ORDER BY item LIMIT ?4";

impl Read<'_> {
    pub fn batch(&self, tenant: &TenantId, id: Uuid) -> Result<Option<BatchRow>> {
        self.one(&format!("{BATCH}{BY_ID}"), params![tenant.as_str(), id.as_bytes()], batch)
    }

    /// Newest first.
    pub fn batches(&self, tenant: &TenantId, filter: &BatchFilter, page: &Page) -> Result<Vec<BatchRow>> {
        let mut query = Query::new(&format!("{BATCH}{OF}"), tenant);
        query.equals("status", filter.status.as_deref());
        query.equals("act", filter.act.as_deref());
        query.page("id", page);
        self.many(&query.sql, &query.values(), batch)
    }

    /// By their ids.
    pub fn batch_items(&self, tenant: &TenantId, ask: &ItemAsk) -> Result<Vec<BatchItemRow>> {
        let ItemAsk { batch, outcome, after, limit } = ask;
        let after = after.unwrap_or_default();
        let limit = (*limit).clamp(1, PAGE_MAX) as i64;
        let tenant = tenant.as_str();
        match outcome {
            None => self.many(ITEMS, params![tenant, batch.as_bytes(), after.as_bytes(), limit], item),
            Some(outcome) => {
                let values = params![tenant, batch.as_bytes(), after.as_bytes(), limit, outcome.word()];
                self.many(ITEMS_BY_OUTCOME, values, item)
            }
        }
    }

    /// Over all tenants, earliest first.
    pub fn due_batches(&self, now: Time, limit: usize) -> Result<Vec<Claimed<BatchRow>>> {
        self.many(&format!("{BATCH}{DUE}"), params![now.0, limit.min(PAGE_MAX) as i64], |row| {
            Ok(Claimed { tenant: tenant(row, 22)?, row: batch(row)? })
        })
    }

    pub fn next_batch_due(&self) -> Result<Option<Time>> {
        Ok(self.one(NEXT, &[], |row| optional_time(row, 0))?.flatten())
    }
}

fn batch(row: &Row<'_>) -> rusqlite::Result<BatchRow> {
    let count = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
    Ok(BatchRow {
        id: id(row, 0)?,
        act: row.get(1)?,
        query: row.get(2)?,
        arguments: row.get(3)?,
        actor: row.get(4)?,
        why: row.get(5)?,
        status: row.get(6)?,
        detail: row.get(7)?,
        rate: row.get(8)?,
        cursor: optional_id(row, 9)?,
        selected_at: optional_time(row, 10)?,
        matched: count(11)?,
        counts: BatchCounts { sent: count(12)?, done: count(13)?, failed: count(14)?, skipped: count(15)? },
        forgiven: count(16)?,
        due_at: optional_time(row, 17)?,
        row_version: row.get(18)?,
        created_at: time(row, 19)?,
        updated_at: time(row, 20)?,
        ended_at: optional_time(row, 21)?,
    })
}

fn item(row: &Row<'_>) -> rusqlite::Result<BatchItemRow> {
    let outcome: String = row.get(1)?;
    Ok(BatchItemRow {
        item: id(row, 0)?,
        outcome: ItemOutcome::by_word(&outcome).unwrap_or(ItemOutcome::Waiting),
        detail: row.get(2)?,
        at: optional_time(row, 3)?,
    })
}

/// The writes of batches and records, which come last of all.
pub(super) fn write(
    to: &mut Prepared<'_>,
    tenant: &str,
    write: &Write,
) -> rusqlite::Result<Option<Conflict>> {
    match write {
        Write::PutBatch { row, expected_version } => put(to, tenant, row, *expected_version),
        Write::BatchItems { batch, items } => select(to, tenant, *batch, items),
        Write::SettleItem(settlement) => settle(to, tenant, settlement),
        Write::Record(write) => record_write::write(to, tenant, write),
        _ => unreachable!("others take every other write"),
    }
}

/// Inserts the batch, or replaces all of it but its counts.
fn put(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &BatchRow,
    expected_version: i64,
) -> rusqlite::Result<Option<Conflict>> {
    let micros = |time: Option<Time>| time.map(|time| time.0);
    if expected_version > 0 {
        let values = params![
            tenant,
            row.id.as_bytes(),
            expected_version,
            row.row_version,
            row.status,
            row.detail,
            row.rate,
            blob(&row.cursor),
            micros(row.selected_at),
            row.matched.cast_signed(),
            row.forgiven.cast_signed(),
            micros(row.due_at),
            row.updated_at.0,
            micros(row.ended_at),
        ];
        return guard(to, S::UpdateBatch, values, Conflict::Version);
    }
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.act,
        row.query,
        row.arguments,
        row.actor,
        row.why,
        row.status,
        row.detail,
        row.rate,
        blob(&row.cursor),
        micros(row.selected_at),
        row.matched.cast_signed(),
        row.forgiven.cast_signed(),
        micros(row.due_at),
        row.row_version,
        row.created_at.0,
        row.updated_at.0,
        micros(row.ended_at),
    ];
    guard(to, S::CreateBatch, values, Conflict::Version)
}

/// Inserts items that wait for their turn.
fn select(
    to: &mut Prepared<'_>,
    tenant: &str,
    batch: Uuid,
    items: &[Uuid],
) -> rusqlite::Result<Option<Conflict>> {
    for item in items {
        plain(to, S::BatchItem, params![tenant, batch.as_bytes(), item.as_bytes()])?;
    }
    Ok(None)
}

/// Gives an item its outcome and counts it.
fn settle(to: &mut Prepared<'_>, tenant: &str, of: &Settlement) -> rusqlite::Result<Option<Conflict>> {
    let (batch, item) = (of.batch.as_bytes(), of.item.as_bytes());
    let values = params![tenant, batch, item, of.from.word(), of.to.word(), of.detail, of.at.0];
    let lost = guard(to, S::SettleItem, values, Conflict::Gone)?;
    if lost.is_some() {
        return Ok(lost);
    }
    let [sent, done, failed, skipped] = of.added();
    plain(to, S::CountItem, params![tenant, batch, sent, done, failed, skipped])
}
