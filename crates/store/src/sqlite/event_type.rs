//! What tenants say of types of events.

use super::{
    read::{Read, tenant, time},
    statement::{Prepared, Statement as S},
    write::guard,
};
use crate::{
    commit::Conflict,
    port::Result,
    rows::{Claimed, EventTypeRow},
};
use rusqlite::{Row, params};

const ALL: &str = "SELECT tenant, name, schema, row_version, created_at, updated_at FROM event_types
    ORDER BY tenant, name";

impl Read<'_> {
    /// Those of all tenants.
    pub fn event_types(&self) -> Result<Vec<Claimed<EventTypeRow>>> {
        self.many(ALL, &[], |row| Ok(Claimed { tenant: tenant(row, 0)?, row: event_type(row)? }))
    }
}

fn event_type(row: &Row<'_>) -> rusqlite::Result<EventTypeRow> {
    Ok(EventTypeRow {
        name: row.get(1)?,
        schema: row.get(2)?,
        row_version: row.get(3)?,
        created_at: time(row, 4)?,
        updated_at: time(row, 5)?,
    })
}

pub(super) fn put(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &EventTypeRow,
    expected_version: i64,
) -> rusqlite::Result<Option<Conflict>> {
    let EventTypeRow { name, schema, row_version, created_at, updated_at } = row;
    match expected_version {
        0 => {
            let values = params![tenant, name, row_version, created_at.0, updated_at.0, schema];
            guard(to, S::CreateEventType, values, Conflict::Version)
        }
        expected => {
            let values = params![tenant, name, row_version, updated_at.0, schema, expected];
            guard(to, S::UpdateEventType, values, Conflict::Version)
        }
    }
}
