//! Deliveries and the workers they are for. Rows that another node is claiming are stepped over, not waited for.

use super::{
    base::{Postgres, of},
    error::error,
    list::{Query, clauses},
    read::{tenant, time as time_at},
    session::{Scope, Session},
    solo::Ended,
    value::{Text, Value, bytes, get, id, int, text, time},
};
use crate::{
    commit::Conflict,
    port::Result,
    rows::*,
    share::{self, Waiting},
    views::{DeliveryFilter, PAGE_MAX},
};
use machine::{TenantId, Time, query::Subject};
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

/// The most rows one claim returns.
pub(super) const CLAIM_MAX: usize = 1_000;

/// Workers and tenants with something in the backlog, the time of the oldest and the tenant's weight, one step along the
/// index each.
macro_rules! waiting {
    ($workers:literal) => {
        concat!(
            "WITH RECURSIVE backlog(worker, tenant) AS (
        SELECT w.worker, (SELECT min(d.tenant) FROM deliveries d WHERE d.owner IS NULL AND d.worker = w.worker)
        FROM unnest(",
            $workers,
            ") AS w(worker)
        UNION ALL SELECT b.worker, (SELECT min(d.tenant) FROM deliveries d
            WHERE d.owner IS NULL AND d.worker = b.worker AND d.tenant > b.tenant)
        FROM backlog b WHERE b.tenant IS NOT NULL)
    SELECT worker, tenant, greatest((SELECT min(d.visible_at) FROM deliveries d
            WHERE d.owner IS NULL AND d.worker = backlog.worker AND d.tenant = backlog.tenant),
            (SELECT next_at FROM worker_turns t WHERE t.tenant = backlog.tenant AND t.worker = backlog.worker)),
        coalesce((SELECT weight FROM tenants t WHERE t.tenant = backlog.tenant), 1)
    FROM backlog WHERE tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants p
        WHERE p.tenant = backlog.tenant AND p.status IN ('suspended', 'deleted'))"
        )
    };
}
pub(super) use waiting;
const WAITING: &str = waiting!("$1");

macro_rules! columns {
    () => {
        "q.tenant, q.id, q.worker, q.order_key, q.created_at, q.visible_at, q.attempt, q.events, q.last_error,
        q.taken_over, q.trace_id, q.correlation_id"
    };
}
/// Of one order key only the row before which there is none.
macro_rules! first_of_its_key {
    () => {
        "(d.order_key IS NULL OR NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.tenant = d.tenant
            AND e.worker = d.worker AND e.order_key = d.order_key AND e.seq < d.seq))"
    };
}

/// From every worker and tenant named its share, in the order given.
pub(super) const CLAIM: &str = concat!(
    "WITH due AS MATERIALIZED (
        SELECT c.* FROM unnest($4, $5, $6) WITH ORDINALITY AS t(worker, tenant, share, ord)
        CROSS JOIN LATERAL (SELECT d.tenant, d.id FROM deliveries d
            WHERE d.owner IS NULL AND d.worker = t.worker AND d.tenant = t.tenant AND d.visible_at <= $2
            AND EXISTS (SELECT 1 FROM wf_host_locks WHERE kind = 'node' AND name = $1 AND NOT fenced) AND ",
    first_of_its_key!(),
    " ORDER BY d.visible_at, d.seq LIMIT t.share FOR UPDATE SKIP LOCKED) c
        LIMIT $3)
    UPDATE deliveries q SET owner = $1, debounce_key = NULL FROM due WHERE q.tenant = due.tenant AND q.id = due.id RETURNING ",
    columns!(),
    ", q.seq"
);
pub(super) const LEND: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT d.tenant, d.id FROM deliveries d
        WHERE d.owner IS NULL AND d.worker = $2 AND d.tenant = $1 AND d.visible_at <= $3
        AND NOT EXISTS (SELECT 1 FROM tenants WHERE tenant = $1 AND status IN ('suspended', 'deleted')) AND ",
    first_of_its_key!(),
    " ORDER BY d.visible_at, d.seq LIMIT $5 FOR UPDATE SKIP LOCKED)
    UPDATE deliveries q SET visible_at = $4, attempt = q.attempt + 1, lent = true, debounce_key = NULL FROM due
    WHERE q.tenant = due.tenant AND q.id = due.id RETURNING ",
    columns!(),
    ", q.seq"
);
const ONE: &str =
    concat!("SELECT ", columns!(), ", q.seq FROM deliveries q WHERE q.tenant = $1 AND q.id = $2");
const LIST: &str = concat!("SELECT ", columns!(), ", q.seq FROM deliveries q WHERE q.tenant = $1");
const DEPTHS: &str = "SELECT worker, count(*), min(created_at) FROM deliveries WHERE worker = ANY ($1)
    GROUP BY worker ORDER BY worker";
