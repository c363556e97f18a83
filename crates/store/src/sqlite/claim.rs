//! Work discovery: marks backlog rows as owned by a node and returns them. Serves backlog only; a row born owned
//! never passes here.

use super::{
    core::Core,
    error::error,
    node,
    read::{Read, id, tenant, time, token},
    write::int,
};
use crate::{
    port::Result,
    rows::*,
    share::{self, Waiting},
};
use machine::{TenantId, Time};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

/// The most rows one claim returns, so that a claim never holds up the commits behind it for long.
const CLAIM_MAX: usize = 1_000;

// Each list runs along its partial index: due order, and nothing read that is not returned.
pub(super) const SIGNALS: &str =
    "SELECT tenant, id, instance, signal_type, envelope, created_at, visible_at, attempt, taken_over
    FROM wf_signal_q WHERE owner IS NULL AND visible_at <= ?1 ORDER BY visible_at, tenant, id LIMIT ?2";
pub(super) const TIMERS: &str = "SELECT tenant, instance, token, due_at, envelope, attempt, taken_over
    FROM wf_schedule_q WHERE owner IS NULL AND due_at <= ?1 ORDER BY due_at, tenant, instance, token LIMIT ?2";
const CALLS_OF: &str =
    "SELECT tenant, instance, token, target, envelope, created_at, visible_at, attempt, last_error, taken_over
    FROM calls WHERE tenant = ?1 AND instance = ?2 ORDER BY token LIMIT ?3";

/// Tenants with rows in the backlog of a queue, the time of the oldest and their weight, one step along the index each.
macro_rules! tenants_of {
    ($queue:literal, $due:literal) => {
        concat!(
            "WITH RECURSIVE backlog(tenant) AS (
                SELECT min(tenant) FROM ",
            $queue,
            " WHERE owner IS NULL
                UNION ALL SELECT (SELECT min(tenant) FROM ",
            $queue,
            "
                    WHERE owner IS NULL AND tenant > backlog.tenant)
                FROM backlog WHERE backlog.tenant IS NOT NULL)
            SELECT tenant, (SELECT min(",
            $due,
            ") FROM ",
            $queue,
            " WHERE owner IS NULL AND tenant = backlog.tenant),
                coalesce((SELECT weight FROM tenants t WHERE t.tenant = backlog.tenant), 1)
            FROM backlog WHERE tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants p
                WHERE p.tenant = backlog.tenant AND p.status IN ('suspended', 'deleted'))"
        )
    };
}

/// Whether any tenant is parked.
const PARKED: &str =
    "SELECT EXISTS (SELECT 1 FROM tenants WHERE status <> 'active' AND status IN ('suspended', 'deleted'))";

/// A queue that is shared out: who waits, and the oldest due rows of one tenant.
pub(super) struct Fair {
    pub(super) tenants: &'static str,
    pub(super) due: &'static str,
}

pub(super) const FAIR_SIGNALS: Fair = Fair {
    tenants: tenants_of!("wf_signal_q", "visible_at"),
    due: "SELECT tenant, id, instance, signal_type, envelope, created_at, visible_at, attempt, taken_over
    FROM wf_signal_q WHERE owner IS NULL AND tenant = ?3 AND visible_at <= ?1 ORDER BY visible_at, id LIMIT ?2",
};
pub(super) const FAIR_TIMERS: Fair = Fair {
    tenants: tenants_of!("wf_schedule_q", "due_at"),
    due: "SELECT tenant, instance, token, due_at, envelope, attempt, taken_over
    FROM wf_schedule_q WHERE owner IS NULL AND tenant = ?3 AND due_at <= ?1
    ORDER BY due_at, instance, token LIMIT ?2",
};
pub(super) const FAIR_CALLS: Fair = Fair {
    tenants: tenants_of!("calls", "visible_at"),
    due: "SELECT tenant, instance, token, target, envelope, created_at, visible_at, attempt, last_error, taken_over
    FROM calls WHERE owner IS NULL AND tenant = ?3 AND visible_at <= ?1
    ORDER BY visible_at, instance, token LIMIT ?2",
};

