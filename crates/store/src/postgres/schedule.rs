//! Reads of schedules, their ledger of slots, and the clocks of tenants; what is written of the first two.

use super::{
    read::{optional_time, time},
    value::{Value, get, id, int, maybe_id, maybe_text, maybe_time, text, time as at_time},
};
use crate::rows::*;
use machine::time::Span;
use tokio_postgres::{Error as PgError, Row};

pub(super) const SCHEDULE: &str =
    "SELECT id, namespace, name, version, kind, spec, time_zone, missed, status, anchor, last_slot,
    next_slot, due_at, instance, row_version, created_at, updated_at, tenant FROM schedules";
pub(super) const BY_ID: &str = " WHERE tenant = $1 AND id = $2";
pub(super) const LIST: &str =
    " WHERE tenant = $1 AND (namespace, name) > ($2, $3) AND ($4 IS NULL OR namespace = $4)
    AND ($5 IS NULL OR name = $5) AND ($6 IS NULL OR status = $6) ORDER BY namespace, name LIMIT $7";
pub(super) const DUE: &str = " WHERE due_at <= $1 AND NOT EXISTS (SELECT 1 FROM tenants p
    WHERE p.tenant = schedules.tenant AND p.status <> 'active') ORDER BY due_at LIMIT $2";
pub(super) const NEXT: &str = "SELECT due_at FROM schedules WHERE due_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tenants p WHERE p.tenant = schedules.tenant AND p.status <> 'active') ORDER BY due_at LIMIT 1";
pub(super) const SLOTS: &str =
    "SELECT schedule, slot, outcome, count, instance, late_us, at, detail FROM schedule_slots
    WHERE tenant = $1 AND schedule = $2 AND slot < $3 ORDER BY slot DESC LIMIT $4";
pub(super) const COLLECTION: &str =
    "SELECT version, open FROM schedule_collections WHERE tenant = $1 AND schedule = $2";
pub(super) const CLOCKS: &str = "SELECT tenant, ahead_us FROM tenant_clocks";

pub(super) fn schedule(row: &Row) -> Result<ScheduleRow, PgError> {
    Ok(ScheduleRow {
        id: get(row, 0)?,
        namespace: get(row, 1)?,
        name: get(row, 2)?,
        version: get(row, 3)?,
        kind: get(row, 4)?,
        spec: get(row, 5)?,
        time_zone: get(row, 6)?,
        missed: get(row, 7)?,
        status: get(row, 8)?,
        anchor: time(row, 9)?,
        last_slot: optional_time(row, 10)?,
        next_slot: optional_time(row, 11)?,
        due_at: optional_time(row, 12)?,
        instance: get(row, 13)?,
        row_version: get(row, 14)?,
        created_at: time(row, 15)?,
        updated_at: time(row, 16)?,
    })
}

pub(super) fn collection(row: &Row) -> Result<CollectionRow, PgError> {
    Ok(CollectionRow { version: get(row, 0)?, open: get(row, 1)? })
}

pub(super) fn slot(row: &Row) -> Result<SlotRow, PgError> {
    Ok(SlotRow {
        schedule: get(row, 0)?,
        slot: time(row, 1)?,
        outcome: get(row, 2)?,
        count: get::<i64>(row, 3)?.unsigned_abs(),
        instance: get(row, 4)?,
        late: Span(get(row, 5)?),
        at: time(row, 6)?,
        detail: get(row, 7)?,
    })
}

/// A schedule as it is written.
pub(super) fn values<'a>(tenant: &'a str, row: &'a ScheduleRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.id),
        text(&row.namespace),
        text(&row.name),
        text(&row.version),
        text(&row.kind),
        text(&row.spec),
        text(&row.time_zone),
        text(&row.missed),
        text(&row.status),
        at_time(row.anchor),
        maybe_time(row.last_slot),
        maybe_time(row.next_slot),
        maybe_time(row.due_at),
        maybe_id(row.instance),
        int(row.row_version),
        at_time(row.created_at),
        at_time(row.updated_at),
    ]
}

/// A slot as it is written.
pub(super) fn slot_values<'a>(tenant: &'a str, row: &'a SlotRow) -> Vec<Value<'a>> {
    vec![
        text(tenant),
        id(row.schedule),
        at_time(row.slot),
        text(&row.outcome),
        int(row.count.cast_signed()),
        maybe_id(row.instance),
        int(row.late.0),
        at_time(row.at),
        maybe_text(row.detail.as_deref()),
    ]
}
