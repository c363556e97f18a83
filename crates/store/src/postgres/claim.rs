//! Work discovery: marks backlog rows as owned by a node and returns them. Serves backlog only; a row born owned
//! never passes here. Rows that another node is claiming are stepped over, not waited for.

use super::{
    base::{Postgres, begin},
    error::error,
    node::{self, FENCED},
    read::{tenant, time as time_at, token},
    session::{Scope, in_order},
    value::{Text, Value, get, id, int, time},
};
use crate::{
    port::Result,
    rows::*,
    share::{self, Waiting},
};
use machine::{TenantId, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

/// The most rows one claim returns.
pub(super) const CLAIM_MAX: usize = 1_000;

/// A fenced node claims nothing: the mark is looked at in the same statement.
macro_rules! alive {
    () => {
        "EXISTS (SELECT 1 FROM wf_host_locks WHERE kind = 'node' AND name = $1 AND NOT fenced)"
    };
}

/// Nobody is parked: else who waits is asked first.
macro_rules! nobody_parked {
    () => {
        "NOT EXISTS (SELECT 1 FROM tenants WHERE status <> 'active' AND status IN ('suspended', 'deleted'))"
    };
}

/// The oldest rows of a queue that are due, whosever they are, along its partial index: nothing is read that is not
/// returned. None while any tenant is parked.
macro_rules! oldest {
    ($queue:literal, $due:literal, $key:literal) => {
        concat!(
            "WITH due AS MATERIALIZED (SELECT tenant, ",
            $key,
            " FROM ",
            $queue,
            "
                WHERE owner IS NULL AND ",
            $due,
            " <= $2 AND ",
            alive!(),
            " AND ",
            nobody_parked!(),
            "
                ORDER BY ",
            $due,
            ", tenant, ",
            $key,
            " LIMIT $3 FOR UPDATE SKIP LOCKED)"
        )
    };
}

/// From every tenant named its share, in the order given.
macro_rules! shared {
    ($queue:literal, $due:literal, $key:literal) => {
        concat!(
            "WITH due AS MATERIALIZED (
                SELECT c.* FROM unnest($4, $5) WITH ORDINALITY AS t(tenant, share, ord)
                CROSS JOIN LATERAL (SELECT tenant, ",
            $key,
            " FROM ",
            $queue,
            " r
                    WHERE owner IS NULL AND r.tenant = t.tenant AND ",
            $due,
            " <= $2 AND ",
            alive!(),
            "
                    ORDER BY ",
            $due,
            ", ",
            $key,
            " LIMIT t.share FOR UPDATE SKIP LOCKED) c
                LIMIT $3)"
        )
    };
}

/// Tenants with rows in the backlog of a queue, the time of the oldest and their weight, one step along the index each.
macro_rules! tenants_of {
    ($queue:literal, $due:literal) => {
        concat!(
            "WITH RECURSIVE backlog(tenant) AS (
                SELECT min(tenant) FROM ",
            $queue,
            " WHERE owner IS NULL
                UNION ALL SELECT (SELECT min(c.tenant) FROM ",
            $queue,
            " c
                    WHERE c.owner IS NULL AND c.tenant > backlog.tenant)
                FROM backlog WHERE backlog.tenant IS NOT NULL)
            SELECT tenant, (SELECT min(c.",
            $due,
            ") FROM ",
            $queue,
            " c
                    WHERE c.owner IS NULL AND c.tenant = backlog.tenant),
                coalesce((SELECT weight FROM tenants t WHERE t.tenant = backlog.tenant), 1)
            FROM backlog WHERE tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants p
                WHERE p.tenant = backlog.tenant AND p.status IN ('suspended', 'deleted'))"
        )
    };
}

macro_rules! own_signals {
    () => {
        " UPDATE wf_signal_q q SET owner = $1 FROM due WHERE q.tenant = due.tenant AND q.id = due.id
        RETURNING q.tenant, q.id, q.instance, q.signal_type, q.envelope, q.created_at, q.visible_at, q.attempt,
            q.taken_over"
    };
}
macro_rules! own_timers {
    () => {
        " UPDATE wf_schedule_q q SET owner = $1 FROM due
        WHERE q.tenant = due.tenant AND q.instance = due.instance AND q.token = due.token
        RETURNING q.tenant, q.instance, q.token, q.due_at, q.envelope, q.attempt, q.taken_over"
    };
}

