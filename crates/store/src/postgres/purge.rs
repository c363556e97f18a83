//! Retention: deletes instances that ended, with all their rows, and keys of starts that are old enough.
//!
//! One call is one short transaction over a page of ended instances. What instances have much of goes first, a bounded
//! number of rows; only when all of it has gone do the instances go, so that a call which stops in between is gone on
//! from by the next one. History that lies in the partition of a day is left to the drop of the partition: `retire` does
//! that, and nobody is shown history whose instance has gone.

use super::{
    base::{Postgres, begin},
    error::error,
    read::time as time_at,
    session::{Scope, Session},
    value::{Column, Text, Value, get, id, int, time},
};
use crate::{port::Result, views::*};
use machine::Time;
use tokio_postgres::{Error as PgError, Row, error::SqlState};
use uuid::Uuid;

/// Rows that one call deletes before it stops.
const ROWS_MAX: usize = 5_000;

/// A page of ended instances along the index, and whether each may go. Those that a turn is working on are left out.
const ENDED: &str = "SELECT i.ended_at, i.id, i.tenant,
    i.ended_at < CASE WHEN i.status = 'faulted' THEN $2 ELSE $1 END
    AND i.status IN ('completed', 'cancelled', 'faulted')
    AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.tenant = i.tenant AND c.instance = i.id)
    AND NOT EXISTS (SELECT 1 FROM wf_schedule_q t WHERE t.tenant = i.tenant AND t.instance = i.id)
    AND NOT EXISTS (SELECT 1 FROM wf_dlq d WHERE d.tenant = i.tenant AND d.instance = i.id)
    AND NOT EXISTS (SELECT 1 FROM wf_instances k WHERE k.tenant = i.tenant AND k.parent = i.id
        AND k.status IN ('pending', 'running', 'waiting', 'paused', 'cancelling'))
    AND NOT EXISTS (SELECT 1 FROM wf_instances p WHERE p.tenant = i.tenant AND p.id = i.parent
        AND p.status NOT IN ('completed', 'cancelled'))
    FROM wf_instances i
    WHERE i.ended_at IS NOT NULL AND i.ended_at < greatest($1, $2) AND (i.ended_at, i.id) > ($3, $4)
    ORDER BY i.ended_at, i.id LIMIT $5 FOR UPDATE OF i SKIP LOCKED";
/// A turn that is about to commit has locked the snapshot, or comes too late.
const HOLD: &str = "SELECT 1 FROM unnest($1, $2) AS r(tenant, id)
    JOIN wf_runtime_states s ON s.tenant = r.tenant AND s.runtime_instance_id = r.id FOR UPDATE OF s";
const ERRORS: &str = "WITH gone AS MATERIALIZED (SELECT tenant, id FROM error_groups
        WHERE last_at < $1 ORDER BY last_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    DELETE FROM error_groups x USING gone g WHERE x.tenant = g.tenant AND x.id = g.id";
const KEYS: &str = "WITH gone AS MATERIALIZED (SELECT tenant, scope, key FROM inbox
        WHERE scope = 'start' AND created_at < $1 ORDER BY created_at LIMIT $2)
    DELETE FROM inbox x USING gone g WHERE x.tenant = g.tenant AND x.scope = g.scope AND x.key = g.key RETURNING 1";
/// What may still be handed over that the key is of keeps it. Of keys that are kept so many are looked at, so that a page is short.
const WORKER_KEYS: &str = "WITH gone AS MATERIALIZED (SELECT tenant, scope, key FROM (SELECT * FROM inbox
        WHERE scope = 'worker' AND created_at < $1 ORDER BY created_at LIMIT 50 * $2) c
        WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.tenant = c.tenant AND d.created_at < c.created_at + $3)
        AND NOT EXISTS (SELECT 1 FROM wf_dlq l WHERE l.tenant = c.tenant AND l.source = 'delivery'
            AND l.failed_at < c.created_at + $3 + $4) LIMIT $2)
    DELETE FROM inbox x USING gone g WHERE x.tenant = g.tenant AND x.scope = g.scope AND x.key = g.key RETURNING 1";

/// What became of due times: as old as an instance that ended well, or as one that faulted if nothing came of it.
const SLOTS: &str = "WITH gone AS MATERIALIZED (SELECT tenant, schedule, slot FROM schedule_slots
        WHERE at < greatest($1, $2) AND at < CASE WHEN outcome = 'failed' THEN $2 ELSE $1 END ORDER BY at LIMIT $3)
    DELETE FROM schedule_slots x USING gone g
    WHERE x.tenant = g.tenant AND x.schedule = g.schedule AND x.slot = g.slot RETURNING 1";

