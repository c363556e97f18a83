//! Schedules, their ledger of slots, and the clocks of tenants.

use super::{
    read::{Read, id, optional_id, optional_time, tenant, time},
    statement::{Prepared, Statement as S},
};
use crate::{commit::Conflict, port::Result, rows::*, views::*};
use machine::{TenantId, Time, time::Span};
use rusqlite::{Row, params};
use uuid::Uuid;

const SCHEDULE: &str =
    "SELECT id, namespace, name, version, kind, spec, time_zone, missed, status, anchor, last_slot,
    next_slot, due_at, instance, row_version, created_at, updated_at, tenant FROM schedules";
const BY_ID: &str = " WHERE tenant = ?1 AND id = ?2";
const LIST: &str = " WHERE tenant = ?1 AND (namespace, name) > (?2, ?3) AND (?4 IS NULL OR namespace = ?4)
    AND (?5 IS NULL OR name = ?5) AND (?6 IS NULL OR status = ?6) ORDER BY namespace, name LIMIT ?7";
const DUE: &str = " WHERE due_at <= ?1 AND NOT EXISTS (SELECT 1 FROM tenants p
    WHERE p.tenant = schedules.tenant AND p.status <> 'active') ORDER BY due_at LIMIT ?2";
const NEXT: &str =
    "SELECT due_at FROM schedules WHERE due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants p
    WHERE p.tenant = schedules.tenant AND p.status <> 'active') ORDER BY due_at LIMIT 1";
const SLOTS: &str = "SELECT schedule, slot, outcome, count, instance, late_us, at, detail FROM schedule_slots
    WHERE tenant = ?1 AND schedule = ?2 AND slot < ?3 ORDER BY slot DESC LIMIT ?4";
const COLLECTION: &str = "SELECT version, open FROM schedule_collections WHERE tenant = ?1 AND schedule = ?2";
const CLOCKS: &str = "SELECT tenant, ahead_us FROM tenant_clocks";

impl Read<'_> {
    /// Schedules with a slot due at `now`, over all tenants, earliest first.
    pub fn due_schedules(&self, now: Time, limit: usize) -> Result<Vec<Claimed<ScheduleRow>>> {
        self.many(&format!("{SCHEDULE}{DUE}"), params![now.0, limit.min(PAGE_MAX) as i64], |row| {
            Ok(Claimed { tenant: tenant(row, 17)?, row: schedule(row)? })
        })
    }

    /// When the next slot of any schedule is due.
    pub fn next_slot_due(&self) -> Result<Option<Time>> {
        Ok(self.one(NEXT, &[], |row| optional_time(row, 0))?.flatten())
    }

    pub fn schedule(&self, tenant: &TenantId, id: Uuid) -> Result<Option<ScheduleRow>> {
        self.one(&format!("{SCHEDULE}{BY_ID}"), params![tenant.as_str(), id.as_bytes()], schedule)
    }

    /// By namespace and name.
    pub fn schedules(&self, tenant: &TenantId, filter: &ScheduleFilter) -> Result<Vec<ScheduleRow>> {
        let (namespace, name) = filter.after.clone().unwrap_or_default();
        let limit = filter.limit.clamp(1, PAGE_MAX) as i64;
        let values =
            params![tenant.as_str(), namespace, name, filter.namespace, filter.name, filter.status, limit];
        self.many(&format!("{SCHEDULE}{LIST}"), values, schedule)
    }

    /// Newest first, slots before `before`.
    pub fn slots(
        &self,
        tenant: &TenantId,
        schedule: Uuid,
        before: Option<Time>,
        limit: usize,
    ) -> Result<Vec<SlotRow>> {
        let before = before.map_or(i64::MAX, |before| before.0);
        let limit = limit.clamp(1, PAGE_MAX) as i64;
        self.many(SLOTS, params![tenant.as_str(), schedule.as_bytes(), before, limit], |row| {
            Ok(SlotRow {
                schedule: id(row, 0)?,
                slot: time(row, 1)?,
                outcome: row.get(2)?,
                count: row.get::<_, i64>(3)?.unsigned_abs(),
                instance: optional_id(row, 4)?,
                late: Span(row.get(5)?),
                at: time(row, 6)?,
                detail: row.get(7)?,
            })
        })
    }

    /// What a schedule has collected so far.
    pub fn collection(&self, tenant: &TenantId, schedule: Uuid) -> Result<CollectionRow> {
        let row = self.one(COLLECTION, params![tenant.as_str(), schedule.as_bytes()], |row| {
            Ok(CollectionRow { version: row.get(0)?, open: row.get(1)? })
        })?;
        Ok(row.unwrap_or_default())
    }

    /// Tenants whose clock is ahead of the real one.
    pub fn clocks(&self) -> Result<Vec<(TenantId, Span)>> {
        self.many(CLOCKS, &[], |row| Ok((tenant(row, 0)?, Span(row.get(1)?))))
    }
}