/// A queue that is shared out: who waits, and how each gets its share.
pub(super) struct Fair {
    tenants: &'static str,
    shared: &'static str,
}

/// A queue that is claimed from by due time alone while nobody is kept waiting.
pub(super) struct Queue {
    oldest: &'static str,
    fair: Fair,
}

pub(super) const SIGNALS: Queue = Queue {
    oldest: concat!(oldest!("wf_signal_q", "visible_at", "id"), own_signals!()),
    fair: Fair {
        tenants: tenants_of!("wf_signal_q", "visible_at"),
        shared: concat!(shared!("wf_signal_q", "visible_at", "id"), own_signals!()),
    },
};
pub(super) const TIMERS: Queue = Queue {
    oldest: concat!(oldest!("wf_schedule_q", "due_at", "instance, token"), own_timers!()),
    fair: Fair {
        tenants: tenants_of!("wf_schedule_q", "due_at"),
        shared: concat!(shared!("wf_schedule_q", "due_at", "instance, token"), own_timers!()),
    },
};
pub(super) const CALLS: Fair = Fair {
    tenants: tenants_of!("calls", "visible_at"),
    shared: concat!(
        shared!("calls", "visible_at", "instance, token"),
        " UPDATE calls q SET owner = $1 FROM due
        WHERE q.tenant = due.tenant AND q.instance = due.instance AND q.token = due.token
        RETURNING q.tenant, q.instance, q.token, q.target, q.envelope, q.created_at, q.visible_at, q.attempt,
            q.last_error, q.taken_over"
    ),
};
pub(super) const CALLS_OF: &str =
    "SELECT tenant, instance, token, target, envelope, created_at, visible_at, attempt, last_error, taken_over
    FROM calls WHERE tenant = $1 AND instance = $2 ORDER BY token LIMIT $3";

/// Queues whose last claim left something behind: the next one shares out. While all that is due fits into one claim
/// nobody is kept waiting, and asking who waits would be for nothing.
#[derive(Default)]
pub(super) struct Crowded {
    pub(super) signals: AtomicBool,
    pub(super) timers: AtomicBool,
}

/// What a claim asks for.
pub(super) struct Ask<'a> {
    pub(super) node: Uuid,
    pub(super) now: Time,
    pub(super) limit: usize,
    /// These get nothing.
    pub(super) full: &'a [TenantId],
}

impl Postgres {
    /// Claims what is due, the oldest first; from each tenant its share if the claim before left something behind, or if
    /// there is nothing by age alone, as is so while any tenant is parked.
    pub(super) async fn claim<T>(
        &self,
        queue: &Queue,
        crowded: &AtomicBool,
        ask: Ask<'_>,
        map: impl Fn(&Row, Option<Uuid>) -> std::result::Result<Claimed<T>, PgError>,
    ) -> Result<Vec<Claimed<T>>> {
        let limit = ask.limit.min(CLAIM_MAX);
        if !crowded.load(Ordering::Relaxed) {
            let values = [id(ask.node), time(ask.now), int(limit as i64)];
            let claimed = self.claim_with(ask.node, queue.oldest, &values, &map).await?;
            if !claimed.is_empty() || limit == 0 {
                crowded.store(claimed.len() >= limit, Ordering::Relaxed);
                return Ok(claimed);
            }
        }
        let (claimed, exhausted) = self.claim_shared(&queue.fair, ask, map).await?;
        crowded.store(exhausted, Ordering::Relaxed);
        Ok(claimed)
    }

