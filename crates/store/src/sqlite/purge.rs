//! Retention: deletes instances that ended, with all their rows, and keys of starts that are old enough.
//!
//! One call is one short transaction: it looks at a page of ended instances and stops when it has deleted enough. What
//! an instance has much of goes first and the instance itself last, so that a call which stops in between is gone on
//! from there by the next one.

use super::{
    core::Core,
    error::error,
    read::{id, time},
};
use crate::{port::Result, views::*};
use rusqlite::{Connection, ToSql, params};
use uuid::Uuid;

/// Rows that one call deletes before it stops.
const ROWS_MAX: usize = 5_000;

/// A page of ended instances along the index, and whether each may go.
pub(super) const ENDED: &str = "SELECT ended_at, id, tenant,
    ended_at < iif(status = 'faulted', ?2, ?1) AND status IN ('completed', 'cancelled', 'faulted')
    AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.tenant = i.tenant AND c.instance = i.id)
    AND NOT EXISTS (SELECT 1 FROM wf_schedule_q t WHERE t.tenant = i.tenant AND t.instance = i.id)
    AND NOT EXISTS (SELECT 1 FROM wf_dlq d WHERE d.tenant = i.tenant AND d.instance = i.id)
    AND NOT EXISTS (SELECT 1 FROM wf_instances k WHERE k.tenant = i.tenant AND k.parent = i.id
        AND k.status IN ('pending', 'running', 'waiting', 'paused', 'cancelling'))
    AND NOT EXISTS (SELECT 1 FROM wf_instances p WHERE p.tenant = i.tenant AND p.id = i.parent
        AND p.status NOT IN ('completed', 'cancelled'))
    FROM wf_instances i
    WHERE ended_at IS NOT NULL AND ended_at < max(?1, ?2) AND (ended_at, id) > (?3, ?4)
    ORDER BY ended_at, id LIMIT ?5";
/// Error groups of all tenants that were seen last before ?1.
pub(super) const ERRORS: &str =
    "DELETE FROM error_groups WHERE (tenant, id) IN (SELECT tenant, id FROM error_groups
    WHERE last_at < ?1 ORDER BY last_at LIMIT ?2)";
pub(super) const KEYS: &str =
    "DELETE FROM inbox WHERE (tenant, scope, key) IN (SELECT tenant, scope, key FROM inbox
    WHERE scope = 'start' AND created_at < ?1 ORDER BY created_at LIMIT ?2)";
/// What may still be handed over that the key is of keeps it. Of keys that are kept so many are looked at, so that a page is short.
pub(super) const WORKER_KEYS: &str =
    "DELETE FROM inbox WHERE (tenant, scope, key) IN (SELECT tenant, scope, key FROM (SELECT * FROM inbox
        WHERE scope = 'worker' AND created_at < ?1 ORDER BY created_at LIMIT 50 * ?2) c
        WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.tenant = c.tenant AND d.created_at < c.created_at + ?3)
        AND NOT EXISTS (SELECT 1 FROM wf_dlq l WHERE l.tenant = c.tenant AND l.source = 'delivery'
            AND l.failed_at < c.created_at + ?3 + ?4)
    LIMIT ?2)";

/// What became of due times: as old as an instance that ended well, or as one that faulted if nothing came of it.
pub(super) const SLOTS: &str = "DELETE FROM schedule_slots WHERE (tenant, schedule, slot) IN (
    SELECT tenant, schedule, slot FROM schedule_slots
    WHERE at < max(?1, ?2) AND at < iif(outcome = 'failed', ?2, ?1) ORDER BY at LIMIT ?3)";

/// Items of batches that ended before ?1, and then the batches that have none left.
pub(super) const BATCHES: [&str; 2] = [
    "DELETE FROM batch_items WHERE (tenant, batch, item) IN (SELECT m.tenant, m.batch, m.item FROM batches b
        CROSS JOIN batch_items m ON m.tenant = b.tenant AND m.batch = b.id
        WHERE b.ended_at IS NOT NULL AND b.ended_at < ?1 LIMIT ?2)",
    "DELETE FROM batches WHERE (tenant, id) IN (SELECT b.tenant, b.id FROM batches b
        WHERE b.ended_at IS NOT NULL AND b.ended_at < ?1
        AND NOT EXISTS (SELECT 1 FROM batch_items m WHERE m.tenant = b.tenant AND m.batch = b.id) LIMIT ?2)",
];

