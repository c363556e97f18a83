//! How many rows each queue holds. Nobody but this process writes, so the numbers are kept in memory: counted once when they
//! are asked for the first time, then changed with every transaction that commits.

use super::{
    core::Core,
    read::Read,
    statement::{Prepared, Statement as S},
    write::{guard, int},
};
use crate::{
    commit::Conflict,
    port::Result,
    rows::{QueueKind, QueueRow, Unclaimed},
    views::AHEAD_MAX,
};
use machine::{TenantId, Time};
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeMap;
use uuid::Uuid;

const COUNTED: &str = "SELECT tenant, 0, target, count(*) FROM calls GROUP BY tenant, target
    UNION ALL SELECT tenant, 1, worker, count(*) FROM deliveries GROUP BY tenant, worker";
/// The limits keep a look at a long queue short.
const UNCLAIMED: &str = "SELECT
    (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE owner IS NULL AND worker = ?1 AND tenant = ?2
        AND visible_at <= ?3 LIMIT ?4)),
    (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE owner IS NULL AND worker = ?1 AND tenant = ?2
        AND visible_at > ?3 LIMIT ?4)),
    (SELECT min(visible_at) FROM deliveries WHERE owner IS NULL AND worker = ?1 AND tenant = ?2)";

/// Tenant, kind and name of a queue.
type Queue = (String, QueueKind, String);

/// What a transaction has changed so far, in its order.
pub(super) type Changes = Vec<(Queue, i64)>;

/// The numbers; nothing until somebody asks, and after what was not counted row by row.
#[derive(Default)]
pub(super) struct Tally(Option<BTreeMap<Queue, i64>>);

impl Tally {
    pub(super) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// They are counted anew when somebody asks.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    pub(super) fn add(&mut self, changes: Changes) {
        let Some(kept) = &mut self.0 else { return };
        for (queue, change) in changes {
            let depth = kept.entry(queue.clone()).or_default();
            *depth += change;
            if *depth == 0 {
                kept.remove(&queue);
            }
        }
    }

    fn show(&self, tenant: Option<&TenantId>) -> Vec<QueueRow> {
        let mut shown = BTreeMap::<(QueueKind, &str), u64>::new();
        for ((of, kind, name), depth) in self.0.iter().flatten() {
            if tenant.is_none_or(|tenant| tenant.as_str() == of) {
                *shown.entry((*kind, name)).or_default() += depth.unsigned_abs();
            }
        }
        let row =
            |((kind, name), depth): ((QueueKind, &str), u64)| QueueRow { kind, name: name.to_owned(), depth };
        shown.into_iter().map(row).collect()
    }
}

impl Core {
    pub fn queues(&mut self, tenant: Option<&TenantId>) -> Result<Vec<QueueRow>> {
        if !self.tally.is_kept() {
            let rows = self.read().many(COUNTED, &[], |row| {
                let kind = if row.get::<_, i64>(1)? == 0 { QueueKind::Call } else { QueueKind::Delivery };
                Ok(((row.get(0)?, kind, row.get(2)?), row.get(3)?))
            })?;
            self.tally.0 = Some(rows.into_iter().collect());
        }
        Ok(self.tally.show(tenant))
    }
}

impl Read<'_> {
    pub fn unclaimed(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Unclaimed> {
        let values = params![worker, tenant.as_str(), now.0, AHEAD_MAX as i64];
        let found = self.one(UNCLAIMED, values, |row| {
            let oldest: Option<i64> = row.get(2)?;
            let (ready, later): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(Unclaimed {
                ready: ready.unsigned_abs(),
                later: later.unsigned_abs(),
                oldest: oldest.map(Time),
            })
        })?;
        Ok(found.unwrap_or_default())
    }
}

/// Takes note of rows that came or went, if anybody counts.
pub(super) fn note(to: &mut Prepared<'_>, tenant: &str, kind: QueueKind, name: &str, change: i64) {
    if let Some(changes) = &mut to.changes {
        changes.push(((tenant.to_owned(), kind, name.to_owned()), change));
    }
}

/// Which queue a row is in, if anybody counts.
fn name_of(
    to: &mut Prepared<'_>,
    statement: S,
    key: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<Option<String>> {
    match to.changes {
        Some(_) => to.get(statement)?.query_row(key, |row| row.get(0)).optional(),
        None => Ok(None),
    }
}

pub(super) fn consume_delivery(
    to: &mut Prepared<'_>,
    tenant: &str,
    id: Uuid,
    attempt: u32,
) -> rusqlite::Result<Option<Conflict>> {
    let worker = name_of(to, S::WorkerOf, params![tenant, id.as_bytes()])?;
    let lost = guard(to, S::ConsumeDelivery, params![tenant, id.as_bytes(), attempt], Conflict::Gone)?;
    if let (Some(worker), None) = (worker, lost) {
        note(to, tenant, QueueKind::Delivery, &worker, -1);
    }
    Ok(lost)
}

pub(super) fn consume_call(
    to: &mut Prepared<'_>,
    tenant: &str,
    instance: Uuid,
    token: u64,
) -> rusqlite::Result<Option<Conflict>> {
    let key = params![tenant, instance.as_bytes(), int(token)];
    let target = name_of(to, S::TargetOf, key)?;
    let lost = guard(to, S::ConsumeCall, key, Conflict::Gone)?;
    if let (Some(target), None) = (target, lost) {
        note(to, tenant, QueueKind::Call, &target, -1);
    }
    Ok(lost)
}

/// One that is put in the place of another is no row more.
pub(super) fn debounced(to: &mut Prepared<'_>, tenant: &str, id: Uuid, worker: &str) -> rusqlite::Result<()> {
    if name_of(to, S::WorkerOf, params![tenant, id.as_bytes()])?.is_some() {
        note(to, tenant, QueueKind::Delivery, worker, 1);
    }
    Ok(())
}
