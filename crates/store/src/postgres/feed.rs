//! The feed of events on a database with many writers.
//!
//! Every event carries the id of the transaction that wrote it. A transaction that is still open is not older than the
//! horizon of a snapshot, so all that is below the horizon has been committed or undone for good, and all that commits
//! later is above it: a cursor below the horizon never has anything to come back for.

use super::{
    base::{Postgres, begin, of},
    error::error,
    list::{self, EVENT_COLUMNS},
    session::Scope,
    value::{get, id, int, text},
};
use crate::{
    feed::*,
    port::{Error, Result},
    views::PAGE_MAX,
};
use machine::{TenantId, time::Span};
use tokio_postgres::{Error as PgError, Row};

/// The functions look at the snapshot that the statement itself reads by. The condition that always holds is the index's.
const AFTER: &str = " AND e.xid >= '0' AND (e.xid, e.seq, e.id) > ($2::xid8, $3, $4)
    AND e.xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.xid, e.seq, e.id LIMIT $5";
/// A page is read along the index, however much follows it.
const ALONG_THE_INDEX: &str = ", set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), \
     set_config('enable_sort', 'off', true)";
/// Whether the transaction has begun here at all.
const BEGUN: &str = "SELECT $1::xid8 < pg_snapshot_xmax(pg_current_snapshot())";
/// How far back the horizon is, and since when; what else is held, and what commits rest on.
const HORIZON: &str = include_str!("horizon.sql");

impl Postgres {
    pub(super) async fn read_feed(
        &self,
        tenant: &TenantId,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Option<Vec<FeedItem>>> {
        let commit = after.commit.to_string();
        let (place, rows) = (after.place.cast_signed(), limit.clamp(1, PAGE_MAX) as i64);
        let values = [text(tenant.as_str()), text(&commit), int(place), id(after.event), int(rows)];
        let sql =
            format!("SELECT {EVENT_COLUMNS}, e.xid::text, e.seq FROM events e WHERE e.tenant = $1{AFTER}");
        let rows = self.rows_after(&begin(of(tenant), ALONG_THE_INDEX), &sql, &values).await?;
        let items: Vec<FeedItem> = rows.iter().map(|row| item(row).map_err(error)).collect::<Result<_>>()?;
        if !items.is_empty() || after == FeedCursor::default() {
            return Ok(Some(items));
        }
        // Nothing follows: the end, or a cursor of a time that this database does not know.
        let begun = self.one(Scope::All, BEGUN, &[text(&commit)], |row| get(row, 0)).await?;
        Ok(begun.unwrap_or(false).then_some(items))
    }

    pub(super) async fn read_horizon(&self) -> Result<Horizon> {
        let horizon = self.one(Scope::All, HORIZON, &[], horizon).await?;
        horizon.ok_or_else(|| Error::Unavailable("the database does not know its transactions".into()))
    }
}

fn item(row: &Row) -> std::result::Result<FeedItem, PgError> {
    let commit: String = get(row, 16)?;
    let place: i64 = get(row, 17)?;
    let row = list::event(row)?;
    let commit = commit.parse().unwrap_or(u64::MAX);
    Ok(FeedItem { cursor: FeedCursor { commit, place: place.cast_unsigned(), event: row.id }, row })
}

fn horizon(row: &Row) -> std::result::Result<Horizon, PgError> {
    let transactions = get::<i64>(row, 0)?.unsigned_abs();
    let open_for: Option<i64> = get(row, 1)?;
    let held_for: Option<i64> = get(row, 3)?;
    Ok(Horizon {
        transactions,
        open_for: if transactions == 0 { Some(Span(0)) } else { open_for.map(Span) },
        snapshot: Held {
            transactions: get::<i64>(row, 2)?.unsigned_abs(),
            held_for: held_for.map(|micros| Span(micros.max(0))),
        },
        is_durable: get(row, 4)?,
        is_synchronous: get(row, 5)?,
    })
}