fn schedule(row: &Row<'_>) -> rusqlite::Result<ScheduleRow> {
    Ok(ScheduleRow {
        id: id(row, 0)?,
        namespace: row.get(1)?,
        name: row.get(2)?,
        version: row.get(3)?,
        kind: row.get(4)?,
        spec: row.get(5)?,
        time_zone: row.get(6)?,
        missed: row.get(7)?,
        status: row.get(8)?,
        anchor: time(row, 9)?,
        last_slot: optional_time(row, 10)?,
        next_slot: optional_time(row, 11)?,
        due_at: optional_time(row, 12)?,
        instance: optional_id(row, 13)?,
        row_version: row.get(14)?,
        created_at: time(row, 15)?,
        updated_at: time(row, 16)?,
    })
}

/// Inserts or replaces, guarded by the version.
pub(super) fn put(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &ScheduleRow,
    expected: i64,
) -> rusqlite::Result<Option<Conflict>> {
    let micros = |time: Option<Time>| time.map(|time| time.0);
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.namespace,
        row.name,
        row.version,
        row.kind,
        row.spec,
        row.time_zone,
        row.missed,
        row.status,
        row.anchor.0,
        micros(row.last_slot),
        micros(row.next_slot),
        micros(row.due_at),
        row.instance.as_ref().map(Uuid::as_bytes),
        row.row_version,
        row.created_at.0,
        row.updated_at.0,
        expected,
    ];
    let statement = if expected == 0 { S::CreateSchedule } else { S::UpdateSchedule };
    let values = if expected == 0 { &values[..18] } else { values };
    Ok((to.get(statement)?.execute(values)? == 0).then_some(Conflict::Version))
}

pub(super) fn slot(to: &mut Prepared<'_>, tenant: &str, row: &SlotRow) -> rusqlite::Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.schedule.as_bytes(),
        row.slot.0,
        row.outcome,
        row.count.cast_signed(),
        row.instance.as_ref().map(Uuid::as_bytes),
        row.late.0,
        row.at.0,
        row.detail,
    ];
    Ok((to.get(S::Slot)?.execute(values)? == 0).then_some(Conflict::Exists))
}

/// Inserts or replaces what a schedule has collected, guarded by the version.
pub(super) fn collect(
    to: &mut Prepared<'_>,
    tenant: &str,
    schedule: Uuid,
    open: &[u8],
    expected: i64,
) -> rusqlite::Result<Option<Conflict>> {
    let changed = match expected {
        0 => to.get(S::CreateCollection)?.execute(params![tenant, schedule.as_bytes(), open])?,
        _ => to.get(S::UpdateCollection)?.execute(params![tenant, schedule.as_bytes(), open, expected])?,
    };
    Ok((changed == 0).then_some(Conflict::Version))
}

/// Whatever the tenant has queued becomes due `by` earlier.
pub(super) fn advance(to: &mut Prepared<'_>, tenant: &str, by: Span) -> rusqlite::Result<Option<Conflict>> {
    for statement in [
        S::AdvanceClock,
        S::AdvanceTimers,
        S::AdvanceCalls,
        S::AdvanceDeliveries,
        S::AdvanceSignals,
        S::AdvanceSchedules,
    ] {
        to.get(statement)?.execute(params![tenant, by.0])?;
    }
    Ok(None)
}