    /// From each tenant its share; and whether somebody took all of it, and so may have left something behind.
    pub(super) async fn claim_shared<T>(
        &self,
        fair: &Fair,
        ask: Ask<'_>,
        map: impl Fn(&Row, Option<Uuid>) -> std::result::Result<Claimed<T>, PgError>,
    ) -> Result<(Vec<Claimed<T>>, bool)> {
        let Ask { node, now, limit, full } = ask;
        let limit = limit.min(CLAIM_MAX);
        let waiting = self.waiting(fair).await?;
        let shares = share::shares(waiting, now, limit, full);
        if shares.is_empty() {
            return Ok((Vec::new(), false));
        }
        let tenants: Vec<Text<'_>> = shares.iter().map(|(tenant, _)| Text(tenant.as_str())).collect();
        let counts: Vec<i64> = shares.iter().map(|(_, share)| *share as i64).collect();
        let values = [id(node), time(now), int(limit as i64), Value::Texts(&tenants), Value::Ints(&counts)];
        let claimed = self.claim_with(node, fair.shared, &values, map).await?;
        let exhausted = share::is_exhausted(&shares, claimed.iter().map(|one| &one.tenant));
        Ok((claimed, exhausted))
    }

    async fn waiting(&self, fair: &Fair) -> Result<Vec<Waiting>> {
        let waiting = |row: &Row| {
            Ok(Waiting {
                tenant: tenant(row, 0)?,
                oldest: time_at(row, 1)?,
                weight: get::<i64>(row, 2)? as u32,
            })
        };
        self.many(Scope::All, fair.tenants, &[], waiting).await
    }

    /// When something is due next of tenants that are not parked.
    pub(super) async fn next_due_of_others(&self) -> Result<Option<Time>> {
        let mut next = None;
        for fair in [&SIGNALS.fair, &TIMERS.fair, &CALLS] {
            next = self.waiting(fair).await?.into_iter().map(|one| one.oldest).chain(next).min();
        }
        Ok(next)
    }

    pub(super) async fn claim_with<T>(
        &self,
        node: Uuid,
        sql: &str,
        values: &[Value<'_>],
        map: impl Fn(&Row, Option<Uuid>) -> std::result::Result<T, PgError>,
    ) -> Result<Vec<T>> {
        let session = self.writers.take().await?;
        let lock = format!(", pg_advisory_xact_lock_shared({})", node::fence_key(node));
        let begin = begin(Scope::All, &format!("{lock}, {}", super::apply::SETTINGS));
        let member = [id(node)];
        let member: Vec<_> = member.iter().map(Value::param).collect();
        let params: Vec<_> = values.iter().map(Value::param).collect();
        session.prepare(FENCED, &member).await.map_err(error)?;
        session.prepare(sql, &params).await.map_err(error)?;
        let asked = vec![session.command(&begin), session.ask(FENCED, member), session.ask(sql, params)];
        let answers = in_order(asked).await.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        let answers = answers.map_err(error)?;
        node::not_fenced(&answers[1])?;
        let claimed = answers[2].iter().map(|row| map(row, Some(node)).map_err(error)).collect();
        session.land().await?;
        claimed
    }
}

pub(super) fn signal(row: &Row, owner: Option<Uuid>) -> std::result::Result<Claimed<SignalRow>, PgError> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: SignalRow {
            id: get(row, 1)?,
            instance: get(row, 2)?,
            signal_type: get(row, 3)?,
            envelope: get(row, 4)?,
            created_at: time_at(row, 5)?,
            visible_at: time_at(row, 6)?,
            attempt: get::<i64>(row, 7)? as u32,
            owner,
            taken_over: get::<i64>(row, 8)? as u32,
        },
    })
}

pub(super) fn timer(row: &Row, owner: Option<Uuid>) -> std::result::Result<Claimed<TimerRow>, PgError> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: TimerRow {
            instance: get(row, 1)?,
            token: token(row, 2)?,
            due_at: time_at(row, 3)?,
            envelope: get(row, 4)?,
            attempt: get::<i64>(row, 5)? as u32,
            owner,
            taken_over: get::<i64>(row, 6)? as u32,
        },
    })
}

pub(super) fn call(row: &Row, owner: Option<Uuid>) -> std::result::Result<Claimed<CallRow>, PgError> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: CallRow {
            instance: get(row, 1)?,
            token: token(row, 2)?,
            target: get(row, 3)?,
            envelope: get(row, 4)?,
            created_at: time_at(row, 5)?,
            visible_at: time_at(row, 6)?,
            attempt: get::<i64>(row, 7)? as u32,
            last_error: get(row, 8)?,
            owner,
            taken_over: get::<i64>(row, 9)? as u32,
        },
    })
}