const OWN_SIGNAL: &str = "UPDATE wf_signal_q SET owner = ?1 WHERE tenant = ?2 AND id = ?3";
const OWN_CALL: &str = "UPDATE calls SET owner = ?1 WHERE tenant = ?2 AND instance = ?3 AND token = ?4";
const OWN_TIMER: &str =
    "UPDATE wf_schedule_q SET owner = ?1 WHERE tenant = ?2 AND instance = ?3 AND token = ?4";

/// Queues whose last claim left something behind: the next one shares out. While all that is due fits into one claim
/// nobody is kept waiting, and asking who waits would be for nothing.
#[derive(Default)]
pub(super) struct Crowded {
    signals: bool,
    timers: bool,
}

impl Core {
    pub fn claim_signals(&mut self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<SignalRow>>> {
        let crowded = self.crowded.signals;
        let (claimed, more) = self.transaction(|connection| {
            node::member(connection, node)?;
            let (mut claimed, more) = match crowded || any_parked(connection).map_err(error)? {
                true => shared_out(connection, &FAIR_SIGNALS, now, limit, &[], signal),
                false => due(connection, SIGNALS, now, limit, signal),
            }
            .map_err(error)?;
            let mut own = connection.prepare_cached(OWN_SIGNAL).map_err(error)?;
            for one in &mut claimed {
                one.row.owner = Some(node);
                own.execute(params![node.as_bytes(), one.tenant.as_str(), one.row.id.as_bytes()])
                    .map_err(error)?;
            }
            claimed.sort_by_key(|one| one.row.visible_at);
            Ok((claimed, more))
        })?;
        self.crowded.signals = more;
        Ok(claimed)
    }

    pub fn claim_calls(
        &mut self,
        node: Uuid,
        now: Time,
        limit: usize,
        full: &[TenantId],
    ) -> Result<Vec<Claimed<CallRow>>> {
        self.transaction(|connection| {
            node::member(connection, node)?;
            let (mut claimed, _) =
                shared_out(connection, &FAIR_CALLS, now, limit, full, call).map_err(error)?;
            for one in &mut claimed {
                one.row.owner = Some(node);
                let (instance, token) = (one.row.instance, one.row.token);
                own(connection, OWN_CALL, node, one.tenant.as_str(), instance, token).map_err(error)?;
            }
            claimed.sort_by_key(|one| one.row.visible_at);
            Ok(claimed)
        })
    }

    /// Timers due at `now`.
    pub fn claim_timers(&mut self, node: Uuid, now: Time, limit: usize) -> Result<Vec<Claimed<TimerRow>>> {
        let crowded = self.crowded.timers;
        let (claimed, more) = self.transaction(|connection| {
            node::member(connection, node)?;
            let (mut claimed, more) = match crowded || any_parked(connection).map_err(error)? {
                true => shared_out(connection, &FAIR_TIMERS, now, limit, &[], timer),
                false => due(connection, TIMERS, now, limit, timer),
            }
            .map_err(error)?;
            for one in &mut claimed {
                one.row.owner = Some(node);
                let (instance, token) = (one.row.instance, one.row.token);
                own(connection, OWN_TIMER, node, one.tenant.as_str(), instance, token).map_err(error)?;
            }
            claimed.sort_by_key(|one| one.row.due_at);
            Ok((claimed, more))
        })?;
        self.crowded.timers = more;
        Ok(claimed)
    }
}

/// Rows that are due, to every tenant that has any and is not full its share; and whether there may be more.
fn shared_out<T>(
    connection: &Connection,
    fair: &Fair,
    now: Time,
    limit: usize,
    full: &[TenantId],
    map: fn(&Row<'_>) -> rusqlite::Result<Claimed<T>>,
) -> rusqlite::Result<(Vec<Claimed<T>>, bool)> {
    let waiting = waiting(connection, fair)?;
    let mut left = limit.min(CLAIM_MAX);
    let mut claimed = Vec::new();
    let mut statement = connection.prepare_cached(fair.due)?;
    let shares = share::shares(waiting, now, left, full);
    for (tenant, share) in &shares {
        let rows = statement.query_map(params![now.0, left.min(*share) as i64, tenant.as_str()], map)?;
        for row in rows {
            claimed.push(row?);
            left -= 1;
        }
    }
    let more = left == 0 || share::is_exhausted(&shares, claimed.iter().map(|one| &one.tenant));
    Ok((claimed, more))
}

fn waiting(connection: &Connection, fair: &Fair) -> rusqlite::Result<Vec<Waiting>> {
    let mut statement = connection.prepare_cached(fair.tenants)?;
    let rows = statement.query_map([], |row| {
        Ok(Waiting { tenant: tenant(row, 0)?, oldest: time(row, 1)?, weight: row.get(2)? })
    })?;
    rows.collect()
}

fn any_parked(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached(PARKED)?.query_row([], |row| row.get(0))
}

/// When something is due next of tenants that are not parked; `None` if nobody is, and so all of it counts.
pub(super) fn next_due_of_others(connection: &Connection) -> rusqlite::Result<Option<Option<Time>>> {
    if !any_parked(connection)? {
        return Ok(None);
    }
    let mut next = None;
    for fair in [&FAIR_SIGNALS, &FAIR_TIMERS, &FAIR_CALLS] {
        next = waiting(connection, fair)?.into_iter().map(|one| one.oldest).chain(next).min();
    }
    Ok(Some(next))
}

/// The oldest rows that are due, whosever they are; and whether there may be more.
fn due<T>(
    connection: &Connection,
    sql: &str,
    now: Time,
    limit: usize,
    map: fn(&Row<'_>) -> rusqlite::Result<Claimed<T>>,
) -> rusqlite::Result<(Vec<Claimed<T>>, bool)> {
    let limit = limit.min(CLAIM_MAX);
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![now.0, limit as i64], map)?;
    let claimed = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let more = claimed.len() >= limit;
    Ok((claimed, more))
}

fn own(
    connection: &Connection,
    sql: &str,
    node: Uuid,
    tenant: &str,
    instance: Uuid,
    token: u64,
) -> rusqlite::Result<()> {
    let values = params![node.as_bytes(), tenant, instance.as_bytes(), int(token)];
    connection.prepare_cached(sql)?.execute(values).map(drop)
}

fn signal(row: &Row<'_>) -> rusqlite::Result<Claimed<SignalRow>> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: SignalRow {
            id: id(row, 1)?,
            instance: id(row, 2)?,
            signal_type: row.get(3)?,
            envelope: row.get(4)?,
            created_at: time(row, 5)?,
            visible_at: time(row, 6)?,
            attempt: row.get(7)?,
            owner: None,
            taken_over: row.get(8)?,
        },
    })
}