/// What an instance may have much of: at most ?3 rows at a time.
pub(super) const BULK: [&str; 3] = [
    "DELETE FROM dataset_items WHERE (tenant, dataset, first, round) IN (
        SELECT m.tenant, m.dataset, m.first, m.round FROM datasets d
        CROSS JOIN dataset_items m ON m.tenant = d.tenant AND m.dataset = d.id
        WHERE d.tenant = ?1 AND d.owner = ?2 LIMIT ?3)",
    "DELETE FROM wf_history WHERE tenant = ?1 AND instance = ?2 AND version IN (
        SELECT version FROM wf_history WHERE tenant = ?1 AND instance = ?2 ORDER BY version LIMIT ?3)",
    "DELETE FROM inbox WHERE tenant = ?1 AND (scope, key) IN (SELECT scope, key FROM inbox
        WHERE tenant = ?1 AND scope IN ('signal:' || lower(hex(?2)), 'event:' || lower(hex(?2))) LIMIT ?3)",
];
pub(super) const TASKS: &str = "DELETE FROM wf_tasks WHERE tenant = ?1 AND id IN (
        SELECT id FROM wf_tasks WHERE tenant = ?1 AND instance = ?2 LIMIT ?3) RETURNING id";
pub(super) const TASK_EVENTS: &str = "DELETE FROM wf_task_events WHERE tenant = ?1 AND task = ?2";
/// The rest, the instance at last.
pub(super) const REST: [&str; 4] = [
    "DELETE FROM datasets WHERE tenant = ?1 AND owner = ?2",
    "DELETE FROM subscriptions WHERE tenant = ?1 AND kind = 'listen' AND owner = ?2",
    "DELETE FROM wf_runtime_states WHERE tenant = ?1 AND runtime_instance_id = ?2",
    "DELETE FROM wf_instances WHERE tenant = ?1 AND id = ?2",
];

/// An ended instance, and whether it may go.
struct Ended {
    mark: PurgeMark,
    tenant: String,
    may_go: bool,
}

impl Core {
    /// Deletes a page of what [`Purge`] allows.
    pub fn purge(&mut self, purge: &Purge) -> Result<Purged> {
        self.transaction(|connection| page(connection, purge).map_err(error))
    }
}

fn page(connection: &Connection, purge: &Purge) -> rusqlite::Result<Purged> {
    let Purge { ended_before, faulted_before, keys_before, keys_kept, retry_longest, after, limit } = *purge;
    let limit = limit.clamp(1, PURGE_MAX);
    let mut left = ROWS_MAX;
    let mut keys = 0;
    keys += execute(connection, KEYS, params![keys_before.0, limit as i64])?;
    let worker_keys = params![keys_before.0, limit as i64, keys_kept.0, retry_longest.0];
    keys += execute(connection, WORKER_KEYS, worker_keys)?;
    execute(connection, ERRORS, params![faulted_before.0, limit as i64])?;
    let slots = execute(connection, SLOTS, params![ended_before.0, faulted_before.0, limit as i64])?;
    let mut batches = 0;
    for sql in BATCHES {
        batches += execute(connection, sql, params![ended_before.0, limit as i64])?;
    }
    let (at, id) = after.unwrap_or((machine::Time(i64::MIN), Uuid::nil()));
    let values = params![ended_before.0, faulted_before.0, at.0, id.as_bytes(), limit as i64];
    let page = ended(connection, values)?;
    let mut purged = Purged {
        instances: 0,
        keys: keys as u64,
        slots: slots as u64,
        batches: batches as u64,
        next: page.last().map(|last| last.mark).filter(|_| page.len() == limit),
    };
    let mut before = after;
    for Ended { mark, tenant, may_go } in page.iter() {
        if *may_go {
            if !forget(connection, tenant, mark.1, &mut left)? {
                purged.next = Some(before.unwrap_or((machine::Time(i64::MIN), Uuid::nil())));
                break;
            }
            purged.instances += 1;
        }
        before = Some(*mark);
    }
    Ok(purged)
}

fn ended(connection: &Connection, values: &[&dyn ToSql]) -> rusqlite::Result<Vec<Ended>> {
    let mut statement = connection.prepare_cached(ENDED)?;
    let rows = statement.query_map(values, |row| {
        Ok(Ended { mark: (time(row, 0)?, id(row, 1)?), tenant: row.get(2)?, may_go: row.get(3)? })
    })?;
    rows.collect()
}

/// Deletes all that the instance has. `false` if there is more than may be deleted at once; the instance is then
/// still there.
fn forget(connection: &Connection, tenant: &str, instance: Uuid, left: &mut usize) -> rusqlite::Result<bool> {
    for sql in BULK {
        *left -= execute(connection, sql, params![tenant, instance.as_bytes(), *left as i64])?;
        if *left == 0 {
            return Ok(false);
        }
    }
    let mut statement = connection.prepare_cached(TASKS)?;
    let values = params![tenant, instance.as_bytes(), *left as i64];
    let tasks = statement.query_map(values, |row| id(row, 0))?.collect::<rusqlite::Result<Vec<Uuid>>>()?;
    for task in &tasks {
        execute(connection, TASK_EVENTS, params![tenant, task.as_bytes()])?;
    }
    *left -= tasks.len();
    if *left == 0 {
        return Ok(false);
    }
    for sql in REST {
        execute(connection, sql, params![tenant, instance.as_bytes()])?;
    }
    Ok(true)
}

fn execute(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(values)
}
