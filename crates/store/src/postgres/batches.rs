//! Batches, their items, and when a node has something to do for one.

use super::{
    base::{Postgres, of},
    list::Query,
    read::{optional_time, tenant, time},
    session::{Scope, Session},
    solo::{self, Ended},
    value::{Value, bytes, get, id, int, maybe_id, maybe_text, maybe_time, text, time as at_time},
};
use crate::{commit::Conflict, port::Result, rows::*, views::*};
use machine::{TenantId, Time};
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

const BATCH: &str = "SELECT id, act, query, arguments, actor, why, status, detail, rate, cursor, selected_at, matched,
    sent, done, failed, skipped, forgiven, due_at, row_version, created_at, updated_at, ended_at, tenant FROM batches";
const OF: &str = " WHERE tenant = $1";
const BY_ID: &str = " WHERE tenant = $1 AND id = $2";
const DUE: &str = " WHERE due_at <= $1 AND NOT EXISTS (SELECT 1 FROM tenants p
    WHERE p.tenant = batches.tenant AND p.status IN ('suspended', 'deleted')) ORDER BY due_at LIMIT $2";
const NEXT: &str = "SELECT due_at FROM batches WHERE due_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tenants p WHERE p.tenant = batches.tenant AND p.status IN ('suspended', 'deleted'))
    ORDER BY due_at LIMIT 1";
const ITEMS: &str = "SELECT item, outcome, detail, at FROM batch_items WHERE tenant = $1 AND batch = $2
    AND item > $3 ORDER BY item LIMIT $4";
const ITEMS_BY_OUTCOME: &str = "SELECT item, outcome, detail, at FROM batch_items
    WHERE tenant = $1 AND batch = $2 AND outcome = $5 AND item > $3 ORDER BY item LIMIT $4";
const CREATE: &str = "INSERT INTO batches (tenant, id, act, query, arguments, actor, why, status, detail, rate, cursor,
    selected_at, matched, forgiven, due_at, row_version, created_at, updated_at, ended_at, sent, done, failed, skipped)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, 0, 0, 0, 0)
    ON CONFLICT DO NOTHING RETURNING 1";
const UPDATE: &str = "UPDATE batches SET row_version = $4, status = $5, detail = $6, rate = $7, cursor = $8,
    selected_at = $9, matched = $10, forgiven = $11, due_at = $12, updated_at = $13, ended_at = $14
    WHERE tenant = $1 AND id = $2 AND row_version = $3 RETURNING 1";
const SELECT: &str = "INSERT INTO batch_items (tenant, batch, item, outcome)
    SELECT $1, $2, item, 'waiting' FROM unnest($3) AS r(item) ON CONFLICT DO NOTHING";

impl Postgres {
    pub(super) async fn batch_by_id(&self, tenant: &TenantId, batch_id: Uuid) -> Result<Option<BatchRow>> {
        let values = [text(tenant.as_str()), id(batch_id)];
        self.one(of(tenant), &format!("{BATCH}{BY_ID}"), &values, batch).await
    }

    pub(super) async fn list_batches(
        &self,
        tenant: &TenantId,
        filter: &BatchFilter,
        page: &Page,
    ) -> Result<Vec<BatchRow>> {
        let mut query = Query::new(tenant);
        query.begin(&format!("{BATCH}{OF}"));
        query.equals("status", filter.status.as_deref());
        query.equals("act", filter.act.as_deref());
        query.page("id", page);
        self.many(of(tenant), &query.sql, &query.values, batch).await
    }

    pub(super) async fn list_batch_items(
        &self,
        tenant: &TenantId,
        ask: &ItemAsk,
    ) -> Result<Vec<BatchItemRow>> {
        let limit = int(ask.limit.clamp(1, PAGE_MAX) as i64);
        let mut values = vec![text(tenant.as_str()), id(ask.batch), id(ask.after.unwrap_or_default()), limit];
        let sql = match ask.outcome {
            None => ITEMS,
            Some(outcome) => {
                values.push(text(outcome.word()));
                ITEMS_BY_OUTCOME
            }
        };
        self.many(of(tenant), sql, &values, item).await
    }