impl Read<'_> {
    /// The calls of one instance, oldest first.
    pub fn calls(&self, tenant: &TenantId, instance: Uuid, limit: usize) -> Result<Vec<CallRow>> {
        let limit = limit.min(CLAIM_MAX) as i64;
        let calls = self.many(CALLS_OF, params![tenant.as_str(), instance.as_bytes(), limit], call)?;
        Ok(calls.into_iter().map(|claimed| claimed.row).collect())
    }
}

fn call(row: &Row<'_>) -> rusqlite::Result<Claimed<CallRow>> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: CallRow {
            instance: id(row, 1)?,
            token: token(row, 2)?,
            target: row.get(3)?,
            envelope: row.get(4)?,
            created_at: time(row, 5)?,
            visible_at: time(row, 6)?,
            attempt: row.get(7)?,
            last_error: row.get(8)?,
            owner: None,
            taken_over: row.get(9)?,
        },
    })
}

fn timer(row: &Row<'_>) -> rusqlite::Result<Claimed<TimerRow>> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: TimerRow {
            instance: id(row, 1)?,
            token: token(row, 2)?,
            due_at: time(row, 3)?,
            envelope: row.get(4)?,
            attempt: row.get(5)?,
            owner: None,
            taken_over: row.get(6)?,
        },
    })
}
