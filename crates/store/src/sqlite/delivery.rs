//! Deliveries and the workers they are for.

use super::{
    core::Core,
    error::error,
    list::Query,
    node, queue,
    read::{Read, id, tenant, time},
    statement::{Prepared, Statement as S},
    write::{blob, guard, plain},
};
use crate::{
    commit::Conflict,
    port::Result,
    rows::*,
    share::{self, Waiting},
    views::{DeliveryFilter, PAGE_MAX},
};
use machine::{TenantId, Time, query::Subject};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

/// The most rows one claim returns.
const CLAIM_MAX: usize = 1_000;

/// Tenants with something for a worker in the backlog, the time of the oldest and their weight, one step along the index
/// each.
pub(super) const WAITING: &str = "WITH RECURSIVE backlog(tenant) AS (
        SELECT min(tenant) FROM deliveries WHERE owner IS NULL AND worker = ?1
        UNION ALL SELECT (SELECT min(tenant) FROM deliveries
            WHERE owner IS NULL AND worker = ?1 AND tenant > backlog.tenant)
        FROM backlog WHERE backlog.tenant IS NOT NULL)
    SELECT tenant, max((SELECT min(visible_at) FROM deliveries
            WHERE owner IS NULL AND worker = ?1 AND tenant = backlog.tenant),
            coalesce((SELECT next_at FROM worker_turns t WHERE t.tenant = backlog.tenant AND t.worker = ?1), 0)),
        coalesce((SELECT weight FROM tenants t WHERE t.tenant = backlog.tenant), 1)
    FROM backlog WHERE tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants p
        WHERE p.tenant = backlog.tenant AND p.status IN ('suspended', 'deleted'))";
const IS_PARKED: &str =
    "SELECT EXISTS (SELECT 1 FROM tenants WHERE tenant = ?1 AND status IN ('suspended', 'deleted'))";

macro_rules! columns {
    () => {
        "SELECT tenant, id, worker, order_key, created_at, visible_at, attempt, events, last_error, taken_over,
        trace_id, correlation_id
        FROM deliveries d"
    };
}

/// The oldest of a worker and tenant that are due; of one order key only the one before which there is none.
pub(super) const DUE: &str = concat!(
    columns!(),
    " WHERE owner IS NULL AND worker = ?1 AND tenant = ?2 AND visible_at <= ?3
        AND (order_key IS NULL OR NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.tenant = d.tenant
            AND e.worker = d.worker AND e.order_key = d.order_key AND e.seq < d.seq))
    ORDER BY visible_at, seq LIMIT ?4"
);
const ONE: &str = concat!(columns!(), " WHERE tenant = ?1 AND id = ?2");
const LIST: &str = concat!(columns!(), " WHERE tenant = ?1");
const DEPTHS: &str =
    "SELECT worker, count(*), min(created_at) FROM deliveries GROUP BY worker ORDER BY worker";
const OWN: &str = "UPDATE deliveries SET owner = ?1, debounce_key = NULL WHERE tenant = ?2 AND id = ?3";
const LEND: &str =
    "UPDATE deliveries SET visible_at = ?3, attempt = attempt + 1, lent = 1, debounce_key = NULL
    WHERE tenant = ?1 AND id = ?2";
pub(super) const LENT: &str =
    "SELECT count(*) FROM deliveries WHERE lent = 1 AND worker = ?1 AND tenant = ?2 AND visible_at > ?3";
pub(super) const NEXT_TURN: &str = "SELECT next_at FROM worker_turns WHERE tenant = ?1 AND worker = ?2";
const TAKE_TURNS: &str = "INSERT INTO worker_turns (tenant, worker, next_at) VALUES (?1, ?2, ?3)
    ON CONFLICT DO UPDATE SET next_at = excluded.next_at";
const WATERMARKS: &str = "SELECT name, value, version, updated_at FROM watermarks
    WHERE tenant = ?1 AND worker = ?2 ORDER BY name";
const WORKERS: &str = "SELECT tenant, name, declaration, row_version, created_at, updated_at FROM workers
    ORDER BY tenant, name";

impl Core {
    pub fn claim_deliveries(&mut self, ask: &DeliveryAsk) -> Result<Vec<Claimed<DeliveryRow>>> {
        self.transaction(|connection| {
            node::member(connection, ask.node)?;
            let mut claimed = due(connection, ask).map_err(error)?;
            let mut own = connection.prepare_cached(OWN).map_err(error)?;
            for one in &mut claimed {
                one.row.owner = Some(ask.node);
                own.execute(params![ask.node.as_bytes(), one.tenant.as_str(), one.row.id.as_bytes()])
                    .map_err(error)?;
            }
            claimed.sort_by_key(|one| one.row.visible_at);
            Ok(claimed)
        })
    }