    pub(super) async fn list_due_batches(&self, now: Time, limit: usize) -> Result<Vec<Claimed<BatchRow>>> {
        let values = [at_time(now), int(limit.min(PAGE_MAX) as i64)];
        let map = |row: &Row| Ok(Claimed { tenant: tenant(row, 22)?, row: batch(row)? });
        self.many(Scope::All, &format!("{BATCH}{DUE}"), &values, map).await
    }

    pub(super) async fn next_due_batch(&self) -> Result<Option<Time>> {
        Ok(self.one(Scope::All, NEXT, &[], |row| optional_time(row, 0)).await?.flatten())
    }
}

fn batch(row: &Row) -> std::result::Result<BatchRow, PgError> {
    let count = |at: usize| get::<i64>(row, at).map(i64::unsigned_abs);
    Ok(BatchRow {
        id: get(row, 0)?,
        act: get(row, 1)?,
        query: get(row, 2)?,
        arguments: get(row, 3)?,
        actor: get(row, 4)?,
        why: get(row, 5)?,
        status: get(row, 6)?,
        detail: get(row, 7)?,
        rate: u32::try_from(get::<i64>(row, 8)?).unwrap_or(u32::MAX),
        cursor: get(row, 9)?,
        selected_at: optional_time(row, 10)?,
        matched: count(11)?,
        counts: BatchCounts { sent: count(12)?, done: count(13)?, failed: count(14)?, skipped: count(15)? },
        forgiven: count(16)?,
        due_at: optional_time(row, 17)?,
        row_version: get(row, 18)?,
        created_at: time(row, 19)?,
        updated_at: time(row, 20)?,
        ended_at: optional_time(row, 21)?,
    })
}

fn item(row: &Row) -> std::result::Result<BatchItemRow, PgError> {
    let outcome: String = get(row, 1)?;
    Ok(BatchItemRow {
        item: get(row, 0)?,
        outcome: ItemOutcome::by_word(&outcome).unwrap_or(ItemOutcome::Waiting),
        detail: get(row, 2)?,
        at: optional_time(row, 3)?,
    })
}

/// Inserts the batch, or replaces all of it but its counts.
pub(super) async fn put(to: &Session, tenant: &str, row: &BatchRow, expected_version: i64) -> Ended {
    let count = |count: u64| int(count.cast_signed());
    if expected_version > 0 {
        let values = [
            text(tenant),
            id(row.id),
            int(expected_version),
            int(row.row_version),
            text(&row.status),
            maybe_text(row.detail.as_deref()),
            int(row.rate.into()),
            maybe_id(row.cursor),
            maybe_time(row.selected_at),
            count(row.matched),
            count(row.forgiven),
            maybe_time(row.due_at),
            at_time(row.updated_at),
            maybe_time(row.ended_at),
        ];
        return solo::guard(to, UPDATE, &values, Conflict::Version).await;
    }
    let values = [
        text(tenant),
        id(row.id),
        text(&row.act),
        text(&row.query),
        bytes(&row.arguments),
        text(&row.actor),
        maybe_text(row.why.as_deref()),
        text(&row.status),
        maybe_text(row.detail.as_deref()),
        int(row.rate.into()),
        maybe_id(row.cursor),
        maybe_time(row.selected_at),
        count(row.matched),
        count(row.forgiven),
        maybe_time(row.due_at),
        int(row.row_version),
        at_time(row.created_at),
        at_time(row.updated_at),
        maybe_time(row.ended_at),
    ];
    solo::guard(to, CREATE, &values, Conflict::Version).await
}

/// Inserts items that wait for their turn.
pub(super) async fn select(to: &Session, tenant: &str, batch: Uuid, items: &[Uuid]) -> Ended {
    solo::plain(to, SELECT, &[text(tenant), id(batch), Value::Ids(items)]).await
}

/// An item's outcome as it is written.
pub(super) fn settlement<'a>(tenant: &'a str, of: &'a Settlement) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(of.batch),
        id(of.item),
        text(of.from.word()),
        text(of.to.word()),
        maybe_text(of.detail.as_deref()),
        at_time(of.at),
    ]
}

/// What an item's outcome adds to the counts.
pub(super) fn counted<'a>(tenant: &'a str, of: &Settlement) -> Vec<Value<'a>> {
    let mut values = vec![text(tenant), id(of.batch)];
    values.extend(of.added().map(int));
    values
}
