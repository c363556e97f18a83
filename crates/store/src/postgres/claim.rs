//! Work discovery: marks backlog rows as owned by a node and returns them. Serves backlog only; a row born owned
//! never passes here. Rows that another node is claiming are stepped over, not waited for.

use super::{
    error::error,
    node::{self, FENCED},
    read::{tenant, time as time_at, token},
    session::{Scope, in_order},
    store::{Postgres, begin},
    value::{Text, Value, get, id, int, time},
};
use crate::{port::Result, rows::*};
use machine::{TenantId, Time};
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

// Each list runs along its partial index: due order, and nothing read that is not returned.
pub(super) const SIGNALS: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT tenant, id FROM wf_signal_q WHERE owner IS NULL AND visible_at <= $2 AND ",
    alive!(),
    " ORDER BY visible_at, tenant, id LIMIT $3 FOR UPDATE SKIP LOCKED)
    UPDATE wf_signal_q q SET owner = $1 FROM due WHERE q.tenant = due.tenant AND q.id = due.id
    RETURNING q.tenant, q.id, q.instance, q.signal_type, q.envelope, q.created_at, q.visible_at, q.attempt"
);
pub(super) const TIMERS: &str = concat!(
    "WITH due AS MATERIALIZED (SELECT tenant, instance, token FROM wf_schedule_q
        WHERE owner IS NULL AND due_at <= $2 AND ",
    alive!(),
    " ORDER BY due_at, tenant, instance, token LIMIT $3 FOR UPDATE SKIP LOCKED)
    UPDATE wf_schedule_q q SET owner = $1 FROM due
    WHERE q.tenant = due.tenant AND q.instance = due.instance AND q.token = due.token
    RETURNING q.tenant, q.instance, q.token, q.due_at, q.envelope, q.attempt"
);
/// An equal share from every tenant named, in the order given.
const CALLS: &str = concat!(
    "WITH due AS MATERIALIZED (
        SELECT c.tenant, c.instance, c.token FROM unnest($4) WITH ORDINALITY AS t(tenant, ord)
        CROSS JOIN LATERAL (SELECT tenant, instance, token FROM calls
            WHERE owner IS NULL AND calls.tenant = t.tenant AND visible_at <= $2 AND ",
    alive!(),
    " ORDER BY visible_at, instance, token LIMIT $5 FOR UPDATE SKIP LOCKED) c
        LIMIT $3)
    UPDATE calls q SET owner = $1 FROM due
    WHERE q.tenant = due.tenant AND q.instance = due.instance AND q.token = due.token
    RETURNING q.tenant, q.instance, q.token, q.target, q.envelope, q.created_at, q.visible_at, q.attempt, q.last_error"
);
/// Tenants with calls in the backlog and the time of the oldest, one step along the index each.
const TENANTS: &str = "WITH RECURSIVE backlog(tenant) AS (
        SELECT min(tenant) FROM calls WHERE owner IS NULL
        UNION ALL SELECT (SELECT min(c.tenant) FROM calls c WHERE c.owner IS NULL AND c.tenant > backlog.tenant)
        FROM backlog WHERE backlog.tenant IS NOT NULL)
    SELECT tenant, (SELECT min(c.visible_at) FROM calls c WHERE c.owner IS NULL AND c.tenant = backlog.tenant)
    FROM backlog WHERE tenant IS NOT NULL";
pub(super) const CALLS_OF: &str =
    "SELECT tenant, instance, token, target, envelope, created_at, visible_at, attempt, last_error
    FROM calls WHERE tenant = $1 AND instance = $2 ORDER BY token LIMIT $3";

impl Postgres {
    /// Claims with one statement; its first values are the node, the time and the limit.
    pub(super) async fn claim<T>(
        &self,
        node: Uuid,
        sql: &str,
        now: Time,
        limit: usize,
        map: impl Fn(&Row, Option<Uuid>) -> std::result::Result<T, PgError>,
    ) -> Result<Vec<T>> {
        let values = [id(node), time(now), int(limit.min(CLAIM_MAX) as i64)];
        self.claim_with(node, sql, &values, map).await
    }

    async fn claim_with<T>(
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
        let asked = vec![
            session.command(&begin),
            session.ask(FENCED, member),
            session.ask(sql, params),
            session.command("COMMIT"),
        ];
        let answers = in_order(asked).await.into_iter().collect::<std::result::Result<Vec<_>, _>>();
        let answers = answers.map_err(error)?;
        node::not_fenced(&answers[1])?;
        let claimed = answers[2].iter().map(|row| map(row, Some(node)).map_err(error)).collect();
        session.done();
        claimed
    }

    /// Calls that are due, an equal share from every tenant that has any and is not full.
    pub(super) async fn fair_calls(
        &self,
        node: Uuid,
        now: Time,
        limit: usize,
        full: &[TenantId],
    ) -> Result<Vec<Claimed<CallRow>>> {
        let oldest = |row: &Row| Ok((time_at(row, 1)?, tenant(row, 0)?));
        let mut tenants = self.many(Scope::All, TENANTS, &[], oldest).await?;
        tenants.retain(|(oldest, tenant)| *oldest <= now && !full.contains(tenant));
        // With more tenants than rows to claim, those that have waited longest.
        tenants.sort();
        let limit = limit.min(CLAIM_MAX);
        let share = limit.div_ceil(tenants.len().max(1));
        let names: Vec<Text<'_>> = tenants.iter().map(|(_, tenant)| Text(tenant.as_str())).collect();
        let values = [id(node), time(now), int(limit as i64), Value::Texts(&names), int(share as i64)];
        let mut claimed = self.claim_with(node, CALLS, &values, call).await?;
        claimed.sort_by(|a, b| {
            let key = |one: &Claimed<CallRow>| {
                (one.row.visible_at, one.tenant.clone(), one.row.instance, one.row.token.cast_signed())
            };
            key(a).cmp(&key(b))
        });
        Ok(claimed)
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
        },
    })
}