    pub fn lend(&mut self, tenant: &TenantId, loan: &Loan) -> Result<Vec<DeliveryRow>> {
        self.transaction(|connection| {
            if is_parked(connection, tenant).map_err(error)? {
                return Ok(Vec::new());
            }
            let limit = room(connection, tenant, loan).map_err(error)?;
            let from = Due { worker: &loan.worker, tenant, now: loan.now, pace: loan.pace };
            let mut lent = from.take(connection, limit).map_err(error)?;
            let mut lend = connection.prepare_cached(LEND).map_err(error)?;
            for one in &mut lent {
                lend.execute(params![tenant.as_str(), one.row.id.as_bytes(), loan.until.0]).map_err(error)?;
                one.row.visible_at = loan.until;
                one.row.attempt += 1;
            }
            Ok(lent.into_iter().map(|one| one.row).collect())
        })
    }
}

fn is_parked(connection: &Connection, tenant: &TenantId) -> rusqlite::Result<bool> {
    connection.prepare_cached(IS_PARKED)?.query_row([tenant.as_str()], |row| row.get(0))
}

fn due(connection: &Connection, ask: &DeliveryAsk) -> rusqlite::Result<Vec<Claimed<DeliveryRow>>> {
    let mut left = ask.limit.min(CLAIM_MAX);
    let mut waiting = Vec::new();
    for worker in &ask.workers {
        let of_worker = waiting_for(connection, worker)?.into_iter();
        let wanted = of_worker.filter(|one| ask.has_room(&one.tenant, worker));
        waiting.extend(wanted.map(|one| (worker.as_str(), one)));
    }
    let mut claimed = Vec::new();
    for (worker, tenant, share) in share::of_workers(waiting, ask.now, left, &ask.full) {
        let from = Due { worker, tenant: &tenant, now: ask.now, pace: ask.pace };
        let rows = from.take(connection, left.min(share))?;
        left -= rows.len();
        claimed.extend(rows);
    }
    Ok(claimed)
}

fn waiting_for(connection: &Connection, worker: &str) -> rusqlite::Result<Vec<Waiting>> {
    let mut statement = connection.prepare_cached(WAITING)?;
    let rows = statement.query_map([worker], |row| {
        Ok(Waiting { tenant: tenant(row, 0)?, oldest: time(row, 1)?, weight: row.get(2)? })
    })?;
    rows.collect()
}

/// How many more may be lent.
fn room(connection: &Connection, tenant: &TenantId, loan: &Loan) -> rusqlite::Result<usize> {
    let limit = loan.limit.min(CLAIM_MAX);
    let Some(max) = loan.lent_max else { return Ok(limit) };
    let values = params![loan.worker, tenant.as_str(), loan.now.0];
    let lent: i64 = connection.prepare_cached(LENT)?.query_row(values, |row| row.get(0))?;
    Ok(limit.min(max.saturating_sub(lent.unsigned_abs() as usize)))
}

/// What one tenant has due for one worker.
struct Due<'a> {
    worker: &'a str,
    tenant: &'a TenantId,
    now: Time,
    pace: Option<Pace>,
}