const WORKERS: &str = "SELECT tenant, name, declaration, row_version, created_at, updated_at FROM workers
    ORDER BY tenant, name";
const CREATE_WORKER: &str =
    "INSERT INTO workers (tenant, name, row_version, created_at, updated_at, declaration)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING 1";
const UPDATE_WORKER: &str = "UPDATE workers SET row_version = $3, updated_at = $4, declaration = $5
    WHERE tenant = $1 AND name = $2 AND row_version = $6 RETURNING 1";

/// A row and its place in the order in which rows came.
pub(super) type Placed = (i64, Claimed<DeliveryRow>);

impl Postgres {
    async fn waiting_for(&self, workers: &[String]) -> Result<Vec<(String, Waiting)>> {
        let names: Vec<Text<'_>> = workers.iter().map(|name| Text(name)).collect();
        let waiting = |row: &Row| {
            let (tenant, oldest) = (tenant(row, 1)?, time_at(row, 2)?);
            Ok((get(row, 0)?, Waiting { tenant, oldest, weight: get::<i64>(row, 3)? as u32 }))
        };
        self.many(Scope::All, WAITING, &[Value::Texts(&names)], waiting).await
    }

    pub(super) async fn next_due_delivery(&self, workers: &[String]) -> Result<Option<Time>> {
        let waiting = self.waiting_for(workers).await?;
        Ok(waiting.into_iter().map(|(_, one)| one.oldest).min())
    }

    pub(super) async fn oldest_of(&self, workers: &[String]) -> Result<Vec<(String, Time)>> {
        let mut all = std::collections::BTreeMap::<String, Time>::new();
        for (worker, one) in self.waiting_for(workers).await? {
            let oldest = all.entry(worker).or_insert(one.oldest);
            *oldest = one.oldest.min(*oldest);
        }
        Ok(all.into_iter().collect())
    }

    pub(super) async fn depths_of(&self, workers: &[String]) -> Result<Vec<Depth>> {
        let names: Vec<Text<'_>> = workers.iter().map(|name| Text(name)).collect();
        let depth = |row: &Row| {
            let rows = get::<i64>(row, 1)?.unsigned_abs();
            Ok(Depth { worker: get(row, 0)?, rows, oldest: time_at(row, 2)? })
        };
        self.many(Scope::All, DEPTHS, &[Value::Texts(&names)], depth).await
    }

    pub(super) async fn claim_due_deliveries(&self, ask: &DeliveryAsk) -> Result<Vec<Claimed<DeliveryRow>>> {
        let waiting = self.waiting_for(&ask.workers).await?;
        let wanted = waiting.iter().filter(|(worker, one)| ask.has_room(&one.tenant, worker));
        let waiting = wanted.map(|(worker, one)| (worker.as_str(), one.clone())).collect();
        let limit = ask.limit.min(CLAIM_MAX);
        let shares = share::of_workers(waiting, ask.now, limit, &ask.full);
        if shares.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(pace) = ask.pace {
            return self.claim_at_pace(ask, pace, &shares).await;
        }
        let values = Shares::of(&shares);
        let claimed = self.claim_with(ask.node, CLAIM, &values.params(ask, limit), delivery).await?;
        Ok(in_order(claimed))
    }

    pub(super) async fn lend_due(&self, tenant: &TenantId, loan: &Loan) -> Result<Vec<DeliveryRow>> {
        let limit = loan.limit.min(CLAIM_MAX);
        if loan.pace.is_some() || loan.lent_max.is_some() {
            return self.lend_bounded(tenant, loan, limit).await;
        }
        let lent =
            self.change(of(tenant), LEND, &lending(tenant, loan, limit), |row| delivery(row, None)).await?;
        Ok(in_order(lent).into_iter().map(|one| one.row).collect())
    }

    pub(super) async fn one_delivery(
        &self,
        tenant: &TenantId,
        delivery_id: Uuid,
    ) -> Result<Option<DeliveryRow>> {
        let values = [text(tenant.as_str()), id(delivery_id)];
        let found = self.one(of(tenant), ONE, &values, |row| delivery(row, None)).await?;
        Ok(found.map(|(_, one)| one.row))
    }

    pub(super) async fn list_deliveries(
        &self,
        tenant: &TenantId,
        filter: &DeliveryFilter,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        let clauses = clauses(Subject::Deliveries, &filter.conditions);
        let mut query = Query::new(tenant);
        query.begin(LIST);
        query.equals("q.worker", filter.worker.as_deref());
        query.meets(&clauses);
        query.after_delivery(after, limit.clamp(1, PAGE_MAX));
        let read = |row: &Row| delivery(row, None);
        let rows = match clauses.is_empty() {
            true => self.many(of(tenant), &query.sql, &query.values, read).await?,
            false => self.many_once(of(tenant), &query.sql, &query.values, read).await?,
        };
        Ok(rows.into_iter().map(|(_, one)| one.row).collect())
    }