/// Items of batches that ended before $1, and then the batches that have none left.
const BATCHES: [&str; 2] = [
    "WITH gone AS MATERIALIZED (SELECT m.tenant, m.batch, m.item FROM batches b
        JOIN batch_items m ON m.tenant = b.tenant AND m.batch = b.id WHERE b.ended_at < $1 LIMIT $2)
    DELETE FROM batch_items x USING gone g WHERE x.tenant = g.tenant AND x.batch = g.batch AND x.item = g.item RETURNING 1",
    "WITH gone AS MATERIALIZED (SELECT b.tenant, b.id FROM batches b WHERE b.ended_at < $1
        AND NOT EXISTS (SELECT 1 FROM batch_items m WHERE m.tenant = b.tenant AND m.batch = b.id) LIMIT $2)
    DELETE FROM batches x USING gone g WHERE x.tenant = g.tenant AND x.id = g.id RETURNING 1",
];

/// What instances may have much of: at most $3 rows at a time.
const BULK: [&str; 2] = [
    "WITH gone AS MATERIALIZED (SELECT m.tenant, m.dataset, m.first, m.round FROM unnest($1, $2) AS r(tenant, id)
        JOIN datasets d ON d.tenant = r.tenant AND d.owner = r.id
        JOIN dataset_items m ON m.tenant = d.tenant AND m.dataset = d.id LIMIT $3)
    DELETE FROM dataset_items x USING gone g WHERE x.tenant = g.tenant AND x.dataset = g.dataset
        AND x.first = g.first AND x.round = g.round RETURNING 1",
    "WITH gone AS MATERIALIZED (SELECT i.tenant, i.scope, i.key FROM unnest($1, $2) AS r(tenant, id)
        CROSS JOIN LATERAL unnest(ARRAY['signal:', 'event:']) AS kind
        JOIN inbox i ON i.tenant = r.tenant AND i.scope = kind || replace(r.id::text, '-', '') LIMIT $3)
    DELETE FROM inbox x USING gone g WHERE x.tenant = g.tenant AND x.scope = g.scope AND x.key = g.key RETURNING 1",
];
/// What goes with its partition.
const DAYS: &str = "SELECT low, high FROM wf_history_days() WHERE NOT kept";
const HISTORY: &str =
    "WITH gone AS MATERIALIZED (SELECT h.tenant, h.instance, h.version FROM unnest($1, $2) AS r(tenant, id)
        JOIN wf_history h ON h.tenant = r.tenant AND h.instance = r.id LIMIT $3)
    DELETE FROM wf_history x USING gone g WHERE x.tenant = g.tenant AND x.instance = g.instance
        AND x.version = g.version RETURNING 1";
const TASKS: &str = "WITH gone AS MATERIALIZED (SELECT t.tenant, t.id FROM unnest($1, $2) AS r(tenant, id)
        JOIN wf_tasks t ON t.tenant = r.tenant AND t.instance = r.id LIMIT $3)
    DELETE FROM wf_tasks x USING gone g WHERE x.tenant = g.tenant AND x.id = g.id RETURNING x.tenant, x.id";
const TASK_EVENTS: &str = "DELETE FROM wf_task_events x USING unnest($1, $2) AS r(tenant, task)
    WHERE x.tenant = r.tenant AND x.task = r.task";
/// The rest, the instances at last.
const REST: [&str; 4] = [
    "DELETE FROM datasets x USING unnest($1, $2) AS r(tenant, id) WHERE x.tenant = r.tenant AND x.owner = r.id",
    "DELETE FROM subscriptions x USING unnest($1, $2) AS r(tenant, id)
    WHERE x.tenant = r.tenant AND x.kind = 'listen' AND x.owner = r.id",
    "DELETE FROM wf_runtime_states x USING unnest($1, $2) AS r(tenant, id)
    WHERE x.tenant = r.tenant AND x.runtime_instance_id = r.id",
    "DELETE FROM wf_instances x USING unnest($1, $2) AS r(tenant, id) WHERE x.tenant = r.tenant AND x.id = r.id",
];

/// Names rows of several tenants.
#[derive(Default)]
struct Named {
    tenants: Vec<String>,
    ids: Vec<Uuid>,
}

impl Postgres {
    /// Deletes a page of what [`Purge`] allows.
    pub(super) async fn purge_page(&self, purge: &Purge) -> Result<Purged> {
        let session = self.writers.take().await?;
        let begin = begin(Scope::All, &format!(", {}", super::apply::SETTINGS));
        session.command(&begin).await.map_err(error)?;
        let purged = page(&session, purge).await.map_err(error)?;
        session.command("COMMIT").await.map_err(error)?;
        session.done();
        Ok(purged)
    }
}

/// History that instances of a day still need and that is moved out of the way of the drop: commits wait so long.
const MOVED_MAX: i64 = 20_000;
const AHEAD: &str = "SELECT wf_history_ahead()";
const RETIRE: &str = "SELECT wf_history_retire($1, $2, $3)";