impl Due<'_> {
    /// The oldest, at most `limit` and as many as the pace allows, whose turns are taken with them.
    fn take(&self, connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Claimed<DeliveryRow>>> {
        let Some(pace) = self.pace else { return self.rows(connection, limit) };
        let names = params![self.tenant.as_str(), self.worker];
        let next_at =
            connection.prepare_cached(NEXT_TURN)?.query_row(names, |row| time(row, 0)).optional()?;
        let rows = self.rows(connection, limit.min(pace.allowed(next_at, self.now)))?;
        if !rows.is_empty() {
            let next_at = pace.next(next_at, self.now, rows.len());
            let values = params![self.tenant.as_str(), self.worker, next_at.0];
            connection.prepare_cached(TAKE_TURNS)?.execute(values)?;
        }
        Ok(rows)
    }

    fn rows(&self, connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Claimed<DeliveryRow>>> {
        let mut statement = connection.prepare_cached(DUE)?;
        let values = params![self.worker, self.tenant.as_str(), self.now.0, limit as i64];
        statement.query_map(values, delivery)?.collect()
    }
}

impl Read<'_> {
    /// When the first unowned delivery of one of these workers becomes due.
    pub fn next_delivery(&self, workers: &[String]) -> Result<Option<Time>> {
        let mut next = None;
        for worker in workers {
            let waiting = waiting_for(self.connection(), worker).map_err(error)?;
            next = waiting.into_iter().map(|one| one.oldest).chain(next).min();
        }
        Ok(next)
    }

    /// When the first of each of these workers became due, or will be.
    pub fn oldest(&self, workers: Vec<String>) -> Result<Vec<(String, Time)>> {
        let mut all = Vec::new();
        for worker in workers {
            let waiting = waiting_for(self.connection(), &worker).map_err(error)?;
            all.extend(waiting.into_iter().map(|one| one.oldest).min().map(|oldest| (worker, oldest)));
        }
        Ok(all)
    }

    /// What waits for each of these workers.
    pub fn depths(&self, workers: &[String]) -> Result<Vec<Depth>> {
        let all = self.many(DEPTHS, &[], |row| {
            let rows = row.get::<_, i64>(1)?.unsigned_abs();
            Ok(Depth { worker: row.get(0)?, rows, oldest: time(row, 2)? })
        })?;
        Ok(all.into_iter().filter(|depth| workers.contains(&depth.worker)).collect())
    }

    pub fn delivery(&self, tenant: &TenantId, id: Uuid) -> Result<Option<DeliveryRow>> {
        let found = self.one(ONE, params![tenant.as_str(), id.as_bytes()], delivery)?;
        Ok(found.map(|one| one.row))
    }

    pub fn deliveries(
        &self,
        tenant: &TenantId,
        filter: &DeliveryFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        let mut query = Query::new(LIST, tenant);
        query.equals("worker", filter.worker.as_deref());
        query.meets(Subject::Deliveries, &filter.conditions);
        query.after_delivery(after, limit.clamp(1, PAGE_MAX));
        let rows = self.many(&query.sql, &query.values(), delivery)?;
        Ok(rows.into_iter().map(|one| one.row).collect())
    }

    /// How far a worker has come.
    pub fn watermarks(&self, tenant: &TenantId, worker: &str) -> Result<Vec<WatermarkRow>> {
        self.many(WATERMARKS, params![tenant.as_str(), worker], |row| {
            Ok(WatermarkRow {
                name: row.get(0)?,
                value: row.get(1)?,
                version: row.get(2)?,
                updated_at: time(row, 3)?,
            })
        })
    }

    /// Workers of all tenants.
    pub fn workers(&self) -> Result<Vec<Claimed<WorkerRow>>> {
        self.many(WORKERS, &[], |row| {
            Ok(Claimed {
                tenant: tenant(row, 0)?,
                row: WorkerRow {
                    name: row.get(1)?,
                    declaration: row.get(2)?,
                    row_version: row.get(3)?,
                    created_at: time(row, 4)?,
                    updated_at: time(row, 5)?,
                },
            })
        })
    }
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<Claimed<DeliveryRow>> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: DeliveryRow {
            id: id(row, 1)?,
            worker: row.get(2)?,
            order_key: row.get(3)?,
            created_at: time(row, 4)?,
            visible_at: time(row, 5)?,
            attempt: row.get(6)?,
            events: EventIds::new(row.get(7)?),
            last_error: row.get(8)?,
            owner: None,
            taken_over: row.get(9)?,
            traced: Traced { trace_id: row.get(10)?, correlation_id: row.get(11)? },
        },
    })
}

pub(super) fn insert(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &DeliveryRow,
) -> rusqlite::Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.worker,
        row.order_key,
        row.created_at.0,
        row.visible_at.0,
        row.attempt,
        blob(&row.owner),
        row.events.bytes(),
        row.last_error,
        row.traced.trace_id,
        row.traced.correlation_id,
    ];
    plain(to, S::Delivery, values)?;
    queue::note(to, tenant, QueueKind::Delivery, &row.worker, 1);
    Ok(None)
}

pub(super) fn debounce(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &DeliveryRow,
    key: &str,
    until: Time,
) -> rusqlite::Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.worker,
        row.order_key,
        row.created_at.0,
        row.visible_at.0,
        row.attempt,
        blob(&row.owner),
        row.events.bytes(),
        row.last_error,
        row.traced.trace_id,
        row.traced.correlation_id,
        key,
        until.0,
    ];
    plain(to, S::Debounce, values)?;
    queue::debounced(to, tenant, row.id, &row.worker).map(|()| None)
}

pub(super) fn move_watermark(
    to: &mut Prepared<'_>,
    tenant: &str,
    worker: &str,
    row: &WatermarkRow,
    expected_version: i64,
) -> rusqlite::Result<Option<Conflict>> {
    let WatermarkRow { name, value, version, updated_at } = row;
    match expected_version {
        0 => {
            let values = params![tenant, worker, name, version, updated_at.0, value];
            guard(to, S::CreateWatermark, values, Conflict::Version)
        }
        expected => {
            let values = params![tenant, worker, name, version, updated_at.0, value, expected];
            guard(to, S::MoveWatermark, values, Conflict::Version)
        }
    }
}

pub(super) fn put_worker(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &WorkerRow,
    expected_version: i64,
) -> rusqlite::Result<Option<Conflict>> {
    let (created, updated) = (row.created_at.0, row.updated_at.0);
    match expected_version {
        0 => {
            let values = params![tenant, row.name, row.row_version, created, updated, row.declaration];
            guard(to, S::CreateWorker, values, Conflict::Version)
        }
        expected => {
            let values = params![tenant, row.name, row.row_version, updated, row.declaration, expected];
            guard(to, S::UpdateWorker, values, Conflict::Version)
        }
    }
}