    pub(super) async fn all_workers(&self) -> Result<Vec<Claimed<WorkerRow>>> {
        let worker = |row: &Row| {
            Ok(Claimed {
                tenant: tenant(row, 0)?,
                row: WorkerRow {
                    name: get(row, 1)?,
                    declaration: get(row, 2)?,
                    row_version: get(row, 3)?,
                    created_at: time_at(row, 4)?,
                    updated_at: time_at(row, 5)?,
                },
            })
        };
        self.many(Scope::All, WORKERS, &[], worker).await
    }

    /// One statement that changes rows and answers them, in a transaction of its own.
    async fn change<T>(
        &self,
        scope: Scope<'_>,
        sql: &str,
        values: &[Value<'_>],
        map: impl Fn(&Row) -> std::result::Result<T, PgError>,
    ) -> Result<Vec<T>> {
        let session = self.writers.take().await?;
        let begin = super::base::begin(scope, &format!(", {}", super::apply::SETTINGS));
        let params: Vec<_> = values.iter().map(Value::param).collect();
        session.prepare(sql, &params).await.map_err(error)?;
        let asked = vec![session.command(&begin), session.ask(sql, params)];
        let answers = super::session::in_order(asked).await;
        let answers = answers.into_iter().collect::<std::result::Result<Vec<_>, _>>().map_err(error)?;
        let rows = answers[1].iter().map(|row| map(row).map_err(error)).collect();
        session.land().await?;
        rows
    }
}

pub(super) fn lending<'a>(tenant: &'a TenantId, loan: &'a Loan, limit: usize) -> [Value<'a>; 5] {
    [text(tenant.as_str()), text(&loan.worker), time(loan.now), time(loan.until), int(limit as i64)]
}

/// What a claim may take of each worker and tenant, by columns.
pub(super) struct Shares<'a> {
    workers: Vec<Text<'a>>,
    tenants: Vec<Text<'a>>,
    counts: Vec<i64>,
}

impl<'a> Shares<'a> {
    pub(super) fn of(shares: &'a [(&'a str, TenantId, usize)]) -> Shares<'a> {
        Shares {
            workers: shares.iter().map(|(worker, _, _)| Text(worker)).collect(),
            tenants: shares.iter().map(|(_, tenant, _)| Text(tenant.as_str())).collect(),
            counts: shares.iter().map(|(_, _, share)| *share as i64).collect(),
        }
    }

    pub(super) fn params(&'a self, ask: &DeliveryAsk, limit: usize) -> [Value<'a>; 6] {
        let Shares { workers, tenants, counts } = self;
        let (workers, tenants) = (Value::Texts(workers), Value::Texts(tenants));
        [id(ask.node), time(ask.now), int(limit as i64), workers, tenants, Value::Ints(counts)]
    }
}

pub(super) fn in_order(mut rows: Vec<Placed>) -> Vec<Claimed<DeliveryRow>> {
    rows.sort_by_key(|(seq, one)| (one.row.visible_at, *seq));
    rows.into_iter().map(|(_, one)| one).collect()
}

pub(super) fn delivery(row: &Row, owner: Option<Uuid>) -> std::result::Result<Placed, PgError> {
    let claimed = Claimed {
        tenant: tenant(row, 0)?,
        row: DeliveryRow {
            id: get(row, 1)?,
            worker: get(row, 2)?,
            order_key: get(row, 3)?,
            created_at: time_at(row, 4)?,
            visible_at: time_at(row, 5)?,
            attempt: get::<i64>(row, 6)? as u32,
            events: EventIds::new(get(row, 7)?),
            last_error: get(row, 8)?,
            owner,
            taken_over: get::<i64>(row, 9)? as u32,
            traced: Traced { trace_id: get(row, 10)?, correlation_id: get(row, 11)? },
        },
    };
    Ok((get(row, 12)?, claimed))
}

pub(super) async fn put_worker(to: &Session, tenant: &str, row: &WorkerRow, expected_version: i64) -> Ended {
    let head = [text(tenant), text(&row.name), int(row.row_version)];
    let (created, updated, declaration) =
        (time(row.created_at), time(row.updated_at), bytes(&row.declaration));
    let (sql, rest) = match expected_version {
        0 => (CREATE_WORKER, [created, updated, declaration]),
        expected => (UPDATE_WORKER, [updated, declaration, int(expected)]),
    };
    let values: Vec<Value<'_>> = head.into_iter().chain(rest).collect();
    super::solo::guard(to, sql, &values, Conflict::Version).await
}