impl Postgres {
    /// Takes one step towards the end of days that are over; at last makes the partitions of the days to come.
    pub(super) async fn retire_history(&self, ended_before: Time) -> Result<bool> {
        let values = [time(ended_before), int(MOVED_MAX), int(ROWS_MAX as i64)];
        let session = self.writers.take().await?;
        session.command(&begin(Scope::All, "")).await.map_err(error)?;
        let more = match session.query(RETIRE, &values).await {
            Ok(rows) => {
                session.command("COMMIT").await.map_err(error)?;
                rows.first().map(|row| get::<i64>(row, 0)).transpose().map_err(error)?.is_some_and(|n| n > 0)
            }
            // Somebody writes or reads for longer than it may wait: the next sweep tries again.
            Err(err) if err.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                session.command("ROLLBACK").await.map_err(error)?;
                false
            }
            Err(err) => return Err(error(err)),
        };
        session.done();
        if !more {
            self.rows(Scope::All, AHEAD, &[]).await?;
        }
        Ok(more)
    }
}

async fn page(session: &Session, purge: &Purge) -> std::result::Result<Purged, PgError> {
    let Purge { ended_before, faulted_before, keys_before, keys_kept, retry_longest, after, limit } = *purge;
    let limit = limit.clamp(1, PURGE_MAX);
    session.query(ERRORS, &[time(faulted_before), int(limit as i64)]).await?;
    let old = [time(keys_before), int(limit as i64), int(keys_kept.0), int(retry_longest.0)];
    let mut keys = session.query(KEYS, &old[..2]).await?.len() as u64;
    keys += session.query(WORKER_KEYS, &old).await?.len() as u64;
    let aged = [time(ended_before), time(faulted_before), int(limit as i64)];
    let slots = session.query(SLOTS, &aged).await?.len() as u64;
    let mut batches = 0;
    for sql in BATCHES {
        batches += session.query(sql, &[time(ended_before), int(limit as i64)]).await?.len() as u64;
    }
    let from = after.unwrap_or((Time(i64::MIN), Uuid::nil()));
    let values = [time(ended_before), time(faulted_before), time(from.0), id(from.1), int(limit as i64)];
    let rows = session.query(ENDED, &values).await?;
    let last = rows.last().map(|row| Ok::<_, PgError>((time_at(row, 0)?, get(row, 1)?))).transpose()?;
    let mut named = Named::default();
    for row in &rows {
        if get(row, 3)? {
            named.push(row, 2, 1)?;
        }
    }
    let instances = named.ids.len() as u64;
    if !forget(session, &named).await? {
        return Ok(Purged { instances: 0, keys, slots, batches, next: Some(from) });
    }
    Ok(Purged { instances, keys, slots, batches, next: last.filter(|_| rows.len() == limit) })
}

/// Deletes all that the instances have. `false` if there is more than may be deleted at once; they are then still there.
async fn forget(session: &Session, named: &Named) -> std::result::Result<bool, PgError> {
    if named.ids.is_empty() {
        return Ok(true);
    }
    named.ask(session, HOLD, None).await?;
    let mut left = ROWS_MAX;
    for sql in BULK {
        left -= named.ask(session, sql, Some(left)).await?.len();
        if left == 0 {
            return Ok(false);
        }
    }
    let history = named.outside_of_days(session).await?;
    if !history.ids.is_empty() {
        left -= history.ask(session, HISTORY, Some(left)).await?.len();
        if left == 0 {
            return Ok(false);
        }
    }
    let mut tasks = Named::default();
    for row in named.ask(session, TASKS, Some(left)).await? {
        tasks.push(&row, 0, 1)?;
    }
    if !tasks.ids.is_empty() {
        tasks.ask(session, TASK_EVENTS, None).await?;
    }
    if tasks.ids.len() == left {
        return Ok(false);
    }
    for sql in REST {
        named.ask(session, sql, None).await?;
    }
    Ok(true)
}

impl Named {
    fn push(&mut self, row: &Row, tenant_at: usize, id_at: usize) -> std::result::Result<(), PgError> {
        self.tenants.push(get(row, tenant_at)?);
        self.ids.push(get(row, id_at)?);
        Ok(())
    }

    /// Those whose history must be deleted row by row.
    async fn outside_of_days(&self, session: &Session) -> std::result::Result<Named, PgError> {
        let mut days: Vec<(Uuid, Uuid)> = Vec::new();
        for row in session.query(DAYS, &[]).await? {
            days.push((get(&row, 0)?, get(&row, 1)?));
        }
        let mut outside = Named::default();
        for (tenant, id) in self.tenants.iter().zip(&self.ids) {
            if !days.iter().any(|(low, high)| low <= id && id < high) {
                outside.tenants.push(tenant.clone());
                outside.ids.push(*id);
            }
        }
        Ok(outside)
    }

    /// One statement over the rows named, with the most rows it may meet.
    async fn ask(
        &self,
        session: &Session,
        sql: &str,
        limit: Option<usize>,
    ) -> std::result::Result<Vec<Row>, PgError> {
        let tenants = Column::Text(self.tenants.iter().map(|tenant| Some(Text(tenant))).collect());
        let ids = Column::Id(self.ids.iter().map(|id| Some(*id)).collect());
        let limit = limit.map(|limit| int(limit as i64));
        let mut params = vec![tenants.param(), ids.param()];
        params.extend(limit.iter().map(Value::param));
        session.prepare(sql, &params).await?;
        session.ask(sql, params).await
    }
}
